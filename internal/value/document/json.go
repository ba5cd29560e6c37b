package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/weirhq/weir/internal/value/jsontext"
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
		return jsontext.AppendQuote(b, v.text), nil
	case ListKind:
		b = append(b, '[')
		for i, item := range v.Items() {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = item.appendJSON(b); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	}
	b = append(b, '{')
	for i, e := range v.Entries() {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(jsontext.AppendQuote(b, e.Key), ':')
		if b, err = e.Value.appendJSON(b); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}
