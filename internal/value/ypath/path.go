package ypath

import (
	"fmt"
	"slices"
	"strings"
)

// A Path leads from a root through the tree. The zero Path is the root of the tree. It is immutable:
// its methods return new Paths, and its Steps must not be modified.
type Path struct {
	// Object is the id of the object where the path starts, such as "1-2-3-4", or empty for the root of
	// the tree.
	Object string
	// Stay is set if a link at the root is not followed ("&").
	Stay bool
	// Steps lead from the root to the end of the path, in order.
	Steps []Step
}

// StepKind is the kind of thing that a Step selects.
type StepKind uint8

const (
	Child          StepKind = iota // the child with this key, or the item of a list at this position
	Attribute                      // the attribute of this name
	AllAttributes                  // "/@": the attributes as a map
	EveryChild                     // "/*"
	EveryAttribute                 // "/@*"
)

// A Step leads from a node to one of its parts.
type Step struct {
	Kind StepKind
	// Name is the key or the name, without escapes; empty for kinds that have none.
	Name string
	// Stay is set if a link that the step arrives at is not followed ("&"). Only a Child has it.
	Stay bool
}

// Join returns p with more steps at its end.
func (p Path) Join(steps ...Step) Path {
	p.Steps = slices.Concat(p.Steps, steps)
	return p
}

// String returns the path as text that Parse reads.
func (p Path) String() string {
	b := make([]byte, 0, 32)
	if p.Object == "" {
		b = append(b, '/')
	} else {
		b = append(append(b, '#'), p.Object...)
	}
	if p.Stay {
		b = append(b, '&')
	}
	return string(appendSteps(b, p.Steps))
}

// FormatSteps returns steps as text that ParseSteps reads.
func FormatSteps(steps []Step) string { return string(appendSteps(nil, steps)) }

func appendSteps(b []byte, steps []Step) []byte {
	for _, step := range steps {
		b = append(b, '/')
		switch step.Kind {
		case Child:
			b = appendLiteral(b, step.Name)
		case Attribute:
			b = appendLiteral(append(b, '@'), step.Name)
		case AllAttributes:
			b = append(b, '@')
		case EveryChild:
			b = append(b, '*')
		case EveryAttribute:
			b = append(b, "@*"...)
		}
		if step.Stay {
			b = append(b, '&')
		}
	}
	return b
}

// special are the bytes that a literal may contain only after a backslash.
const special = `\/@&*[{`

// Escape returns a name as a literal of a path.
func Escape(name string) string { return string(appendLiteral(nil, name)) }

func appendLiteral(b []byte, name string) []byte {
	const hex = "0123456789abcdef"
	for i := range len(name) {
		switch c := name[i]; {
		case strings.IndexByte(special, c) >= 0:
			b = append(b, '\\', c)
		case c < 0x20 || c >= 0x7f:
			b = append(b, '\\', 'x', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return b
}

// A SyntaxError describes an error in a path, and its place.
type SyntaxError struct {
	Path    string
	Offset  int // of the offending byte, from zero; the length of Path at its end
	Message string
}

func (e *SyntaxError) Error() string {
	const longest = 200
	path := e.Path
	if len(path) > longest {
		path = path[:longest] + "…"
	}
	return fmt.Sprintf("path %q, character %d: %s", path, e.Offset+1, e.Message)
}
