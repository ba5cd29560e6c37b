package resource

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weirhq/weir/internal/value/jsontext"
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
	s := jsontext.Scanner{Data: data, Duplicates: true} // two names may be one kind
	switch s.Peek() {
	case jsontext.Null:
		return p, nil
	case jsontext.Object:
		s.Open()
	case jsontext.None:
		return p, s.Err()
	default:
		return p, fmt.Errorf("resources: want an object like {\"cpu\": 1.5}, not %s", skipped(&s))
	}
	for {
		key, _, more := s.Key()
		if !more {
			break
		}
		k, ok := ParseKind(string(key))
		if !ok {
			return Partial{}, fmt.Errorf("resources: unknown resource %q; known are %s", key, strings.Join(kindNames[:], ", "))
		}
		if p.Has(k) {
			return Partial{}, fmt.Errorf("resources: %v is given twice", k)
		}
		v, err := jsonAmount(&s, k)
		if err != nil {
			return Partial{}, fmt.Errorf("resources: %w", err)
		}
		p = p.With(k, v)
	}
	if err := s.Err(); err != nil {
		return Partial{}, err
	}
	return p, nil
}

// skipped returns the text of the next value.
func skipped(s *jsontext.Scanner) []byte {
	at := s.Offset()
	s.Skip()
	return s.Since(at)
}

// jsonAmount reads a number, which may be negative because differences of amounts are stored too,
// or a string as people write it.
func jsonAmount(s *jsontext.Scanner, k Kind) (int64, error) {
	var text []byte
	switch s.Peek() {
	case jsontext.Number:
		n, _ := s.Number()
		text = n.Text
	case jsontext.String:
		text, _ = s.Text()
	case jsontext.None:
	default:
		return 0, fmt.Errorf("%v: want a number or a string, not %s", k, skipped(s))
	}
	if err := s.Err(); err != nil {
		return 0, err
	}
	if magnitude, negative := strings.CutPrefix(string(text), "-"); negative {
		v, err := ParseLimit(k, magnitude)
		return -v, err
	}
	return ParseLimit(k, string(text))
}
