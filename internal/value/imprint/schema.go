package imprint

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// form is how a value is written.
type form uint8

const (
	boolForm form = iota
	intForm
	uintForm
	floatForm
	stringForm
	timeForm
	structForm
	sliceForm
	arrayForm
	mapForm
	pointerForm
	sharedForm // a pointer whose target is written once for each content
	formCount
)

var formNames = [formCount]string{
	"a bool", "a whole number", "an unsigned number", "a float", "a string", "a time", "a struct", "a list", "an array", "a map", "a pointer", "a shared pointer",
}

// ErrFormat is wrapped by errors about data that is no imprint, or one of other
// types.
var ErrFormat = errors.New("not a valid imprint")

// Schema describes how values of some types are written.
type Schema struct {
	types []description
	roots []int // in types, in the order given to Describe
	plans []*plan
	// targets are plans for the targets of shared pointers, by number in types.
	targets map[int]*plan
}

// description is a type of a schema.
type description struct {
	form      form
	name      string // of a struct, with its package
	elem, key int
	length    int // of an array
	fields    []fieldDescription
	local     reflect.Type // nil in a schema that was read
}

type fieldDescription struct {
	name string
	kind int // in Schema.types
}

var timeType = reflect.TypeFor[time.Time]()

// Describe returns the schema of types and of all types that they refer to.
// The targets of pointers to a type in shared are written once for each content; they
// may contain pointers to themselves and to shared values that do not contain them. An error names all fields
// that cannot be written.
func Describe(types []reflect.Type, shared ...reflect.Type) (*Schema, error) {
	s := &Schema{}
	b := builder{schema: s, numbers: map[reflect.Type]int{}, shared: shared}
	for _, t := range types {
		s.roots = append(s.roots, b.add(t, t.String()))
	}
	if len(b.problems) > 0 {
		return nil, errors.Join(b.problems...)
	}
	s.targets = map[int]*plan{}
	own := planner{known: map[planKey]*plan{}, remote: s}
	for i, t := range types {
		p, err := own.plan(s.roots[i], t, t.String())
		if err != nil {
			return nil, err
		}
		s.plans = append(s.plans, p)
	}
	return s, nil
}

// builder describes types.
type builder struct {
	schema   *Schema
	numbers  map[reflect.Type]int
	shared   []reflect.Type
	problems []error
}

// add describes a type and returns its number. path names the place of the type in
// errors.
func (b *builder) add(t reflect.Type, path string) int {
	if number, known := b.numbers[t]; known {
		return number
	}
	number := len(b.schema.types)
	b.numbers[t] = number
	b.schema.types = append(b.schema.types, description{local: t})
	d := description{local: t}
	switch kind := t.Kind(); {
	case t == timeType:
		d.form = timeForm
	case kind == reflect.Bool:
		d.form = boolForm
	case kind >= reflect.Int && kind <= reflect.Int64:
		d.form = intForm
	case kind >= reflect.Uint && kind <= reflect.Uint64:
		d.form = uintForm
	case kind == reflect.Float64 || kind == reflect.Float32:
		d.form = floatForm
	case kind == reflect.String:
		d.form = stringForm
	case kind == reflect.Slice:
		d.form, d.elem = sliceForm, b.add(t.Elem(), path+"[]")
	case kind == reflect.Array:
		d.form, d.elem, d.length = arrayForm, b.add(t.Elem(), path+"[]"), t.Len()
	case kind == reflect.Map && comparesKeys(t.Key()):
		d.form, d.key, d.elem = mapForm, b.add(t.Key(), path+"[key]"), b.add(t.Elem(), path+"[]")
	case kind == reflect.Pointer:
		d.form, d.elem = pointerForm, b.add(t.Elem(), path+"*")
		if slices.Contains(b.shared, t.Elem()) {
			d.form = sharedForm
		}
	case kind == reflect.Struct:
		d.form, d.name = structForm, t.String()
		for i := range t.NumField() {
			if f := t.Field(i); f.Tag.Get("save") != "-" {
				d.fields = append(d.fields, fieldDescription{f.Name, b.add(f.Type, t.String()+"."+f.Name)})
			}
		}
	default:
		b.problems = append(b.problems, fmt.Errorf("%s: a value of type %v cannot be saved; "+
			"if it can be made again from the other fields, give the field the tag `save:\"-\"` and make it after loading", path, t))
	}
	b.schema.types[number] = d
	return number
}

// comparesKeys reports whether keys of a map have an order.
func comparesKeys(t reflect.Type) bool {
	switch kind := t.Kind(); {
	case kind == reflect.String, kind >= reflect.Int && kind <= reflect.Int64, kind >= reflect.Uint && kind <= reflect.Uint64:
		return true
	}
	return false
}

// plan is how values of a local type are written, or are read from what a schema
// describes.
type plan struct {
	form   form
	local  reflect.Type
	size   uintptr
	name   string
	elem   *plan
	key    *plan
	length int
	fields []fieldPlan
	number int // of the target of a shared pointer, in the schema
}

type fieldPlan struct {
	offset uintptr
	plan   *plan
}

type planKey struct {
	number int
	local  reflect.Type
}

// planner matches the types of a schema with local ones, fields by their names.
type planner struct {
	remote *Schema
	strict bool // both have the same fields
	known  map[planKey]*plan
}

func (p *planner) plan(number int, local reflect.Type, path string) (*plan, error) {
	key := planKey{number, local}
	if known := p.known[key]; known != nil {
		return known, nil
	}
	d := &p.remote.types[number]
	made := &plan{form: d.form, local: local, size: local.Size(), name: d.name, length: d.length}
	p.known[key] = made
	mismatch := func() (*plan, error) {
		return nil, fmt.Errorf("%w: %s is %s there and %v here", ErrFormat, path, formNames[d.form], local)
	}
	var err error
	kind := local.Kind()
	fits := false
	switch d.form {
	case boolForm:
		fits = kind == reflect.Bool
	case intForm:
		fits = kind >= reflect.Int && kind <= reflect.Int64
	case uintForm:
		fits = kind >= reflect.Uint && kind <= reflect.Uint64
	case floatForm:
		fits = kind == reflect.Float64 || kind == reflect.Float32
	case stringForm:
		fits = kind == reflect.String
	case timeForm:
		fits = local == timeType
	case structForm:
		if kind != reflect.Struct || local == timeType {
			return mismatch()
		}
		return made, p.fields(made, d, path)
	case sliceForm, arrayForm, pointerForm, sharedForm:
		want := map[form]reflect.Kind{sliceForm: reflect.Slice, arrayForm: reflect.Array, pointerForm: reflect.Pointer, sharedForm: reflect.Pointer}[d.form]
		if kind != want || kind == reflect.Array && local.Len() != d.length {
			return mismatch()
		}
		if made.elem, err = p.plan(d.elem, local.Elem(), path+"[]"); err != nil {
			return nil, err
		}
		if d.form == sharedForm {
			made.number = d.elem
			p.remote.targets[d.elem] = made.elem
		}
		return made, nil
	case mapForm:
		if kind != reflect.Map || !comparesKeys(local.Key()) {
			return mismatch()
		}
		if made.key, err = p.plan(d.key, local.Key(), path+"[key]"); err == nil {
			made.elem, err = p.plan(d.elem, local.Elem(), path+"[]")
		}
		return made, err
	}
	if !fits {
		return mismatch()
	}
	return made, nil
}

// fields matches the fields of a struct.
func (p *planner) fields(made *plan, d *description, path string) error {
	for _, f := range d.fields {
		local, ok := made.local.FieldByName(f.name)
		if !ok || len(local.Index) != 1 || local.Tag.Get("save") == "-" {
			return fmt.Errorf("%w: this build does not know the field %s of %s; use the build that wrote it", ErrFormat, f.name, d.name)
		}
		of, err := p.plan(f.kind, local.Type, path+"."+f.name)
		if err != nil {
			return err
		}
		made.fields = append(made.fields, fieldPlan{local.Offset, of})
	}
	if !p.strict {
		return nil
	}
	for i := range made.local.NumField() {
		f := made.local.Field(i)
		known := slices.ContainsFunc(d.fields, func(of fieldDescription) bool { return of.name == f.Name })
		if f.Tag.Get("save") != "-" && !known {
			return fmt.Errorf("%w: it has no field %s of %s; use the build that wrote it", ErrFormat, f.Name, d.name)
		}
	}
	return nil
}

// Append appends the schema to a buffer.
func (s *Schema) Append(into []byte) []byte {
	into = binary.AppendUvarint(into, uint64(len(s.types)))
	text := func(v string) {
		into = binary.AppendUvarint(into, uint64(len(v)))
		into = append(into, v...)
	}
	for i := range s.types {
		d := &s.types[i]
		into = append(into, byte(d.form))
		switch d.form {
		case sliceForm, pointerForm, sharedForm:
			into = binary.AppendUvarint(into, uint64(d.elem))
		case arrayForm:
			into = binary.AppendUvarint(into, uint64(d.elem))
			into = binary.AppendUvarint(into, uint64(d.length))
		case mapForm:
			into = binary.AppendUvarint(into, uint64(d.key))
			into = binary.AppendUvarint(into, uint64(d.elem))
		case structForm:
			text(d.name)
			into = binary.AppendUvarint(into, uint64(len(d.fields)))
			for _, f := range d.fields {
				text(f.name)
				into = binary.AppendUvarint(into, uint64(f.kind))
			}
		}
	}
	into = binary.AppendUvarint(into, uint64(len(s.roots)))
	for _, number := range s.roots {
		into = binary.AppendUvarint(into, uint64(number))
	}
	return into
}

// Limits of a schema that is read.
const (
	maxTypes  = 10_000
	maxFields = 10_000
	maxLength = 1 << 16
)

// ReadSchema reads what Append has written and returns the rest of the data.
func ReadSchema(data []byte) (*Schema, []byte, error) {
	r := Reader{data: data}
	s := &Schema{}
	count := r.number(maxTypes)
	for range count {
		d := description{form: form(r.byte())}
		switch d.form {
		case sliceForm, pointerForm, sharedForm:
			d.elem = r.number(count)
		case arrayForm:
			d.elem = r.number(count)
			d.length = r.number(maxLength)
		case mapForm:
			d.key = r.number(count)
			d.elem = r.number(count)
		case structForm:
			d.name = r.text()
			for range r.number(maxFields) {
				d.fields = append(d.fields, fieldDescription{r.text(), r.number(count)})
				if r.err != nil {
					break
				}
			}
		default:
			if d.form >= formCount {
				r.fail("unknown form %d", d.form)
			}
		}
		if r.err != nil {
			return nil, nil, r.err
		}
		s.types = append(s.types, d)
	}
	for range r.number(maxTypes) {
		s.roots = append(s.roots, r.number(count))
		if r.err != nil {
			break
		}
	}
	if r.err == nil {
		s.check(&r)
	}
	return s, r.data[r.at:], r.err
}

// check looks for numbers outside the schema.
func (s *Schema) check(r *Reader) {
	for _, number := range s.roots {
		if number >= len(s.types) {
			r.fail("a root is missing")
		}
	}
	for i := range s.types {
		d := &s.types[i]
		kinds := []int{d.elem, d.key}
		for _, f := range d.fields {
			kinds = append(kinds, f.kind)
		}
		for _, k := range kinds {
			if k >= len(s.types) && (len(s.types) > 0 || k > 0) {
				r.fail("type %d is missing", k)
				return
			}
		}
	}
}

// Names returns the names of the root types, without the stars of pointers.
func (s *Schema) Names() (names []string) {
	for _, number := range s.roots {
		d := &s.types[number]
		if d.form == pointerForm {
			d = &s.types[d.elem]
		}
		names = append(names, d.name)
	}
	return names
}

// Bind prepares a schema that was read for reading values into local types, one for
// each root: nil for roots that will not be read. A field that the schema lacks is
// zero; strict refuses this too.
func (s *Schema) Bind(types []reflect.Type, strict bool) error {
	if len(types) != len(s.roots) {
		return fmt.Errorf("%w: it has %d types, not %d", ErrFormat, len(s.roots), len(types))
	}
	p := planner{remote: s, strict: strict, known: map[planKey]*plan{}}
	s.plans, s.targets = make([]*plan, len(types)), map[int]*plan{}
	for i, t := range types {
		if t == nil {
			continue
		}
		made, err := p.plan(s.roots[i], t, t.String())
		if err != nil {
			return err
		}
		s.plans[i] = made
	}
	return nil
}

// sortKeys orders the keys of a map.
func sortKeys(keys []reflect.Value) {
	if len(keys) == 0 {
		return
	}
	var less func(a, b reflect.Value) int
	switch kind := keys[0].Kind(); {
	case kind == reflect.String:
		less = func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) }
	case kind <= reflect.Int64:
		less = func(a, b reflect.Value) int { return cmp.Compare(a.Int(), b.Int()) }
	default:
		less = func(a, b reflect.Value) int { return cmp.Compare(a.Uint(), b.Uint()) }
	}
	slices.SortFunc(keys, less)
}
