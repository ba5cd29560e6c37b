package document

import (
	"fmt"
	"slices"
	"strings"
)

// Option is one key of a map that is read into a struct of type T: its names, its purpose, and how
// it is read, written and compared. Make one with Maybe, Plain, Section or Kept.
type Option[T any] struct {
	info *Info // shared and never modified
	ops  operations[T]
}

// Info describes an option.
type Info struct {
	Name    string
	Aliases []string
	Doc     string
	// Default is the effective value of an unset option; null if there is no default.
	Default Value
	// NotSupported is the reason why the option has no effect; empty if it has one.
	NotSupported string
	Shape        Shape
}

// operations are a table's operations on one option of a T.
type operations[T any] struct {
	read        func(r *Reader, v Value, into *T) bool
	write       func(from *T, style Style) (Value, bool)
	fill        func(into, under *T)
	fillDefault func(into *T)
	diff        func(prefix string, a, b *T) []Change
}

// Maybe is an option that can be distinguished from unset.
func Maybe[T, F any](name, doc string, at func(*T) *Optional[F], t Type[F]) Option[T] {
	o := Option[T]{info: &Info{Name: name, Doc: doc, Shape: t.shape}}
	if value, ok := t.fallback.Get(); ok {
		o.info.Default = t.write(value, ForPeople)
	}
	o.ops = operations[T]{
		read: func(r *Reader, v Value, into *T) bool {
			f, ok := t.read(r, v)
			if ok {
				*at(into) = Some(f)
			}
			return ok
		},
		write: func(from *T, style Style) (Value, bool) {
			f, ok := at(from).Get()
			if !ok {
				return Value{}, false
			}
			return t.write(f, style), true
		},
		fill: func(into, under *T) {
			over, low := at(into), at(under)
			switch {
			case !over.set:
				*over = *low
			case low.set && t.merge != nil:
				*over = Some(t.merge(over.value, low.value))
			}
		},
		fillDefault: func(into *T) {
			field := at(into)
			if !field.set {
				*field = t.fallback
			} else if t.fill != nil {
				t.fill(&field.value)
			}
		},
		diff: func(prefix string, a, b *T) []Change {
			x, y := at(a), at(b)
			if x.set == y.set && (!x.set || t.equal(x.value, y.value)) {
				return nil
			}
			if t.diff != nil && x.set && y.set {
				return t.diff(prefix+name+"/", x.value, y.value)
			}
			return []Change{t.change(prefix+name, *x, *y)}
		},
	}
	return o
}

// Plain is an option whose zero value is the same as unset.
func Plain[T, F any](name, doc string, at func(*T) *F, t Type[F]) Option[T] {
	var zero F
	isSet := func(f F) bool { return !t.equal(f, zero) }
	optional := func(f F) Optional[F] { return Optional[F]{value: f, set: isSet(f)} }
	o := Option[T]{info: &Info{Name: name, Doc: doc, Shape: t.shape}}
	if value, ok := t.fallback.Get(); ok {
		o.info.Default = t.write(value, ForPeople)
	}
	o.ops = operations[T]{
		read: func(r *Reader, v Value, into *T) bool {
			f, ok := t.read(r, v)
			if ok {
				*at(into) = f
			}
			return ok
		},
		write: func(from *T, style Style) (Value, bool) {
			if f := *at(from); isSet(f) {
				return t.write(f, style), true
			}
			return Value{}, false
		},
		fill: func(into, under *T) {
			over, low := at(into), at(under)
			switch {
			case !isSet(*over):
				*over = *low
			case isSet(*low) && t.merge != nil:
				*over = t.merge(*over, *low)
			}
		},
		fillDefault: func(into *T) {
			if field := at(into); !isSet(*field) {
				*field = t.fallback.Or(*field)
			}
		},
		diff: func(prefix string, a, b *T) []Change {
			x, y := *at(a), *at(b)
			if t.equal(x, y) {
				return nil
			}
			if t.diff != nil {
				return t.diff(prefix+name+"/", x, y)
			}
			return []Change{t.change(prefix+name, optional(x), optional(y))}
		},
	}
	return o
}

// Section is a nested map with a separate table. It is written if one of its options is set.
func Section[T, F any](name, doc string, at func(*T) *F, table *Table[F]) Option[T] {
	o := Plain(name, doc, at, table.Type())
	o.ops.fillDefault = func(into *T) { table.FillDefaults(at(into)) }
	o.ops.fill = func(into, under *T) { table.Fill(at(into), at(under)) }
	return o
}

// Extras are entries of a map that are kept unchanged, because no option has their key or because
// the option is not supported.
type Extras []Entry

// Get returns the kept value under this name.
func (x Extras) Get(name string) (Value, bool) { return Map(x...).Get(name) }

// set returns a copy, so that copied structs do not share writes.
func (x Extras) set(name string, v Value) Extras {
	entries := Map(x...).With(name, v).Entries()
	for i := range entries {
		entries[i].At = Position{}
	}
	return entries
}

// Kept is an option that is known and accepted but has no effect, for the given reason. Its value
// is kept among the extras.
func Kept[T any](name, reason string, at func(*T) *Extras) Option[T] {
	o := Option[T]{info: &Info{Name: name, NotSupported: reason, Shape: Anything.shape}}
	o.ops = operations[T]{
		read: func(_ *Reader, v Value, into *T) bool {
			*at(into) = at(into).set(name, v)
			return true
		},
		write: func(from *T, _ Style) (Value, bool) { return at(from).Get(name) },
		fill: func(into, under *T) {
			if v, ok := at(under).Get(name); ok {
				if _, has := at(into).Get(name); !has {
					*at(into) = at(into).set(name, v)
				}
			}
		},
		fillDefault: func(*T) {},
		diff:        func(prefix string, a, b *T) []Change { return diffExtra(prefix, name, *at(a), *at(b)) },
	}
	return o
}

func diffExtra(prefix, name string, a, b Extras) []Change {
	x, hasX := a.Get(name)
	y, hasY := b.Get(name)
	if hasX == hasY && x.Equal(y) {
		return nil
	}
	return []Change{{Option: prefix + name, Old: x, New: y}}
}

// Alias returns the option with further names.
func (o Option[T]) Alias(names ...string) Option[T] {
	info := *o.info
	info.Aliases = append(slices.Clone(info.Aliases), names...)
	return Option[T]{info: &info, ops: o.ops}
}

// Name returns the primary name.
func (o Option[T]) Name() string { return o.info.Name }

// Within turns options of an inner struct into options of the outer one that
// contains it, so that both are read from one map.
func Within[O, I any](options []Option[I], at func(*O) *I) []Option[O] {
	outer := make([]Option[O], len(options))
	for i, o := range options {
		ops := o.ops
		outer[i] = Option[O]{info: o.info, ops: operations[O]{
			read:        func(r *Reader, v Value, into *O) bool { return ops.read(r, v, at(into)) },
			write:       func(from *O, style Style) (Value, bool) { return ops.write(at(from), style) },
			fill:        func(into, under *O) { ops.fill(at(into), at(under)) },
			fillDefault: func(into *O) { ops.fillDefault(at(into)) },
			diff:        func(prefix string, a, b *O) []Change { return ops.diff(prefix, at(a), at(b)) },
		}}
	}
	return outer
}

// Change is a difference in one option. Null means unset.
type Change struct {
	Option   string
	Old, New Value
}

// String returns "weight: 1 → 2".
func (c Change) String() string {
	text := func(v Value) string {
		if v.IsNull() {
			return "unset"
		}
		return v.String()
	}
	return fmt.Sprintf("%s: %s → %s", c.Option, text(c.Old), text(c.New))
}

func (t Type[F]) change(name string, a, b Optional[F]) Change {
	c := Change{Option: name}
	if a.set {
		c.Old = t.write(a.value, ForPeople)
	}
	if b.set {
		c.New = t.write(b.value, ForPeople)
	}
	return c
}

// Table is the options of a struct. It is immutable and safe for concurrent use.
type Table[T any] struct {
	options []Option[T]
	index   map[string]int // normal names and aliases
	names   []string       // primary names, for suggestions
	extras  func(*T) *Extras
	// spelling is where Read notes the names that were written; it may be nil.
	spelling func(*T) *Spelling
}

// Spelling has the names under which options were written, by primary name, for options
// that were written under an alias. It is never modified.
type Spelling map[string]string

// NewTable returns a table. It panics if two options have a name in common.
func NewTable[T any](options ...Option[T]) *Table[T] {
	t := &Table[T]{options: options, index: make(map[string]int, len(options)), names: make([]string, len(options))}
	add := func(name string, option int) {
		normal := Normal(name)
		if _, taken := t.index[normal]; taken {
			panic(fmt.Sprintf("document: two options are called %q", name))
		}
		t.index[normal] = option
	}
	for i, o := range options {
		t.names[i] = o.info.Name
		add(o.info.Name, i)
		for _, alias := range o.info.Aliases {
			add(alias, i)
		}
	}
	return t
}

// KeepingUnknown returns the table with a place for unknown keys, which it uses if the reader has
// KeepUnknown set.
func (t *Table[T]) KeepingUnknown(at func(*T) *Extras) *Table[T] {
	keeping := *t
	keeping.extras = at
	return &keeping
}

// KeepingSpelling returns the table with a place for the names under which options are written.
func (t *Table[T]) KeepingSpelling(at func(*T) *Spelling) *Table[T] {
	keeping := *t
	keeping.spelling = at
	return &keeping
}

// Options describes all options in the order of the table. They must not be modified.
func (t *Table[T]) Options() []*Info {
	infos := make([]*Info, len(t.options))
	for i, o := range t.options {
		infos[i] = o.info
	}
	return infos
}

// Resolve returns the primary name of the option that a key means.
func (t *Table[T]) Resolve(key string) (name string, ok bool) {
	i, ok := t.lookup(key)
	if !ok {
		return "", false
	}
	return t.options[i].info.Name, true
}

// Find returns the entry of a map that sets an option, under any of its names. Rules between
// options use it to locate their problems.
func (t *Table[T]) Find(v Value, name string) (Entry, bool) {
	for _, e := range v.Entries() {
		if found, ok := t.Resolve(e.Key); ok && found == name {
			return e, true
		}
	}
	return Entry{}, false
}

func (t *Table[T]) lookup(key string) (int, bool) {
	if i, ok := t.index[key]; ok {
		return i, true
	}
	i, ok := t.index[Normal(key)]
	return i, ok
}

// Read reads a map into a struct and reports all problems. Absent or wrong options leave their
// fields unchanged; null is an empty map. Keys listed in beside belong to other readers and are
// ignored.
//
// It returns the names of the wrong options, so that rules between options need not be applied to
// values that nobody wrote.
func (t *Table[T]) Read(r *Reader, v Value, into *T, beside ...string) (wrong []string) {
	if v.kind == NullKind {
		return nil
	}
	if v.kind != MapKind {
		mustBe(r, v, RuleWrongType, "a map")
		return t.names
	}
	var few [96]int
	seen := few[:] // index of the entry that set the option, plus one
	if len(t.options) > len(few) {
		seen = make([]int, len(t.options))
	}
	var spelling Spelling
	for n, e := range v.Entries() {
		i, ok := t.lookup(e.Key)
		if !ok {
			if !slices.Contains(beside, e.Key) {
				t.unknown(r, e, into, beside)
			}
			continue
		}
		name := t.options[i].info.Name
		if first := seen[i]; first > 0 {
			r.Enter(name)
			t.twoNames(r, v.Entries()[first-1], e)
			r.Leave()
			wrong = append(wrong, name)
			continue
		}
		seen[i] = n + 1
		if written := Normal(e.Key); t.spelling != nil && written != Normal(name) {
			if spelling == nil {
				spelling = Spelling{}
			}
			spelling[name] = written
		}
		r.Enter(e.Key)
		if reason := t.options[i].info.NotSupported; reason != "" {
			r.Warn(e.At, RuleNotSupported, "not supported: "+reason, Pair("option", Text(name)))
		}
		if !t.options[i].ops.read(r, e.Value, into) {
			wrong = append(wrong, name)
		}
		r.Leave()
	}
	if t.spelling != nil {
		*t.spelling(into) = spelling
	}
	return wrong
}

func (t *Table[T]) twoNames(r *Reader, first, second Entry) {
	message := fmt.Sprintf("%q and %q are two names of one option; give only one of them", first.Key, second.Key)
	if !first.At.IsZero() {
		message += fmt.Sprintf(" (the first is at line %d)", first.At.Line)
	}
	r.Refuse(second.At, RuleTwoNames, message,
		Pair("first", Text(first.Key)), Pair("second", Text(second.Key)))
}

func (t *Table[T]) unknown(r *Reader, e Entry, into *T, beside []string) {
	known := append(slices.Clone(t.names), beside...)
	for _, o := range t.options {
		known = append(known, o.info.Aliases...)
	}
	facts := []Entry{Pair("option", Text(Shorten(e.Key)))}
	nearest, ok := Nearest(e.Key, known)
	if ok {
		facts = append(facts, Pair("nearest", Text(nearest)))
	}
	r.Enter(e.Key)
	if r.KeepUnknown && t.extras != nil {
		*t.extras(into) = t.extras(into).set(e.Key, e.Value)
		r.Warn(e.At, RuleUnknownKey, "unknown option; it is kept but has no effect"+didYouMean(e.Key, known), facts...)
	} else {
		r.Refuse(e.At, RuleUnknownKey, "unknown option"+didYouMean(e.Key, known), facts...)
	}
	r.Leave()
}

// Write returns the options that are set as a map, under their primary names and
// in the order of the table, followed by unknown keys that were kept.
func (t *Table[T]) Write(from *T, style Style) Value {
	var entries []Entry
	for i := range t.options {
		if v, ok := t.options[i].ops.write(from, style); ok {
			entries = append(entries, Pair(t.options[i].info.Name, v))
		}
	}
	for _, e := range t.unknownExtras(from) {
		entries = append(entries, Pair(e.Key, e.Value))
	}
	return Map(entries...)
}

// WriteAsWritten is Write under the names that the options were written under.
func (t *Table[T]) WriteAsWritten(from *T, style Style) Value {
	v := t.Write(from, style)
	if t.spelling == nil || len(*t.spelling(from)) == 0 {
		return v
	}
	entries := slices.Clone(v.Entries())
	for i := range entries {
		if written, other := (*t.spelling(from))[entries[i].Key]; other {
			entries[i].Key = written
		}
	}
	return Map(entries...)
}

// WriteOption returns one option if it is set, by any of its names, or the value kept under a name
// that no option has.
func (t *Table[T]) WriteOption(from *T, name string, style Style) (Value, bool) {
	if i, known := t.lookup(name); known {
		return t.options[i].ops.write(from, style)
	}
	return t.unknownExtras(from).Get(name)
}

// unknownExtras returns the values kept under names that the table does not have.
func (t *Table[T]) unknownExtras(from *T) (unknown Extras) {
	if t.extras == nil {
		return nil
	}
	for _, e := range *t.extras(from) {
		if _, known := t.lookup(e.Key); !known {
			unknown = append(unknown, e)
		}
	}
	return unknown
}

// Fill copies every option that is unset in into from under, also inside sections.
func (t *Table[T]) Fill(into, under *T) {
	for i := range t.options {
		t.options[i].ops.fill(into, under)
	}
}

// FillDefaults sets every unset option to its default, if it has one.
func (t *Table[T]) FillDefaults(into *T) {
	for i := range t.options {
		t.options[i].ops.fillDefault(into)
	}
}

// Diff returns the options that differ between a and b, in the order of the table, and then the
// kept unknown keys that differ.
func (t *Table[T]) Diff(a, b *T) []Change { return t.diff("", a, b) }

func (t *Table[T]) diff(prefix string, a, b *T) (changes []Change) {
	for i := range t.options {
		changes = append(changes, t.options[i].ops.diff(prefix, a, b)...)
	}
	if t.extras == nil {
		return changes
	}
	x, y := t.unknownExtras(a), t.unknownExtras(b)
	for _, e := range x {
		changes = append(changes, diffExtra(prefix, e.Key, x, y)...)
	}
	for _, e := range y {
		if _, in := x.Get(e.Key); !in {
			changes = append(changes, diffExtra(prefix, e.Key, x, y)...)
		}
	}
	return changes
}

// Equal reports whether a and b have the same options set to the same values.
func (t *Table[T]) Equal(a, b *T) bool { return len(t.Diff(a, b)) == 0 }

// Type returns the type of a nested map that this table reads.
func (t *Table[T]) Type() Type[T] {
	nested := NewType(Shape{Kind: "map", Says: "a map with the keys " + strings.Join(t.names, ", "), Options: t.Options()},
		func(r *Reader, v Value) (T, bool) {
			var f T
			wrong := t.Read(r, v, &f)
			return f, len(wrong) == 0
		},
		func(f T, style Style) Value { return t.Write(&f, style) },
		func(a, b T) bool { return t.Equal(&a, &b) })
	nested.merge = func(over, under T) T {
		t.Fill(&over, &under)
		return over
	}
	nested.fill = t.FillDefaults
	nested.diff = func(prefix string, a, b T) []Change { return t.diff(prefix, &a, &b) }
	return nested
}
