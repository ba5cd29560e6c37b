package imprint

import (
	"reflect"
	"unsafe"
)

// Rewriter changes the strings in values, unexported fields included, whatever
// contains them.
type Rewriter struct {
	// Text returns the new string for one in a place: the field that contains it, such
	// as "core.NodeInput.Name". Keys of maps have "{key}" appended, and names of
	// transparent structs "{name}".
	Text func(place, text string) string
	// Transparent reports whether the fields of a struct count as the field that has the
	// struct.
	Transparent func(reflect.Type) bool
	// Whole handles values of a type that are changed as a whole: it gets a pointer to
	// one. It returns false if the value is to be visited like others.
	Whole func(place string, pointer any) bool

	seen map[target]bool
}

// Rewrite changes the strings in what a pointer points to. What several values share
// is changed once, in all calls together, until Forget.
func (w *Rewriter) Rewrite(pointer any) {
	if w.seen == nil {
		w.seen = map[target]bool{}
	}
	v := reflect.ValueOf(pointer)
	w.follow(v.UnsafePointer(), v.Type().Elem(), v.Type().Elem().String())
}

// Forget lets values be changed again.
func (w *Rewriter) Forget() { clear(w.seen) }

func (w *Rewriter) follow(at unsafe.Pointer, t reflect.Type, place string) {
	if key := (target{at, t}); !w.seen[key] {
		w.seen[key] = true
		w.visit(at, t, place)
	}
}

func (w *Rewriter) visit(at unsafe.Pointer, t reflect.Type, place string) {
	switch t.Kind() {
	case reflect.String:
		if text := *(*string)(at); text != "" {
			*(*string)(at) = w.Text(place, text)
		}
	case reflect.Pointer:
		if to := *(*unsafe.Pointer)(at); to != nil {
			w.follow(to, t.Elem(), place)
		}
	case reflect.Slice:
		if w.Whole(place, reflect.NewAt(t, at).Interface()) {
			return
		}
		v := reflect.NewAt(t, at).Elem()
		for i := range v.Len() {
			w.visit(unsafe.Add(v.UnsafePointer(), uintptr(i)*t.Elem().Size()), t.Elem(), place)
		}
	case reflect.Array:
		for i := range t.Len() {
			w.visit(unsafe.Add(at, uintptr(i)*t.Elem().Size()), t.Elem(), place)
		}
	case reflect.Map:
		w.visitMap(reflect.NewAt(t, at).Elem(), place)
	case reflect.Struct:
		if t == timeType {
			return
		}
		if w.Whole(place, reflect.NewAt(t, at).Interface()) {
			return
		}
		transparent := w.Transparent(t)
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Tag.Get("save") == "-" {
				continue
			}
			inner := t.String() + "." + f.Name
			switch {
			case transparent && f.Name == "Name":
				inner = place + "{name}"
			case transparent:
				inner = place
			}
			w.visit(unsafe.Add(at, f.Offset), f.Type, inner)
		}
	}
}

func (w *Rewriter) visitMap(v reflect.Value, place string) {
	if v.IsNil() {
		return
	}
	next := reflect.MakeMapWithSize(v.Type(), v.Len())
	keys := v.MapKeys()
	sortKeys(keys)
	for _, k := range keys {
		key, elem := reflect.New(v.Type().Key()), reflect.New(v.Type().Elem())
		key.Elem().Set(k)
		elem.Elem().Set(v.MapIndex(k))
		w.visit(key.UnsafePointer(), v.Type().Key(), place+"{key}")
		w.visit(elem.UnsafePointer(), v.Type().Elem(), place)
		next.SetMapIndex(key.Elem(), elem.Elem())
	}
	v.Set(next)
}
