package document

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Rule is the stable name of a rule that a document broke. Programs distinguish problems by their
// rules; the sentences are for people and may change.
type Rule string

// Rules of this package. Packages that validate further define their own.
const (
	RuleSyntax        Rule = "syntax"         // the text is not YAML or JSON
	RuleTooDeep       Rule = "too_deep"       // nested deeper than MaxDepth
	RuleTooLarge      Rule = "too_large"      // longer than MaxSize, or aliases expand to too much
	RuleSeveral       Rule = "several"        // more than one document in a file
	RuleDuplicateKey  Rule = "duplicate_key"  // one key twice in a map
	RuleUnknownKey    Rule = "unknown_key"    // a key that no option has
	RuleTwoNames      Rule = "two_names"      // one option under two of its names
	RuleWrongType     Rule = "wrong_type"     // text where a number must be, …
	RuleOutOfRange    Rule = "out_of_range"   // a number, duration or length beyond its bounds
	RuleNotFinite     Rule = "not_finite"     // NaN or an infinity
	RuleUnknownValue  Rule = "unknown_value"  // a word that is none of the possible ones
	RuleRepeated      Rule = "repeated"       // the same item twice in a list
	RuleBadFormat     Rule = "bad_format"     // text that does not follow its grammar
	RuleMissing       Rule = "missing"        // an option that must be given
	RuleNotSupported  Rule = "not_supported"  // a known option that has no effect here
	RuleValueAdjusted Rule = "value_adjusted" // a value was replaced by a legal one
)

// Problem is one error or warning about a document.
type Problem struct {
	File string
	Position
	// Path leads to the problem through the keys: "pools/production/weight".
	Path string
	Rule Rule
	// Message is a sentence without a full stop that reads well after the path:
	// "must be a number from 0 to 1, not 1.5".
	Message string
	// Facts are the amounts and names in the message, for programs.
	Facts []Entry
}

// Fact returns the fact with this name, or null.
func (p Problem) Fact(name string) Value {
	for _, f := range p.Facts {
		if f.Key == name {
			return f.Value
		}
	}
	return Null()
}

// String returns the problem on one line: "pools.yaml:12:5: pools/a/weight: …".
func (p Problem) String() string {
	var b strings.Builder
	switch {
	case p.File != "" && !p.Position.IsZero():
		fmt.Fprintf(&b, "%s:%v: ", p.File, p.Position)
	case p.File != "":
		fmt.Fprintf(&b, "%s: ", p.File)
	case !p.Position.IsZero():
		fmt.Fprintf(&b, "%v: ", p.Position)
	}
	if p.Path != "" {
		b.WriteString(p.Path)
		b.WriteString(": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Problems is a list of problems. It is an error; use Err to return it, so that an empty list is
// not an error.
type Problems []Problem

// Error returns one problem per line.
func (ps Problems) Error() string {
	var b strings.Builder
	for i, p := range ps {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.String())
	}
	return b.String()
}

// Err returns ps as an error, or nil if it is empty.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// Sorted returns the problems in the order of a report: by file and position, and in the order in
// which they were found if the position is equal or unknown.
func (ps Problems) Sorted() Problems {
	sorted := slices.Clone(ps)
	slices.SortStableFunc(sorted, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
		)
	})
	return sorted
}

// With returns the problems that broke rule.
func (ps Problems) With(rule Rule) Problems {
	var found Problems
	for _, p := range ps {
		if p.Rule == rule {
			found = append(found, p)
		}
	}
	return found
}
