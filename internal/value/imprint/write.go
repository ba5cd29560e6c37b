package imprint

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"
	"unsafe"
)

// longestInterned is the length of the longest string that is written once.
const longestInterned = 256

// Writer writes values one after another. Strings and shared values that occur
// again are written as numbers.
type Writer struct {
	schema   *Schema
	out      []byte
	root     target            // the value that is being written, which has the number one
	pointers map[target]uint64 // numbers of other values
	strings  map[string]uint64
	shared   map[[sha256.Size]byte]uint64
	// held are shared values inside others, by address: they are not looked into
	// again.
	held map[unsafe.Pointer]uint64
	// inside is positive while a shared value is written: its bytes must not depend
	// on what was written before.
	inside   int
	defining []unsafe.Pointer // the shared values that are being written, outer ones first
	defined  []byte           // shared values that are new
}

// target is what a pointer points to.
type target struct {
	at   unsafe.Pointer
	kind reflect.Type
}

// Writer returns a writer of values. The schema must be one of Describe.
func (s *Schema) Writer() *Writer {
	return &Writer{
		schema: s, pointers: map[target]uint64{}, strings: map[string]uint64{}, shared: map[[sha256.Size]byte]uint64{}, held: map[unsafe.Pointer]uint64{},
	}
}

// Append appends a value to a buffer. value is a pointer to a value of the type of
// the root with this number.
func (w *Writer) Append(into []byte, root int, value any) []byte {
	p, v := w.schema.plans[root], reflect.ValueOf(value)
	if v.Kind() != reflect.Pointer || v.Type().Elem() != p.local {
		panic(fmt.Sprintf("a %T is not a pointer to %v", value, p.local))
	}
	w.out = into
	if len(w.pointers) > 0 {
		clear(w.pointers)
	}
	w.root = target{v.UnsafePointer(), p.local}
	w.write(w.root.at, p)
	into, w.out = w.out, nil
	return into
}

func (w *Writer) uint(v uint64) { w.out = binary.AppendUvarint(w.out, v) }

func (w *Writer) write(at unsafe.Pointer, p *plan) {
	switch p.form {
	case boolForm:
		w.out = append(w.out, *(*byte)(at))
	case intForm:
		w.out = binary.AppendVarint(w.out, readInt(at, p.size))
	case uintForm:
		w.uint(readUint(at, p.size))
	case floatForm:
		v := *(*float64)(at)
		if p.size == 4 {
			v = float64(*(*float32)(at))
		}
		w.out = binary.LittleEndian.AppendUint64(w.out, math.Float64bits(v))
	case stringForm:
		w.text(*(*string)(at))
	case timeForm:
		t := *(*time.Time)(at)
		w.out = binary.AppendVarint(w.out, t.Unix())
		w.uint(uint64(t.Nanosecond()))
	case structForm:
		w.fields(at, p)
	case arrayForm:
		for i := range p.length {
			w.write(unsafe.Add(at, uintptr(i)*p.elem.size), p.elem)
		}
	case sliceForm:
		w.list(reflect.NewAt(p.local, at).Elem(), p)
	case mapForm:
		w.mapping(reflect.NewAt(p.local, at).Elem(), p)
	case pointerForm:
		w.pointer(*(*unsafe.Pointer)(at), p)
	case sharedForm:
		w.sharedPointer(*(*unsafe.Pointer)(at), p)
	}
}

// fields writes which fields of a struct are not zero, and these.
func (w *Writer) fields(at unsafe.Pointer, p *plan) {
	mask := len(w.out)
	for range (len(p.fields) + 7) / 8 {
		w.out = append(w.out, 0)
	}
	for i := range p.fields {
		f := &p.fields[i]
		field := unsafe.Add(at, f.offset)
		if isZero(field, f.plan) {
			continue
		}
		w.out[mask+i/8] |= 1 << (i % 8)
		if f.plan.form != boolForm {
			w.write(field, f.plan)
		}
	}
}

// isZero reports whether reading a value may leave it out.
func isZero(at unsafe.Pointer, p *plan) bool {
	if p.form == stringForm {
		return *(*string)(at) == ""
	}
	if p.size%8 == 0 && uintptr(at)%8 == 0 {
		for _, word := range unsafe.Slice((*uint64)(at), p.size/8) {
			if word != 0 {
				return false
			}
		}
		return true
	}
	for _, b := range unsafe.Slice((*byte)(at), p.size) {
		if b != 0 {
			return false
		}
	}
	return true
}

func (w *Writer) list(v reflect.Value, p *plan) {
	if v.IsNil() {
		w.uint(0)
		return
	}
	count := v.Len()
	w.uint(uint64(count) + 1)
	first := v.UnsafePointer()
	if p.elem.form == uintForm && p.elem.size == 1 {
		w.out = append(w.out, unsafe.Slice((*byte)(first), count)...)
		return
	}
	for i := range count {
		w.write(unsafe.Add(first, uintptr(i)*p.elem.size), p.elem)
	}
}

func (w *Writer) mapping(v reflect.Value, p *plan) {
	if v.IsNil() {
		w.uint(0)
		return
	}
	keys := v.MapKeys()
	sortKeys(keys)
	w.uint(uint64(len(keys)) + 1)
	key, elem := reflect.New(p.key.local), reflect.New(p.elem.local)
	for _, k := range keys {
		key.Elem().Set(k)
		elem.Elem().Set(v.MapIndex(k))
		w.write(key.UnsafePointer(), p.key)
		w.write(elem.UnsafePointer(), p.elem)
	}
}

// text writes a string, or its number if it was written before.
func (w *Writer) text(v string) {
	if w.inside == 0 {
		if number, known := w.strings[v]; known {
			w.uint(number<<1 | 1)
			return
		}
		if len(v) <= longestInterned {
			w.strings[v] = uint64(len(w.strings))
		}
	}
	w.uint(uint64(len(v)) << 1)
	w.out = append(w.out, v...)
}

// pointer writes the number of what it points to, and the target itself if it is
// new.
func (w *Writer) pointer(to unsafe.Pointer, p *plan) {
	if to == nil {
		w.uint(0)
		return
	}
	key := target{to, p.elem.local}
	if key == w.root {
		w.uint(1)
		return
	}
	if number, known := w.pointers[key]; known {
		w.uint(number)
		return
	}
	number := uint64(len(w.pointers)) + 2
	w.pointers[key] = number
	w.uint(number)
	w.write(to, p.elem)
}

// Tags of shared pointers. Larger ones are numbers of values, from firstShared on.
const (
	sharedNil  = iota
	sharedNew  // another value follows, with its length and its type, then the pointer
	sharedSelf // the shared value that contains the pointer
	firstShared
)

// sharedPointer writes the number of a shared value, after the values that were not
// written before.
func (w *Writer) sharedPointer(to unsafe.Pointer, p *plan) {
	if to == nil {
		w.uint(sharedNil)
		return
	}
	if n := len(w.defining); n > 0 && w.defining[n-1] == to {
		w.uint(sharedSelf)
		return
	}
	number := w.define(to, p)
	if w.inside == 0 {
		w.out = append(w.out, w.defined...)
		w.defined = w.defined[:0]
	}
	w.uint(firstShared + number)
}

// define returns the number of a shared value. Values that are new are appended to
// w.defined, those inside others first.
func (w *Writer) define(to unsafe.Pointer, p *plan) uint64 {
	if number, known := w.held[to]; known {
		return number
	}
	out, root, pointers := w.out, w.root, w.pointers
	w.out, w.root, w.pointers = binary.AppendUvarint(nil, uint64(p.number)), target{to, p.elem.local}, map[target]uint64{}
	if slices.Contains(w.defining, to) {
		panic(fmt.Sprintf("a shared %v is inside another one that is inside it", p.elem.local))
	}
	w.inside++
	w.defining = append(w.defining, to)
	w.write(to, p.elem)
	w.defining = w.defining[:len(w.defining)-1]
	w.inside--
	value := w.out
	w.out, w.root, w.pointers = out, root, pointers
	sum := sha256.Sum256(value)
	number, known := w.shared[sum]
	if !known {
		number = uint64(len(w.shared))
		w.shared[sum] = number
		w.defined = binary.AppendUvarint(w.defined, sharedNew)
		w.defined = binary.AppendUvarint(w.defined, uint64(len(value)))
		w.defined = append(w.defined, value...)
	}
	if w.inside > 0 {
		w.held[to] = number
	}
	return number
}

func readInt(at unsafe.Pointer, size uintptr) int64 {
	switch size {
	case 1:
		return int64(*(*int8)(at))
	case 2:
		return int64(*(*int16)(at))
	case 4:
		return int64(*(*int32)(at))
	}
	return *(*int64)(at)
}

func readUint(at unsafe.Pointer, size uintptr) uint64 {
	switch size {
	case 1:
		return uint64(*(*uint8)(at))
	case 2:
		return uint64(*(*uint16)(at))
	case 4:
		return uint64(*(*uint32)(at))
	}
	return *(*uint64)(at)
}
