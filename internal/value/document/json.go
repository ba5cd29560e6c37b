package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"
)

// ParseJSON reads one JSON document. Whole numbers are exact, duplicate keys and
// nesting deeper than MaxDepth are refused, and every value has its position.
// The error is of type Problems.
func ParseJSON(file string, data []byte) (Value, error) {
	p := &jsonParser{file: file, data: data, line: 1, decoder: json.NewDecoder(bytes.NewReader(data))}
	p.decoder.UseNumber()
	if err := checkText(file, data); err != nil {
		return Value{}, err
	}
	token, at, err := p.next()
	if err != nil {
		return Value{}, err
	}
	v, err := p.value(token, at, 1)
	if err != nil {
		return Value{}, err
	}
	if _, at, err := p.next(); err == nil {
		return Value{}, p.refuse(at, RuleSeveral, "there is more after the end of the document")
	} else if !errors.Is(err, io.EOF) {
		return Value{}, err
	}
	return v, nil
}

// checkText refuses what no format may contain.
func checkText(file string, data []byte) error {
	if len(data) > MaxSize {
		return Problems{{File: file, Rule: RuleTooLarge,
			Message: fmt.Sprintf("the document has %d bytes; the most is %d", len(data), MaxSize)}}
	}
	if utf8.Valid(data) {
		return nil
	}
	at := Position{Line: 1, Column: 1}
	for rest := data; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError && size == 1 {
			break
		}
		at = at.after(rest[:size])
		rest = rest[size:]
	}
	return Problems{{File: file, Position: at, Rule: RuleSyntax, Message: "the text is not UTF-8"}}
}

// after returns the position behind text that starts at p. Columns count
// characters.
func (p Position) after(text []byte) Position {
	for _, c := range text {
		switch {
		case c == '\n':
			p.Line, p.Column = p.Line+1, 1
		case c&0xC0 != 0x80: // not the rest of a multi-byte character
			p.Column++
		}
	}
	return p
}

type jsonParser struct {
	file    string
	data    []byte
	decoder *json.Decoder
	offset  int // of everything counted in line and column
	line    int32
	column  int32 // from zero
}

func (p *jsonParser) refuse(at Position, rule Rule, message string) error {
	return Problems{{File: p.file, Position: at, Rule: rule, Message: message}}
}

// position counts lines up to offset, which must not be before the last one.
func (p *jsonParser) position(offset int) Position {
	offset = min(max(offset, p.offset), len(p.data))
	at := Position{Line: p.line, Column: p.column + 1}.after(p.data[p.offset:offset])
	p.offset, p.line, p.column = offset, at.Line, at.Column-1
	return at
}

// next returns the next token and where it starts.
func (p *jsonParser) next() (json.Token, Position, error) {
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
			return nil, at, p.refuse(at, RuleSyntax, "the document is empty")
		}
		return nil, at, io.EOF
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		at = p.position(int(syntax.Offset) - 1)
		return nil, at, p.refuse(at, RuleSyntax, syntax.Error())
	}
	return nil, at, p.refuse(at, RuleSyntax, "the document ends too early")
}

// inner returns the next token inside a list or map, where the end of the text
// is an error.
func (p *jsonParser) inner() (json.Token, Position, error) {
	token, at, err := p.next()
	if errors.Is(err, io.EOF) {
		err = p.refuse(at, RuleSyntax, "the document ends too early")
	}
	return token, at, err
}

// value builds the value that starts with token; depth is its level, from one.
func (p *jsonParser) value(token json.Token, at Position, depth int) (Value, error) {
	switch token := token.(type) {
	case nil:
		return Null().At(at), nil
	case bool:
		return Bool(token).At(at), nil
	case string:
		return Text(token).At(at), nil
	case json.Number:
		v, err := parseNumber(token.String())
		if err != nil {
			return Value{}, p.refuse(at, RuleOutOfRange, err.Error())
		}
		return v.At(at), nil
	}
	if depth > MaxDepth {
		return Value{}, p.refuse(at, RuleTooDeep, tooDeep)
	}
	if token == json.Delim('[') {
		return p.list(at, depth)
	}
	return p.object(at, depth)
}

func (p *jsonParser) list(at Position, depth int) (Value, error) {
	v := Value{kind: ListKind, at: at}
	for {
		token, at, err := p.inner()
		if err != nil {
			return Value{}, err
		}
		if token == json.Delim(']') {
			return v, nil
		}
		item, err := p.value(token, at, depth+1)
		if err != nil {
			return Value{}, err
		}
		v.items = append(v.items, item)
	}
}

func (p *jsonParser) object(at Position, depth int) (Value, error) {
	v := Value{kind: MapKind, at: at}
	var keys keySet
	for {
		token, keyAt, err := p.inner()
		if err != nil {
			return Value{}, err
		}
		if token == json.Delim('}') {
			return v, nil
		}
		key := token.(string) // the decoder lets nothing else through
		if first, duplicate := keys.add(v.entries, key); duplicate {
			return Value{}, p.refuse(keyAt, RuleDuplicateKey, duplicateMessage(key, first.At))
		}
		token, at, err := p.inner()
		if err != nil {
			return Value{}, err
		}
		item, err := p.value(token, at, depth+1)
		if err != nil {
			return Value{}, err
		}
		v.entries = append(v.entries, Entry{Key: key, At: keyAt, Value: item})
	}
}

func duplicateMessage(key string, first Position) string {
	return fmt.Sprintf("key %q is here for the second time; the first is at line %d", Shorten(key), first.Line)
}

// keySet finds duplicate keys: by looking at all entries while they are few, and
// in a map when they are many.
type keySet struct {
	index map[string]int
}

// add returns the entry that already has this key, if there is one. The new
// entry must be the next of entries.
func (s *keySet) add(entries []Entry, key string) (first Entry, duplicate bool) {
	const few = 16
	if s.index == nil {
		for _, e := range entries {
			if e.Key == key {
				return e, true
			}
		}
		if len(entries) >= few {
			s.index = make(map[string]int, 2*few)
			for i, e := range entries {
				s.index[e.Key] = i
			}
			s.index[key] = len(entries)
		}
		return Entry{}, false
	}
	if i, ok := s.index[key]; ok {
		return entries[i], true
	}
	s.index[key] = len(entries)
	return Entry{}, false
}

// JSON returns v as JSON text with the given indent, or in one line when it is
// empty. Keys keep their order. NaN and the infinities are an error, because
// JSON does not have them.
func (v Value) JSON(indent string) ([]byte, error) {
	compact, err := v.appendJSON(nil)
	if err != nil || indent == "" {
		return compact, err
	}
	var b bytes.Buffer
	err = json.Indent(&b, compact, "", indent)
	return b.Bytes(), err
}

// MarshalJSON is JSON in one line.
func (v Value) MarshalJSON() ([]byte, error) { return v.appendJSON(nil) }

func (v Value) appendJSON(b []byte) ([]byte, error) {
	var err error
	switch v.kind {
	case NullKind:
		return append(b, "null"...), nil
	case BoolKind:
		return strconv.AppendBool(b, v.number != 0), nil
	case IntKind:
		return strconv.AppendInt(b, int64(v.number), 10), nil
	case UintKind:
		return strconv.AppendUint(b, v.number, 10), nil
	case FloatKind:
		f := math.Float64frombits(v.number)
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("%v cannot be written as JSON", f)
		}
		return append(b, formatFloat(f)...), nil
	case StringKind:
		return appendJSONString(b, v.text)
	case ListKind:
		b = append(b, '[')
		for i := range v.items {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = v.items[i].appendJSON(b); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	}
	b = append(b, '{')
	for i := range v.entries {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendJSONString(b, v.entries[i].Key); err != nil {
			return nil, err
		}
		b = append(b, ':')
		if b, err = v.entries[i].Value.appendJSON(b); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendJSONString(b []byte, s string) ([]byte, error) {
	buffer := bytes.NewBuffer(b)
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}
