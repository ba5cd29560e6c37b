package resource

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// MarshalJSON writes an object with every kind in order. Numbers are exact: cpu
// in cores with at most two decimals, the rest as integers. An unlimited
// component is the string "unlimited".
func (a Amounts) MarshalJSON() ([]byte, error) { return marshalComponents(PartialOf(a)), nil }

// UnmarshalJSON reads what MarshalJSON writes; absent components are zero. It also accepts strings
// as ParseLimit does.
func (a *Amounts) UnmarshalJSON(data []byte) error {
	p, err := unmarshalComponents(data)
	if err == nil {
		*a = p.OrZero()
	}
	return err
}

// MarshalJSON writes an object with the present components.
func (p Partial) MarshalJSON() ([]byte, error) { return marshalComponents(p), nil }

// UnmarshalJSON reads an object whose keys are names of kinds. Components
// without a key are absent.
func (p *Partial) UnmarshalJSON(data []byte) error {
	read, err := unmarshalComponents(data)
	if err == nil {
		*p = read
	}
	return err
}

func marshalComponents(p Partial) []byte {
	b := []byte{'{'}
	for _, k := range Kinds {
		v, ok := p.Get(k)
		if !ok {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = strconv.AppendQuote(b, k.String())
		b = append(b, ':')
		if v >= Unlimited || v <= -Unlimited {
			b = strconv.AppendQuote(b, FormatExact(k, v))
			continue
		}
		// Without a unit, so that it is a JSON number.
		b = append(b, formatSigned(k, v, nil)...)
	}
	return append(b, '}')
}

func unmarshalComponents(data []byte) (p Partial, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	start, err := decoder.Token()
	if err != nil {
		return p, err
	}
	if start == nil {
		return p, nil
	}
	if start != json.Delim('{') {
		return p, fmt.Errorf("resources: want an object like {\"cpu\": 1.5}, not %v", start)
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return Partial{}, err
		}
		name := key.(string)
		k, ok := ParseKind(name)
		if !ok {
			return Partial{}, fmt.Errorf("resources: unknown resource %q; known are %s", name, strings.Join(kindNames[:], ", "))
		}
		if p.Has(k) {
			return Partial{}, fmt.Errorf("resources: %v is given twice", k)
		}
		value, err := decoder.Token()
		if err != nil {
			return Partial{}, err
		}
		v, err := jsonAmount(k, value)
		if err != nil {
			return Partial{}, fmt.Errorf("resources: %w", err)
		}
		p = p.With(k, v)
	}
	return p, nil
}

// jsonAmount reads a number, which may be negative because differences of amounts are stored too,
// or a string as people write it.
func jsonAmount(k Kind, value json.Token) (int64, error) {
	var text string
	switch value := value.(type) {
	case json.Number:
		text = value.String()
	case string:
		text = value
	default:
		return 0, fmt.Errorf("%v: want a number or a string, not %v", k, value)
	}
	if magnitude, negative := strings.CutPrefix(text, "-"); negative {
		v, err := ParseLimit(k, magnitude)
		return -v, err
	}
	return ParseLimit(k, text)
}
