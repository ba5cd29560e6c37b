package notation

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/jsontext"
)

// ParseJSON reads one JSON document. Whole numbers are exact, duplicate keys and nesting deeper
// than MaxDepth are refused, and every value has its position. The error is of type Problems.
func ParseJSON(file string, data []byte) (document.Value, error) {
	if err := checkText(file, data); err != nil {
		return document.Value{}, err
	}
	p := jsonParser{
		Scanner: jsontext.Scanner{Data: data, MaxDepth: document.MaxDepth},
		at:      document.Position{Line: 1, Column: 1},
		keys:    map[string]string{},
	}
	problem := document.Problem{Rule: document.RuleSyntax, Message: "the document is empty"}
	offset := p.Offset()
	if offset < len(data) {
		v := p.value()
		if p.End() {
			return v, nil
		}
		err := p.Err()
		problem, offset = JSONProblem(err), err.Offset
		if err.Code == jsontext.Duplicate {
			problem.Message = fmt.Sprintf("%s; the first is at line %d", err.Message, 1+bytes.Count(data[:err.First], []byte{'\n'}))
		}
	}
	problem.File, problem.Position = file, p.position(offset)
	return document.Value{}, document.Problems{problem}
}

// JSONProblem returns an error of a Scanner as a problem without file and position.
func JSONProblem(err *jsontext.Error) document.Problem {
	problem := document.Problem{Rule: document.RuleSyntax, Message: err.Message}
	switch err.Code {
	case jsontext.Truncated:
		problem.Message = "the document ends too early"
	case jsontext.Trailing:
		problem.Rule = document.RuleSeveral
	case jsontext.TooDeep:
		problem.Rule = document.RuleTooDeep
	case jsontext.OutOfRange:
		problem.Rule = document.RuleOutOfRange
	case jsontext.Duplicate:
		problem.Rule, problem.Message = document.RuleDuplicateKey, "this key is here for the second time"
	}
	return problem
}

// jsonParser builds a Value. After an error, which the Scanner has, its results have no meaning.
type jsonParser struct {
	jsontext.Scanner
	counted int               // the offset that at belongs to
	at      document.Position // of everything read so far
	items   []document.Value  // of open lists, outermost first
	entries []document.Entry  // of open objects
	keys    map[string]string // the first keys of the text, so that equal ones share memory
}

// position counts lines and columns up to an offset, which must not be smaller than the last one.
func (p *jsonParser) position(offset int) document.Position {
	if offset > p.counted {
		p.at = after(p.at, p.Data[p.counted:offset])
		p.counted = offset
	}
	return p.at
}

func (p *jsonParser) value() document.Value {
	kind := p.Peek()
	if kind == jsontext.None {
		return document.Value{}
	}
	at := p.position(p.Offset())
	switch kind {
	case jsontext.List:
		return p.list().At(at)
	case jsontext.Object:
		return p.object().At(at)
	case jsontext.String:
		text, _ := p.Text()
		return document.Text(string(text)).At(at)
	case jsontext.Number:
		return p.number().At(at)
	}
	p.Word()
	if kind == jsontext.Null {
		return document.Null().At(at)
	}
	return document.Bool(kind == jsontext.True).At(at)
}

func (p *jsonParser) number() document.Value {
	switch kind, bits := p.Exact(); kind {
	case jsontext.Int64:
		return document.Int(int64(bits))
	case jsontext.Uint64:
		return document.Uint(bits)
	default:
		return document.Float(math.Float64frombits(bits))
	}
}

func (p *jsonParser) list() document.Value {
	mark := len(p.items)
	for p.Open(); p.Item(); {
		item := p.value()
		p.items = append(p.items, item)
	}
	items := append([]document.Value{}, p.items[mark:]...)
	p.items = p.items[:mark]
	return document.List(items...)
}

func (p *jsonParser) object() document.Value {
	mark := len(p.entries)
	p.Open()
	for {
		text, offset, more := p.Key()
		if !more {
			break
		}
		p.entries = append(p.entries, document.Entry{Key: p.key(text), At: p.position(offset)})
		item := p.value()
		p.entries[len(p.entries)-1].Value = item
	}
	entries := slices.Clone(p.entries[mark:])
	p.entries = p.entries[:mark]
	return document.Map(entries...)
}

// key returns a key as a string. Keys repeat, so the first thousand are kept.
func (p *jsonParser) key(text []byte) string {
	if key, known := p.keys[string(text)]; known {
		return key
	}
	key := string(text)
	if len(p.keys) < 1000 {
		p.keys[key] = key
	}
	return key
}
