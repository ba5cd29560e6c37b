package imprint

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

type leaf struct {
	name string
	at   time.Time
}

type branch struct {
	up     *branch
	leaf   *leaf
	counts map[string]int32
	flags  []bool
	bytes  []byte
	pair   [2]float64
	small  int8
	wide   uint64
	memory []int `save:"-"`
}

type spec struct {
	text string
	self *spec
	part *leaf
}

type message struct {
	spec  *spec
	again *spec
	other string
}

func described(t *testing.T, of ...reflect.Type) *Schema {
	t.Helper()
	s, err := Describe(of)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestValuesComeBackWithTheirCyclesAndWithoutWhatIsNotSaved(t *testing.T) {
	schema := described(t, reflect.TypeFor[branch]())
	shared := &leaf{"shared", time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("x", 3600))}
	v := &branch{
		leaf: shared, counts: map[string]int32{"b": -2, "a": 1}, flags: []bool{true, false}, bytes: []byte{}, pair: [2]float64{math.Copysign(0, -1), math.Inf(1)},
		small: math.MinInt8, wide: math.MaxUint64, memory: []int{1},
	}
	v.up = &branch{up: v, leaf: shared}
	data := schema.Writer().Append(nil, 0, v)
	var got branch
	rest, err := schema.Reader().Read(append(data, 1, 2), 0, &got)
	if err != nil || len(rest) != 2 {
		t.Fatalf("%v, %d bytes are left", err, len(rest))
	}
	if got.up.up != &got || got.leaf != got.up.leaf || got.memory != nil || got.bytes == nil || !math.Signbit(got.pair[0]) {
		t.Errorf("%+v", got)
	}
	if !got.leaf.at.Equal(shared.at) || got.leaf.at.Location() != time.UTC {
		t.Errorf("time %v", got.leaf.at)
	}
	if got.small != v.small || got.wide != v.wide || !reflect.DeepEqual(got.counts, v.counts) || !reflect.DeepEqual(got.flags, v.flags) {
		t.Errorf("%+v", got)
	}
}

func TestSharedValuesAreWrittenOnceForEachContent(t *testing.T) {
	schema, err := Describe([]reflect.Type{reflect.TypeFor[message]()}, reflect.TypeFor[spec]())
	if err != nil {
		t.Fatal(err)
	}
	made := func() *spec {
		s := &spec{text: strings.Repeat("long ", 100), part: &leaf{name: "x"}}
		s.self = s
		return s
	}
	w, r := schema.Writer(), schema.Reader()
	first := w.Append(nil, 0, &message{spec: made(), other: "a name"})
	second := w.Append(nil, 0, &message{spec: made(), again: made(), other: "a name"})
	if len(first) < 500 || len(second) > 10 {
		t.Errorf("%d bytes, then %d", len(first), len(second))
	}
	var a, b message
	if _, err := r.Read(first, 0, &a); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(second, 0, &b); err != nil {
		t.Fatal(err)
	}
	if a.spec.self != a.spec || a.spec != b.spec || b.spec != b.again || a.spec.text != made().text || a.spec.part.name != "x" || b.other != "a name" {
		t.Errorf("%+v %+v", a, b)
	}
}

func TestFieldsThatCannotBeWrittenAreNamed(t *testing.T) {
	type bad struct {
		Good  int
		Call  func()
		Inner struct{ Any any }
	}
	_, err := Describe([]reflect.Type{reflect.TypeFor[bad]()})
	for _, want := range []string{"bad.Call", "Any", `save:"-"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
}

func TestAnotherBuildReadsFieldsByName(t *testing.T) {
	type then struct {
		Name string
		Old  int
	}
	type now struct {
		New  bool
		Old  int64
		Name string
	}
	type without struct{ Name string }
	schema := described(t, reflect.TypeFor[then]())
	data := schema.Writer().Append(schema.Append(nil), 0, &then{"n", 7})
	read := func(as reflect.Type, strict bool, into any) error {
		s, rest, err := ReadSchema(data)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Bind([]reflect.Type{as}, strict); err != nil {
			return err
		}
		_, err = s.Reader().Read(rest, 0, into)
		return err
	}
	var got now
	if err := read(reflect.TypeFor[now](), false, &got); err != nil || got != (now{Old: 7, Name: "n"}) {
		t.Errorf("%+v %v", got, err)
	}
	if err := read(reflect.TypeFor[now](), true, &got); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "New") {
		t.Errorf("strict: %v", err)
	}
	if err := read(reflect.TypeFor[without](), false, &without{}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "Old") {
		t.Errorf("a field that this build lacks: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	schema, err := Describe([]reflect.Type{reflect.TypeFor[branch](), reflect.TypeFor[message]()}, reflect.TypeFor[spec]())
	if err != nil {
		f.Fatal(err)
	}
	v := &branch{leaf: &leaf{name: "l"}, counts: map[string]int32{"b": -2}, flags: []bool{true}, bytes: []byte{1}}
	v.up = v
	f.Add(schema.Writer().Append(nil, 0, v), 0)
	f.Add(schema.Writer().Append(nil, 1, &message{spec: &spec{text: "t"}}), 1)
	f.Fuzz(func(t *testing.T, data []byte, root int) {
		if root == 0 {
			_, _ = schema.Reader().Read(data, 0, &branch{})
		} else {
			_, _ = schema.Reader().Read(data, 1, &message{})
		}
		if s, _, err := ReadSchema(data); err == nil {
			_ = s.Bind(make([]reflect.Type, len(s.roots)), true)
		}
	})
}
