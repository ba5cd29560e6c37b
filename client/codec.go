package client

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/value/yson"
)

// timeLayout is the API's notation of instants.
const timeLayout = "2006-01-02T15:04:05.000000Z"

var (
	valueType    = reflect.TypeFor[Value]()
	nodeType     = reflect.TypeFor[yson.Node]()
	errorType    = reflect.TypeFor[Error]()
	timeType     = reflect.TypeFor[time.Time]()
	durationType = reflect.TypeFor[time.Duration]()
)

// ValueOf converts a Go value to a Value. It accepts nil, booleans, numbers, strings,
// []byte, Value, time.Time (sent in the API's notation), time.Duration (sent in
// milliseconds), and pointers, slices, maps with string keys and structs of these.
//
// Map keys are sorted. A struct field's key is its yson tag, else the name in its json
// tag, else its Go name; a field with the tag "-" is left out. Fields with a zero value
// are left out: use a pointer to send a zero.
func ValueOf(value any) (Value, error) {
	node, err := encode(reflect.ValueOf(value), 0)
	return Value{node}, err
}

func encode(v reflect.Value, depth int) (yson.Node, error) {
	if depth > yson.MaxDepth {
		return yson.Node{}, fmt.Errorf("the value nests deeper than %d levels", yson.MaxDepth)
	}
	if !v.IsValid() {
		return yson.Entity(), nil
	}
	switch v.Type() {
	case valueType:
		return v.Interface().(Value).node, nil
	case nodeType:
		return v.Interface().(yson.Node), nil
	case timeType:
		return yson.String(v.Interface().(time.Time).UTC().Format(timeLayout)), nil
	case durationType:
		return yson.Int64(time.Duration(v.Int()).Milliseconds()), nil
	}
	switch v.Kind() {
	case reflect.Bool:
		return yson.Boolean(v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return yson.Int64(v.Int()), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return yson.Uint64(v.Uint()), nil
	case reflect.Float32, reflect.Float64:
		return yson.Double(v.Float()), nil
	case reflect.String:
		return yson.String(v.String()), nil
	case reflect.Pointer, reflect.Interface:
		return encode(v.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		return encodeList(v, depth)
	case reflect.Map:
		return encodeMap(v, depth)
	case reflect.Struct:
		return encodeStruct(v, depth)
	}
	return yson.Node{}, fmt.Errorf("a %v cannot be sent to a scheduler", v.Type())
}

func encodeList(v reflect.Value, depth int) (yson.Node, error) {
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		return yson.String(string(v.Bytes())), nil
	}
	items := make([]yson.Node, v.Len())
	for i := range items {
		var err error
		if items[i], err = encode(v.Index(i), depth+1); err != nil {
			return yson.Node{}, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return yson.List(items...), nil
}

func encodeMap(v reflect.Value, depth int) (yson.Node, error) {
	if v.Type().Key().Kind() != reflect.String {
		return yson.Node{}, fmt.Errorf("a %v cannot be sent to a scheduler: keys are strings", v.Type())
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
	entries := make([]yson.Entry, len(keys))
	for i, key := range keys {
		value, err := encode(v.MapIndex(key), depth+1)
		if err != nil {
			return yson.Node{}, fmt.Errorf("%s: %w", key.String(), err)
		}
		entries[i] = yson.Pair(key.String(), value)
	}
	return yson.Map(entries...), nil
}

func encodeStruct(v reflect.Value, depth int) (yson.Node, error) {
	var entries []yson.Entry
	for i := range v.NumField() {
		name := fieldName(v.Type().Field(i))
		if name == "" || v.Field(i).IsZero() {
			continue
		}
		value, err := encode(v.Field(i), depth+1)
		if err != nil {
			return yson.Node{}, fmt.Errorf("%s: %w", name, err)
		}
		entries = append(entries, yson.Pair(name, value))
	}
	return yson.Map(entries...), nil
}

// fieldName returns the key of a struct field; empty if the field is not encoded.
func fieldName(f reflect.StructField) string {
	name, tagged := f.Tag.Lookup("yson")
	if !tagged {
		name, _, _ = strings.Cut(f.Tag.Get("json"), ",")
		name = cmp.Or(name, f.Name)
	}
	if name == "-" || !f.IsExported() {
		return ""
	}
	return name
}

// Tags of decoded fields that are not keys. A tag such as brief_spec/title is a path of
// keys.
const (
	tagWhole = "." // receives the whole value
	tagKey   = "#" // receives the key, if the API sends the list as a map
)

// decode converts an answer to a T. It ignores unknown keys. A field whose key is missing
// or has a value of another type stays zero.
func decode[T any](answer Value) *T {
	target := new(T)
	decodeInto(answer.node, reflect.ValueOf(target).Elem())
	return target
}

func decodeInto(n yson.Node, v reflect.Value) {
	switch v.Type() {
	case valueType:
		v.Set(reflect.ValueOf(Value{n}))
		return
	case errorType:
		v.Set(reflect.ValueOf(*errorOf(n)))
		return
	case timeType:
		text, _ := n.Text()
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
			v.Set(reflect.ValueOf(at))
		}
		return
	case durationType:
		ms, _ := n.Double()
		v.SetInt(int64(ms * float64(time.Millisecond)))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		value, _ := n.Boolean()
		v.SetBool(value)
	case reflect.Int64:
		if n.Kind() == yson.MapKind { // counts by reason, with their total
			n = field(n, "total")
		}
		value, _ := n.Int64()
		v.SetInt(value)
	case reflect.Float64:
		value, _ := n.Double()
		v.SetFloat(value)
	case reflect.String:
		value, _ := n.Text()
		v.SetString(value)
	case reflect.Pointer:
		if !n.IsEntity() {
			v.Set(reflect.New(v.Type().Elem()))
			decodeInto(n, v.Elem())
		}
	case reflect.Slice:
		decodeList(n, v)
	case reflect.Struct:
		decodeStruct(n, "", v)
	default:
		panic(fmt.Sprintf("no answer is read into a %v", v.Type()))
	}
}

// decodeList decodes a list, or a map whose keys are stored in the fields with tagKey.
func decodeList(n yson.Node, v reflect.Value) {
	items, entries := n.Items(), n.Entries()
	if v.Type().Elem().Kind() != reflect.Struct {
		entries = nil
	}
	v.Set(reflect.MakeSlice(v.Type(), len(items)+len(entries), len(items)+len(entries)))
	for i, item := range items {
		decodeInto(item, v.Index(i))
	}
	for i, e := range entries {
		decodeStruct(e.Value, e.Key, v.Index(i))
	}
}

func decodeStruct(n yson.Node, key string, v reflect.Value) {
	for i := range v.NumField() {
		switch name := v.Type().Field(i).Tag.Get("yson"); name {
		case "":
			if v.Type().Field(i).Anonymous {
				decodeStruct(n, key, v.Field(i))
			}
		case tagWhole:
			decodeInto(n, v.Field(i))
		case tagKey:
			v.Field(i).SetString(key)
		default:
			decodeInto(field(n, strings.Split(name, "/")...), v.Field(i))
		}
	}
}
