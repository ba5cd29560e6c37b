package notation

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/weirhq/weir/internal/value/document"
)

// ParseJSON reads one JSON document. Whole numbers are exact, duplicate keys and nesting deeper
// than MaxDepth are refused, and every value has its position. The error is of type Problems.
func ParseJSON(file string, data []byte) (document.Value, error) {
	p := &jsonParser{file: file, data: data, line: 1, decoder: json.NewDecoder(bytes.NewReader(data))}
	p.decoder.UseNumber()
	if err := checkText(file, data); err != nil {
		return document.Value{}, err
	}
	token, at, err := p.next()
	if err != nil {
		return document.Value{}, err
	}
	v, err := p.value(token, at, 1)
	if err != nil {
		return document.Value{}, err
	}
	if _, at, err := p.next(); err == nil {
		return document.Value{}, p.refuse(at, document.RuleSeveral, "there is more after the end of the document")
	} else if !errors.Is(err, io.EOF) {
		return document.Value{}, err
	}
	return v, nil
}

type jsonParser struct {
	file    string
	data    []byte
	decoder *json.Decoder
	offset  int // of everything counted in line and column
	line    int32
	column  int32 // from zero
}

func (p *jsonParser) refuse(at document.Position, rule document.Rule, message string) error {
	return document.Problems{{File: p.file, Position: at, Rule: rule, Message: message}}
}

// position counts lines up to offset, which must not be smaller than the last one.
func (p *jsonParser) position(offset int) document.Position {
	offset = min(max(offset, p.offset), len(p.data))
	at := after(document.Position{Line: p.line, Column: p.column + 1}, p.data[p.offset:offset])
	p.offset, p.line, p.column = offset, at.Line, at.Column-1
	return at
}

// next returns the next token and where it starts.
func (p *jsonParser) next() (json.Token, document.Position, error) {
	start := int(p.decoder.InputOffset())
	for start < len(p.data) && bytes.IndexByte([]byte(" \t\r\n,:"), p.data[start]) >= 0 {
		start++
	}
	token, err := p.decoder.Token()
	at := p.position(start)
	if err == nil {
		return token, at, nil
	}
	if start >= len(p.data) && errors.Is(err, io.EOF) {
		if p.decoder.InputOffset() == 0 {
			return nil, at, p.refuse(at, document.RuleSyntax, "the document is empty")
		}
		return nil, at, io.EOF
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		at = p.position(int(syntax.Offset) - 1)
		return nil, at, p.refuse(at, document.RuleSyntax, syntax.Error())
	}
	return nil, at, p.refuse(at, document.RuleSyntax, "the document ends too early")
}

// inner returns the next token inside a list or map, where the end of the text
// is an error.
func (p *jsonParser) inner() (json.Token, document.Position, error) {
	token, at, err := p.next()
	if errors.Is(err, io.EOF) {
		err = p.refuse(at, document.RuleSyntax, "the document ends too early")
	}
	return token, at, err
}

// value builds the value that starts with token; depth is its level, from one.
func (p *jsonParser) value(token json.Token, at document.Position, depth int) (document.Value, error) {
	switch token := token.(type) {
	case nil:
		return document.Null().At(at), nil
	case bool:
		return document.Bool(token).At(at), nil
	case string:
		return document.Text(token).At(at), nil
	case json.Number:
		v, err := parseNumber(token.String())
		if err != nil {
			return document.Value{}, p.refuse(at, document.RuleOutOfRange, err.Error())
		}
		return v.At(at), nil
	}
	if depth > document.MaxDepth {
		return document.Value{}, p.refuse(at, document.RuleTooDeep, tooDeep)
	}
	if token == json.Delim('[') {
		return p.list(at, depth)
	}
	return p.object(at, depth)
}

func (p *jsonParser) list(at document.Position, depth int) (document.Value, error) {
	items := []document.Value{}
	for {
		token, itemAt, err := p.inner()
		if err != nil {
			return document.Value{}, err
		}
		if token == json.Delim(']') {
			return document.List(items...).At(at), nil
		}
		item, err := p.value(token, itemAt, depth+1)
		if err != nil {
			return document.Value{}, err
		}
		items = append(items, item)
	}
}

func (p *jsonParser) object(at document.Position, depth int) (document.Value, error) {
	var entries []document.Entry
	var keys keySet
	for {
		token, keyAt, err := p.inner()
		if err != nil {
			return document.Value{}, err
		}
		if token == json.Delim('}') {
			return document.Map(entries...).At(at), nil
		}
		key := token.(string) // the decoder allows nothing else
		if first, duplicate := keys.add(entries, key); duplicate {
			return document.Value{}, p.refuse(keyAt, document.RuleDuplicateKey, duplicateMessage(key, first.At))
		}
		token, itemAt, err := p.inner()
		if err != nil {
			return document.Value{}, err
		}
		item, err := p.value(token, itemAt, depth+1)
		if err != nil {
			return document.Value{}, err
		}
		entries = append(entries, document.Entry{Key: key, At: keyAt, Value: item})
	}
}
