package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/weirhq/weir/internal/engine/core"
)

var noon = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

// filler gives every field of a value something else than zero.
type filler struct{ next int64 }

func (f *filler) fill(v reflect.Value, depth int) {
	f.next++
	switch kind := v.Kind(); {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(noon.Add(time.Duration(f.next) * time.Microsecond)))
	case kind == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(f.next % 100)
	case v.CanUint():
		v.SetUint(uint64(f.next % 100))
	case v.CanFloat():
		v.SetFloat(float64(f.next) / 8)
	case kind == reflect.String:
		v.SetString(fmt.Sprint("text", f.next))
	case depth == 0:
	case kind == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), depth-1)
	case kind == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		f.fill(v.Index(0), depth-1)
		f.fill(v.Index(1), depth-1)
	case kind == reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i), depth-1)
		}
	case kind == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(key, depth-1)
			f.fill(elem, depth-1)
			v.SetMapIndex(key, elem)
		}
	case kind == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("save") != "-" {
				f.fill(reflect.NewAt(v.Field(i).Type(), unsafe.Pointer(v.Field(i).UnsafeAddr())).Elem(), depth-1)
			}
		}
	}
}

// filled returns one input of every kind with all fields set.
func filled() []core.Input {
	f := filler{}
	list := core.Inputs()
	for _, input := range list {
		f.fill(reflect.ValueOf(input).Elem(), 12)
	}
	return list
}

func typesOf(t testing.TB) *Types {
	t.Helper()
	types, err := NewTypes()
	if err != nil {
		t.Fatalf("journals cannot record every input: %v", err)
	}
	return types
}

func encode(t testing.TB, inputs []core.Input) []byte {
	t.Helper()
	types := typesOf(t)
	e, framer := NewEncoder(types, noon), NewFramer(types)
	file := framer.AppendStart(nil, &Header{Build: "test", Epoch: 7, Start: noon}, nil)
	var records []byte
	for i, input := range inputs {
		now := noon.Add(time.Duration(i) * time.Millisecond)
		records = e.Input(records, now, input, i%3 == 0, Outcome{Started: i % 2})
		records = e.Name(records, now, Name{Operation: core.OperationID(i), ID: fmt.Sprint("id-", i), Alias: "alias"})
	}
	return framer.AppendRecords(file, e.End(records, noon.Add(time.Hour), EndTerm))
}

func TestEveryKindOfInputRoundTrips(t *testing.T) {
	inputs := append(filled(), filled()...) // the second time specifications are known
	inputs = append(inputs, core.Inputs()...)
	d := NewDecoder(bytes.NewReader(encode(t, inputs)))
	first, err := d.Next()
	if err != nil || first.Segment == nil || first.Segment.Epoch != 7 || !first.Segment.Start.Equal(noon) {
		t.Fatalf("%+v %v", first, err)
	}
	for i, want := range inputs {
		e, err := d.Next()
		if err != nil {
			t.Fatalf("%T: %v", want, err)
		}
		if !reflect.DeepEqual(e.Input, want) {
			t.Errorf("a %T comes back as\n%+v\nnot as\n%+v", want, e.Input, want)
		}
		if at := noon.Add(time.Duration(i) * time.Millisecond); !e.Time.Equal(at) || e.Refused != (i%3 == 0) || e.Outcome.Started != i%2 {
			t.Errorf("%T: %v %v %v", want, e.Time, e.Refused, e.Outcome)
		}
		if e, err = d.Next(); err != nil || e.Name == nil || *e.Name != (Name{core.OperationID(i), fmt.Sprint("id-", i), "alias"}) {
			t.Fatalf("name of %d: %+v %v", i, e.Name, err)
		}
	}
	if e, err := d.Next(); err != nil || e.End != EndTerm || !e.Time.Equal(noon.Add(time.Hour)) {
		t.Errorf("%+v %v", e, err)
	}
	if _, err := d.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
}

func TestFilesThatAreNoJournalsAreRefused(t *testing.T) {
	whole := encode(t, filled())
	other := bytes.Clone(whole)
	other[len(magic)-1] = 9
	for name, c := range map[string]struct {
		file []byte
		want string
		is   error
	}{
		"text":          {[]byte("pools: {}\n"), "does not start like a journal", ErrFormat},
		"other version": {other, "version 9, and this build reads version 1", ErrFormat},
		"cut":           {whole[:len(whole)-3], "ends inside a frame", ErrCut},
		"cut magic":     {whole[:3], "ends inside a frame", ErrCut},
		"damaged":       {append(bytes.Clone(whole[:len(whole)-3]), 1, 2, 3), "checksum", ErrFormat},
		"no header":     {NewFramer(typesOf(t)).AppendRecords([]byte(magic), []byte{0, 0}), "not expected", ErrFormat},
	} {
		d := NewDecoder(bytes.NewReader(c.file))
		var err error
		for err == nil {
			_, err = d.Next()
		}
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzDecoder decodes arbitrary records and whole files. Nothing may panic or take
// memory out of proportion.
func FuzzDecoder(f *testing.F) {
	whole := encode(f, filled())
	f.Add(whole)
	f.Add(encode(f, core.Inputs()))
	f.Add(whole[:len(whole)/2])
	types := typesOf(f)
	e, framer := NewEncoder(types, noon), NewFramer(types)
	for _, input := range filled() {
		f.Add(e.Input(nil, noon, input, false, Outcome{Started: 1}))
	}
	begun := NewDecoder(bytes.NewReader(framer.AppendStart(nil, &Header{Start: noon}, nil)))
	if _, err := begun.Next(); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		file := NewDecoder(bytes.NewReader(data))
		records := *begun // checksums keep most files from being decoded
		records.reader, records.rest = begun.inputs.schema.Reader(), data
		for _, d := range []*Decoder{file, &records} {
			for range 1000 {
				if _, err := d.Next(); err != nil {
					break
				}
			}
		}
	})
}
