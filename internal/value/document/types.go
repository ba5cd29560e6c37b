package document

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Style is the audience that values are written for.
type Style uint8

const (
	// ForPrograms writes values for programs: durations as milliseconds, amounts as numbers.
	ForPrograms Style = iota
	// ForPeople writes values as people edit them: 30s, 64GiB.
	ForPeople
)

// Shape describes the values of a type, for messages, documentation and schemas.
type Shape struct {
	// Kind is boolean, integer, number, string, duration, list, map or any.
	Kind string
	// Says completes "must be …": "a number from 0 to 1".
	Says string
	// Values are the possible words, for enumerations.
	Values []string
	// Minimum and Maximum are bounds that are themselves allowed, and
	// ExclusiveMinimum is one that is not; null means none.
	Minimum, Maximum, ExclusiveMinimum Value
	// Item is the shape of items of a list and of values of a map.
	Item *Shape
	// Options are the keys of a map that has a table.
	Options []*Info
}

// Type defines how values of a Go type are read, written and compared. Types are values: methods
// return changed copies.
type Type[F any] struct {
	shape    Shape
	read     func(r *Reader, v Value) (F, bool)
	write    func(f F, style Style) Value
	equal    func(a, b F) bool
	merge    func(over, under F) F // for nested maps; without it the upper value replaces the lower one
	diff     func(prefix string, a, b F) []Change
	fill     func(*F) // fills in defaults inside
	fallback Optional[F]
}

// NewType returns a type. read must report a problem to the reader if it returns false; write must
// be its inverse in every style.
func NewType[F any](
	shape Shape,
	read func(r *Reader, v Value) (F, bool),
	write func(f F, style Style) Value,
	equal func(a, b F) bool,
) Type[F] {
	return Type[F]{shape: shape, read: read, write: write, equal: equal}
}

// Shape describes the values of the type.
func (t Type[F]) Shape() Shape { return t.shape }

// Default returns the type with a default, which [Table.FillDefaults] uses and documentation shows.
func (t Type[F]) Default(value F) Type[F] {
	t.fallback = Some(value)
	return t
}

// That returns the type restricted to the values for which holds returns true. says completes "must
// be …".
func (t Type[F]) That(says string, rule Rule, holds func(F) bool) Type[F] {
	read := t.read
	t.shape.Says = says
	shape := t.shape
	t.read = func(r *Reader, v Value) (F, bool) {
		f, ok := read(r, v)
		if ok && !holds(f) {
			mustBe(r, v, rule, says, shape.bounds()...)
			ok = false
		}
		return f, ok
	}
	return t
}

// mustBe reports that v breaks a rule; says describes what it must be.
func mustBe(r *Reader, v Value, rule Rule, says string, facts ...Entry) {
	facts = append([]Entry{Pair("value", plainFact(v)), Pair("type", Text(v.kind.String()))}, facts...)
	r.Refuse(v.at, rule, "must be "+says+", not "+describe(v), facts...)
}

// bounds are the bounds of a type as facts.
func (s *Shape) bounds() (facts []Entry) {
	for _, f := range []Entry{Pair("minimum", s.Minimum), Pair("exclusive_minimum", s.ExclusiveMinimum), Pair("maximum", s.Maximum)} {
		if !f.Value.IsNull() {
			facts = append(facts, f)
		}
	}
	return facts
}

// plainFact keeps scalars as facts; collections would repeat the document.
func plainFact(v Value) Value {
	if v.kind == ListKind || v.kind == MapKind {
		return Text(v.kind.String())
	}
	return v
}

// describe names a value in a message.
func describe(v Value) string {
	switch v.kind {
	case StringKind:
		return fmt.Sprintf("%q", Shorten(v.text))
	case ListKind:
		if len(v.Items()) == 0 {
			return "an empty list"
		}
		return "a list"
	case MapKind:
		if len(v.Entries()) == 0 {
			return "an empty map"
		}
		return "a map"
	}
	return v.String()
}

func same[F comparable](a, b F) bool { return a == b }

// Bools reads true and false.
var Bools = NewType(Shape{Kind: "boolean", Says: "true or false"},
	func(r *Reader, v Value) (bool, bool) {
		b, ok := v.Bool()
		if !ok {
			mustBe(r, v, RuleWrongType, "true or false")
		}
		return b, ok
	},
	func(b bool, _ Style) Value { return Bool(b) }, same[bool])

// Ints reads whole numbers.
var Ints = NewType(Shape{Kind: "integer", Says: "a whole number"},
	func(r *Reader, v Value) (int, bool) {
		i, ok := v.Int64()
		if !ok || int64(int(i)) != i {
			rule := RuleWrongType
			if v.kind == UintKind || ok {
				rule = RuleOutOfRange
			}
			mustBe(r, v, rule, "a whole number")
			return 0, false
		}
		return int(i), true
	},
	func(i int, _ Style) Value { return Int(int64(i)) }, same[int])

// Numbers reads finite numbers.
var Numbers = NewType(Shape{Kind: "number", Says: "a number"},
	func(r *Reader, v Value) (float64, bool) {
		f, ok := v.Float64()
		switch {
		case !ok:
			mustBe(r, v, RuleWrongType, "a number")
		case math.IsNaN(f) || math.IsInf(f, 0):
			mustBe(r, v, RuleNotFinite, "a finite number")
			ok = false
		}
		return f, ok
	},
	func(f float64, _ Style) Value { return Number(f) }, same[float64])

// Texts reads strings, empty ones too.
var Texts = NewType(Shape{Kind: "string", Says: "a string"},
	func(r *Reader, v Value) (string, bool) {
		s, ok := v.Text()
		if !ok {
			mustBe(r, v, RuleWrongType, "a string")
		}
		return s, ok
	},
	func(s string, _ Style) Value { return Text(s) }, same[string])

// Words reads strings that are not empty.
var Words = Texts.That("a string that is not empty", RuleOutOfRange, func(s string) bool { return s != "" })

// Anything keeps any value as it is.
var Anything = NewType(Shape{Kind: "any", Says: "any value"},
	func(_ *Reader, v Value) (Value, bool) { return v, true },
	func(v Value, _ Style) Value { return v }, Value.Equal)

// bound writes a bound of an ordered type as it appears in documents.
func bound[F any](t Type[F], f F) Value { return t.write(f, ForPeople) }

// Between restricts a type to values from lo to hi, both included.
func Between[F cmp.Ordered](t Type[F], lo, hi F) Type[F] {
	t.shape.Minimum, t.shape.Maximum = bound(t, lo), bound(t, hi)
	says := fmt.Sprintf("%s from %v to %v", t.shape.Says, t.shape.Minimum, t.shape.Maximum)
	return t.That(says, RuleOutOfRange, func(f F) bool { return lo <= f && f <= hi })
}

// AtLeast restricts a type to values of at least lo.
func AtLeast[F cmp.Ordered](t Type[F], lo F) Type[F] {
	t.shape.Minimum = bound(t, lo)
	says := fmt.Sprintf("%s of at least %v", t.shape.Says, t.shape.Minimum)
	return t.That(says, RuleOutOfRange, func(f F) bool { return lo <= f })
}

// Above restricts a type to values greater than lo.
func Above[F cmp.Ordered](t Type[F], lo F) Type[F] {
	t.shape.Minimum, t.shape.ExclusiveMinimum = Null(), bound(t, lo)
	says := fmt.Sprintf("%s greater than %v", t.shape.Says, t.shape.ExclusiveMinimum)
	return t.That(says, RuleOutOfRange, func(f F) bool { return lo < f })
}

// Word is one value of an enumeration: its name and other accepted spellings.
// Hyphens and underscores are alike.
type Word[E comparable] struct {
	Name    string
	Value   E
	Aliases []string
}

// Enum reads one of the words.
func Enum[E comparable](words ...Word[E]) Type[E] {
	byName := map[string]E{}
	var names []string
	for _, w := range words {
		names = append(names, w.Name)
		for _, name := range append([]string{w.Name}, w.Aliases...) {
			byName[Normal(name)] = w.Value
		}
	}
	says := strings.Join(names, " or ")
	if len(names) > 2 {
		says = "one of " + strings.Join(names, ", ")
	}
	return NewType(Shape{Kind: "string", Says: says, Values: names},
		func(r *Reader, v Value) (E, bool) {
			var zero E
			text, ok := v.Text()
			if !ok {
				mustBe(r, v, RuleWrongType, says)
				return zero, false
			}
			e, ok := byName[Normal(text)]
			if !ok {
				r.Refuse(v.at, RuleUnknownValue, "must be "+says+", not "+describe(v)+didYouMean(text, names),
					Pair("value", v))
			}
			return e, ok
		},
		func(e E, _ Style) Value {
			for _, w := range words {
				if w.Value == e {
					return Text(w.Name)
				}
			}
			return Null()
		}, same[E])
}

// ListOf reads lists of the type.
func ListOf[F any](item Type[F]) Type[[]F] {
	says := "a list"
	return NewType(Shape{Kind: "list", Says: says, Item: &item.shape},
		func(r *Reader, v Value) ([]F, bool) {
			if v.kind != ListKind {
				mustBe(r, v, RuleWrongType, says)
				return nil, false
			}
			list := make([]F, 0, len(v.Items()))
			for i, x := range v.Items() {
				r.Enter(fmt.Sprint(i))
				f, ok := item.read(r, x)
				r.Leave()
				if ok {
					list = append(list, f)
				}
			}
			return list, len(list) == len(v.Items())
		},
		func(list []F, style Style) Value {
			items := make([]Value, len(list))
			for i, f := range list {
				items[i] = item.write(f, style)
			}
			return List(items...)
		},
		func(a, b []F) bool { return slices.EqualFunc(a, b, item.equal) })
}

// OneOrMore is ListOf that also accepts a single item as a list of one.
func OneOrMore[F any](item Type[F]) Type[[]F] {
	t := ListOf(item)
	list := t.read
	t.shape.Says = item.shape.Says + ", or a list of such"
	t.read = func(r *Reader, v Value) ([]F, bool) {
		if v.kind == ListKind {
			return list(r, v)
		}
		f, ok := item.read(r, v)
		return []F{f}, ok
	}
	return t
}

// Distinct restricts a list to pairwise different items.
func Distinct[F any](t Type[[]F], equal func(a, b F) bool) Type[[]F] {
	read := t.read
	t.read = func(r *Reader, v Value) ([]F, bool) {
		list, ok := read(r, v)
		for i := range list {
			if ok && slices.ContainsFunc(list[:i], func(f F) bool { return equal(f, list[i]) }) {
				r.Refuse(v.Items()[i].at, RuleRepeated, describe(v.Items()[i])+" is in the list twice", Pair("value", v.Items()[i]))
				return nil, false
			}
		}
		return list, ok
	}
	return t
}

// MapOf reads maps whose keys are free names. Null is an empty map.
func MapOf[F any](item Type[F]) Type[[]Named[F]] {
	says := "a map"
	return NewType(Shape{Kind: "map", Says: says, Item: &item.shape},
		func(r *Reader, v Value) ([]Named[F], bool) {
			if v.kind != MapKind && v.kind != NullKind {
				mustBe(r, v, RuleWrongType, says)
				return nil, false
			}
			list := make([]Named[F], 0, len(v.Entries()))
			for _, e := range v.Entries() {
				r.Enter(e.Key)
				f, ok := item.read(r, e.Value)
				r.Leave()
				if ok {
					list = append(list, Named[F]{Name: e.Key, Value: f})
				}
			}
			return list, len(list) == len(v.Entries())
		},
		func(list []Named[F], style Style) Value {
			entries := make([]Entry, len(list))
			for i, f := range list {
				entries[i] = Pair(f.Name, item.write(f.Value, style))
			}
			return Map(entries...)
		},
		func(a, b []Named[F]) bool {
			return slices.EqualFunc(a, b, func(x, y Named[F]) bool {
				return x.Name == y.Name && item.equal(x.Value, y.Value)
			})
		})
}

// ReadAs reads v as a value of the type, for readers of types that build on others. It reports a
// problem to the reader if it returns false.
func ReadAs[F any](t Type[F], r *Reader, v Value) (F, bool) { return t.read(r, v) }
