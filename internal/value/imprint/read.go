package imprint

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"time"
	"unsafe"
)

// Limits on what a reader builds, because data may be damaged or made up.
const (
	deepest = 10_000 // levels of nesting
	// allowance is the memory that any value may take, and expansion how much more
	// it may take for every byte.
	allowance = 1 << 20
	expansion = 1 << 10
)

// Reader reads values in the order in which a Writer wrote them.
type Reader struct {
	schema  *Schema
	data    []byte
	at      int
	err     error
	strings []string
	shared  []sharedValue
	// pointers are the targets of the value that is being read.
	pointers []target
	self     sharedValue // the shared value that is being read
	inside   int
	depth    int
	budget   int
}

// sharedValue is a value that several pointers share.
type sharedValue struct {
	target
	number int // its type
}

// Reader returns a reader. The schema must be one of Describe, or bound.
func (s *Schema) Reader() *Reader { return &Reader{schema: s} }

// Read reads a value into what the pointer points to, and returns the rest of the
// data. The reader cannot be used after an error.
func (r *Reader) Read(data []byte, root int, into any) (rest []byte, err error) {
	if r.err != nil {
		return nil, r.err
	}
	if root < 0 || root >= len(r.schema.plans) || r.schema.plans[root] == nil {
		r.data, r.at = data, 0
		r.fail("there is no type %d", root)
		return nil, r.err
	}
	p, v := r.schema.plans[root], reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.Type().Elem() != p.local {
		panic(fmt.Sprintf("a %T is not a pointer to %v", into, p.local))
	}
	r.data, r.at, r.budget = data, 0, allowance+expansion*len(data)
	r.pointers = append(r.pointers[:0], target{v.UnsafePointer(), p.local})
	r.read(v.UnsafePointer(), p)
	return r.data[r.at:], r.err
}

func (r *Reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: byte %d: %s", ErrFormat, r.at, fmt.Sprintf(format, args...))
	}
}

func (r *Reader) byte() byte {
	if r.at >= len(r.data) {
		r.fail("it ends too early")
		return 0
	}
	r.at++
	return r.data[r.at-1]
}

func (r *Reader) uint() uint64 {
	v, n := binary.Uvarint(r.data[r.at:])
	if n <= 0 {
		r.fail("it ends inside a number")
		return 0
	}
	r.at += n
	return v
}

func (r *Reader) int() int64 {
	v, n := binary.Varint(r.data[r.at:])
	if n <= 0 {
		r.fail("it ends inside a number")
		return 0
	}
	r.at += n
	return v
}

// number reads a number that is at most a bound.
func (r *Reader) number(most int) int {
	v := r.uint()
	if r.err == nil && v > uint64(most) {
		r.fail("%d is above %d", v, most)
	}
	if r.err != nil {
		return 0
	}
	return int(v)
}

// bytes returns the next bytes, without a copy.
func (r *Reader) bytes(count uint64) []byte {
	if count > uint64(len(r.data)-r.at) {
		r.fail("it ends too early")
		return nil
	}
	r.at += int(count)
	return r.data[r.at-int(count) : r.at]
}

// text reads a string of a schema.
func (r *Reader) text() string { return string(r.bytes(r.uint())) }

// spend accounts for memory.
func (r *Reader) spend(count uint64, size uintptr) bool {
	if r.err != nil {
		return false
	}
	if size = max(size, 1); count > uint64(r.budget)/uint64(size) {
		r.fail("%d values of %d bytes do not fit into so little data", count, size)
		return false
	}
	r.budget -= int(count) * int(size)
	return true
}

func (r *Reader) read(at unsafe.Pointer, p *plan) {
	if r.err != nil {
		return
	}
	if r.depth++; r.depth > deepest {
		r.fail("it is nested too deeply")
		return
	}
	r.value(at, p)
	r.depth--
}

func (r *Reader) value(at unsafe.Pointer, p *plan) {
	switch p.form {
	case boolForm:
		if b := r.byte(); b > 1 {
			r.fail("%d is not a bool", b)
		} else {
			*(*bool)(at) = b == 1
		}
	case intForm:
		r.storeInt(at, p.size)
	case uintForm:
		r.storeUint(at, p.size)
	case floatForm:
		if b := r.bytes(8); b != nil {
			v := math.Float64frombits(binary.LittleEndian.Uint64(b))
			if p.size == 4 {
				*(*float32)(at) = float32(v)
			} else {
				*(*float64)(at) = v
			}
		}
	case stringForm:
		*(*string)(at) = r.string()
	case timeForm:
		seconds := r.int()
		*(*time.Time)(at) = time.Unix(seconds, int64(r.number(999_999_999))).UTC()
	case structForm:
		r.fields(at, p)
	case arrayForm:
		for i := range p.length {
			r.read(unsafe.Add(at, uintptr(i)*p.elem.size), p.elem)
		}
	case sliceForm:
		r.list(at, p)
	case mapForm:
		r.mapping(at, p)
	case pointerForm:
		*(*unsafe.Pointer)(at) = r.pointer(p)
	case sharedForm:
		*(*unsafe.Pointer)(at) = r.sharedPointer(p)
	}
}

func (r *Reader) storeInt(at unsafe.Pointer, size uintptr) {
	v := r.int()
	if shift := 64 - 8*size; v<<shift>>shift != v {
		r.fail("%d does not fit into %d bytes", v, size)
		return
	}
	switch size {
	case 1:
		*(*int8)(at) = int8(v)
	case 2:
		*(*int16)(at) = int16(v)
	case 4:
		*(*int32)(at) = int32(v)
	default:
		*(*int64)(at) = v
	}
}

func (r *Reader) storeUint(at unsafe.Pointer, size uintptr) {
	v := r.uint()
	if shift := 64 - 8*size; v<<shift>>shift != v {
		r.fail("%d does not fit into %d bytes", v, size)
		return
	}
	switch size {
	case 1:
		*(*uint8)(at) = uint8(v)
	case 2:
		*(*uint16)(at) = uint16(v)
	case 4:
		*(*uint32)(at) = uint32(v)
	default:
		*(*uint64)(at) = v
	}
}

func (r *Reader) fields(at unsafe.Pointer, p *plan) {
	mask := r.bytes(uint64(len(p.fields)+7) / 8)
	if mask == nil && len(p.fields) > 0 {
		return
	}
	if rest := len(p.fields) % 8; rest > 0 && mask[len(mask)-1]>>rest != 0 {
		r.fail("a %s has too many fields", p.name)
		return
	}
	for i := range p.fields {
		if mask[i/8]>>(i%8)&1 == 0 {
			continue
		}
		f := &p.fields[i]
		if f.plan.form == boolForm {
			*(*bool)(unsafe.Add(at, f.offset)) = true
		} else {
			r.read(unsafe.Add(at, f.offset), f.plan)
		}
	}
}

func (r *Reader) list(at unsafe.Pointer, p *plan) {
	count := r.uint()
	if count == 0 {
		return
	}
	if count--; !r.spend(count, p.elem.size) {
		return
	}
	v := reflect.MakeSlice(p.local, int(count), int(count))
	first := v.UnsafePointer()
	if p.elem.form == uintForm && p.elem.size == 1 {
		if raw := r.bytes(count); raw != nil {
			copy(unsafe.Slice((*byte)(first), count), raw)
		}
	} else {
		for i := 0; i < int(count) && r.err == nil; i++ {
			r.read(unsafe.Add(first, uintptr(i)*p.elem.size), p.elem)
		}
	}
	reflect.NewAt(p.local, at).Elem().Set(v)
}

func (r *Reader) mapping(at unsafe.Pointer, p *plan) {
	count := r.uint()
	if count == 0 {
		return
	}
	if count--; !r.spend(count, p.key.size+p.elem.size) {
		return
	}
	v := reflect.MakeMapWithSize(p.local, int(count))
	for i := 0; i < int(count) && r.err == nil; i++ {
		key, elem := reflect.New(p.key.local), reflect.New(p.elem.local)
		r.read(key.UnsafePointer(), p.key)
		r.read(elem.UnsafePointer(), p.elem)
		v.SetMapIndex(key.Elem(), elem.Elem())
	}
	reflect.NewAt(p.local, at).Elem().Set(v)
}

// string reads what Writer.text has written.
func (r *Reader) string() string {
	head := r.uint()
	if head&1 == 1 {
		if number := head >> 1; r.err == nil && r.inside == 0 && number < uint64(len(r.strings)) {
			return r.strings[number]
		}
		r.fail("a string is missing")
		return ""
	}
	s := string(r.bytes(head >> 1))
	if r.inside == 0 && len(s) <= longestInterned {
		r.strings = append(r.strings, s)
	}
	return s
}

func (r *Reader) pointer(p *plan) unsafe.Pointer {
	number := r.uint()
	switch {
	case number == 0 || r.err != nil:
		return nil
	case number <= uint64(len(r.pointers)):
		to := r.pointers[number-1]
		if to.kind != p.elem.local {
			r.fail("a pointer to %v points to a %v", p.elem.local, to.kind)
			return nil
		}
		return to.at
	case number > uint64(len(r.pointers))+1:
		r.fail("a pointer points to nothing")
		return nil
	case !r.spend(1, p.elem.size):
		return nil
	}
	to := target{reflect.New(p.elem.local).UnsafePointer(), p.elem.local}
	r.pointers = append(r.pointers, to)
	r.read(to.at, p.elem)
	return to.at
}

func (r *Reader) sharedPointer(p *plan) unsafe.Pointer {
	for {
		tag := r.uint()
		switch {
		case r.err != nil || tag == sharedNil:
			return nil
		case tag == sharedNew && r.inside == 0:
			r.define()
		case tag == sharedSelf && r.inside > 0:
			if r.self.number != p.number || r.self.kind != p.elem.local {
				r.fail("a pointer to %v points to a %v", p.elem.local, r.self.kind)
				return nil
			}
			return r.self.at
		case tag < firstShared || tag-firstShared >= uint64(len(r.shared)):
			r.fail("a shared value is missing")
			return nil
		default:
			to := r.shared[tag-firstShared]
			if to.number != p.number || to.kind != p.elem.local {
				r.fail("a pointer to %v points to a %v", p.elem.local, to.kind)
				return nil
			}
			return to.at
		}
	}
}

// define reads a shared value.
func (r *Reader) define() {
	value := r.bytes(r.uint())
	if r.err != nil {
		return
	}
	outer, at, pointers := r.data, r.at, r.pointers
	r.data, r.at = value, 0
	r.inside++
	number := r.uint()
	p := r.schema.targets[int(min(number, math.MaxInt32))]
	if r.err == nil && p == nil {
		r.fail("type %d is not shared", number)
	}
	if r.err == nil && r.spend(1, p.size) {
		r.self = sharedValue{target{reflect.New(p.local).UnsafePointer(), p.local}, int(number)}
		r.pointers = []target{r.self.target}
		r.read(r.self.at, p)
		r.shared = append(r.shared, r.self)
	}
	if r.err == nil && r.at < len(r.data) {
		r.fail("a shared value is too long")
	}
	r.inside--
	r.data, r.at, r.pointers = outer, at, pointers
}
