package operation

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// bitmap is a set of cookies. Its length is fixed when it is made.
type bitmap []uint64

func newBitmap(count int32) bitmap { return make(bitmap, (count+63)/64) }

func (b bitmap) has(i int32) bool { return b[i>>6]&(1<<(i&63)) != 0 }
func (b bitmap) add(i int32)      { b[i>>6] |= 1 << (i & 63) }
func (b bitmap) remove(i int32)   { b[i>>6] &^= 1 << (i & 63) }

func (b bitmap) count() (n int32) {
	for _, word := range b {
		n += int32(bits.OnesCount64(word))
	}
	return n
}

// addAll adds the cookies of another bitmap of the same length.
func (b bitmap) addAll(other []uint64) {
	for i, word := range other {
		b[i] |= word
	}
}

// bytes returns the bits, smallest cookie first, without trailing zero words.
func (b bitmap) bytes() []byte {
	last := len(b)
	for last > 0 && b[last-1] == 0 {
		last--
	}
	if last == 0 {
		return nil
	}
	data := make([]byte, 0, 8*last)
	for _, word := range b[:last] {
		data = binary.LittleEndian.AppendUint64(data, word)
	}
	return data
}

// bitmapOf is the inverse of bytes for a set of cookies below end.
func bitmapOf(data []byte, end, count int32) (bitmap, error) {
	b := newBitmap(count)
	if len(data)%8 != 0 || len(data)/8 > len(b) {
		return nil, fmt.Errorf("a set of %d bytes for %d jobs", len(data), count)
	}
	for i := range len(data) / 8 {
		b[i] = binary.LittleEndian.Uint64(data[8*i:])
		if first := int32(i) * 64; b[i] != 0 && first+int32(bits.Len64(b[i])) > end {
			return nil, fmt.Errorf("a set has job %d, beyond %d", first+int32(bits.Len64(b[i]))-1, end)
		}
	}
	return b, nil
}

// cookieSet is a set of cookies with fast access to the smallest. Each level
// has a bit for every nonzero word of the previous level, up to a level of
// one word, so every operation needs at most five steps. It uses no memory
// until a cookie is added.
type cookieSet struct {
	levels [][]uint64
	size   int32
}

// setOf makes a set of the cookies in a bitmap. It keeps the bitmap.
func setOf(b bitmap) cookieSet {
	s := cookieSet{levels: [][]uint64{b}, size: b.count()}
	for below := []uint64(b); len(below) > 1; {
		level := make([]uint64, (len(below)+63)/64)
		for i, word := range below {
			if word != 0 {
				level[i>>6] |= 1 << (i & 63)
			}
		}
		s.levels = append(s.levels, level)
		below = level
	}
	return s
}

// add adds a cookie that is not in the set, of a task with count jobs.
func (s *cookieSet) add(i, count int32) {
	if s.levels == nil {
		*s = setOf(newBitmap(count))
	}
	s.size++
	for _, level := range s.levels {
		word := &level[i>>6]
		empty := *word == 0
		*word |= 1 << (i & 63)
		if !empty {
			return
		}
		i >>= 6
	}
}

// remove removes a cookie that is in the set.
func (s *cookieSet) remove(i int32) {
	s.size--
	for _, level := range s.levels {
		word := &level[i>>6]
		*word &^= 1 << (i & 63)
		if *word != 0 {
			return
		}
		i >>= 6
	}
}

func (s *cookieSet) has(i int32) bool { return s.size > 0 && bitmap(s.levels[0]).has(i) }

// first returns the smallest cookie of a nonempty set.
func (s *cookieSet) first() (i int32) {
	for l := len(s.levels) - 1; l >= 0; l-- {
		i = i<<6 | int32(bits.TrailingZeros64(s.levels[l][i]))
	}
	return i
}

// clear empties the set and frees its memory.
func (s *cookieSet) clear() { *s = cookieSet{} }

func (s *cookieSet) clone() cookieSet {
	if s.size == 0 {
		return cookieSet{}
	}
	copied := cookieSet{levels: make([][]uint64, len(s.levels)), size: s.size}
	for l, level := range s.levels {
		copied.levels[l] = append([]uint64(nil), level...)
	}
	return copied
}
