package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// JSON returns v as JSON text with the given indent, or on one line if it is
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

// MarshalJSON is JSON on one line.
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
