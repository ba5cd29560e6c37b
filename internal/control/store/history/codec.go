package history

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"sync"
	"time"
)

// The format of a block, before it is compressed with DEFLATE:
//
//	version      one byte, 1
//	runs         number, then for each run of points without a gap: slots left out before it, length
//	columns      number, then for each: difference of its number to the one before, kind
//	values       of each column that has some, in the same order
//
// Numbers are unsigned varints unless stated otherwise. A column is a series, at coarser levels
// twice: 2n has the averages of series n, 2n+1 the maxima.
const formatVersion = 1

// Kinds of columns.
const (
	kindZero     = 0 // all values are 0
	kindConstant = 1 // one value: 8 bytes, IEEE 754, little endian
	kindVarying  = 2 // exponent of the quantum (signed), then differences (signed)
	kindGaps     = 3 // as kindVarying, preceded by a bitmap of the values that exist
	kindSame     = 4 // the values of the previous column
)

// Limits of a block; a block that exceeds them is damaged.
const (
	maxBlockSize = 64 << 20
	maxColumns   = 1 << 16
)

var errDamaged = errors.New("damaged block of history")

// stretch is an unpacked block: the slots that have points, and columns of values for them.
type stretch struct {
	slots   []int32
	columns []*column // by number, nil where there is none
}

// column returns a column, nil if there is none.
func (s *stretch) column(number int32) *column {
	if int(number) >= len(s.columns) {
		return nil
	}
	return s.columns[number]
}

// set stores a column under its number.
func (s *stretch) set(number int32, c *column) {
	for len(s.columns) <= int(number) {
		s.columns = append(s.columns, nil)
	}
	s.columns[number] = c
}

// column is a sequence of values. While they are equal, only one is kept. NaN means "no value".
type column struct {
	constant float64
	values   []float32 // nil while all are equal
	n        int
}

func (c *column) add(v float64) {
	if math.IsInf(v, 0) {
		v = math.NaN()
	}
	switch {
	case c.values != nil:
		c.values = append(c.values, float32(v))
	case c.n == 0:
		c.constant = v
	case !same(c.constant, v):
		c.values = make([]float32, c.n, c.n*2+8)
		for i := range c.values {
			c.values[i] = float32(c.constant)
		}
		c.values = append(c.values, float32(v))
	}
	c.n++
}

func (c *column) at(i int) float64 {
	if c.values == nil {
		return c.constant
	}
	return float64(c.values[i])
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

func (c *column) equals(other *column) bool {
	if c.n != other.n || c.values == nil != (other.values == nil) {
		return false
	}
	if c.values == nil {
		return same(c.constant, other.constant)
	}
	for i, v := range c.values {
		if !same(float64(v), float64(other.values[i])) {
			return false
		}
	}
	return true
}

// compressors are large, so they are reused.
var compressors = sync.Pool{New: func() any {
	w, err := flate.NewWriter(io.Discard, flate.BestCompression)
	if err != nil {
		panic(err) // the level is a valid constant
	}
	return w
}}

// encode packs a stretch.
func (s *stretch) encode() []byte {
	raw := []byte{formatVersion}
	raw = appendRuns(raw, s.slots)
	var values []byte
	var head []byte
	count, last := 0, int32(0)
	var before *column
	for number, c := range s.columns {
		if c == nil || c.values == nil && math.IsNaN(c.constant) {
			continue
		}
		head = binary.AppendUvarint(head, uint64(int32(number)-last))
		last = int32(number)
		count++
		var kind byte
		if before != nil && c.equals(before) && c.values != nil {
			kind = kindSame
		} else {
			kind, values = c.encode(values)
		}
		head = append(head, kind)
		before = c
	}
	raw = binary.AppendUvarint(raw, uint64(count))
	raw = append(raw, head...)
	raw = append(raw, values...)

	var packed bytes.Buffer
	w := compressors.Get().(*flate.Writer)
	defer compressors.Put(w)
	w.Reset(&packed)
	_, _ = w.Write(raw) // writing to a buffer does not fail
	_ = w.Close()
	return packed.Bytes()
}

// appendRuns encodes the slots of points.
func appendRuns(raw []byte, slots []int32) []byte {
	type run struct{ skipped, length int32 }
	var runs []run
	next := int32(0)
	for _, slot := range slots {
		if len(runs) == 0 || slot != next {
			runs = append(runs, run{skipped: slot - next})
		}
		runs[len(runs)-1].length++
		next = slot + 1
	}
	raw = binary.AppendUvarint(raw, uint64(len(runs)))
	for _, r := range runs {
		raw = binary.AppendUvarint(raw, uint64(r.skipped))
		raw = binary.AppendUvarint(raw, uint64(r.length))
	}
	return raw
}

// encode appends the values of a column and returns its kind.
func (c *column) encode(into []byte) (byte, []byte) {
	if c.values == nil {
		if c.constant == 0 {
			return kindZero, into
		}
		return kindConstant, binary.LittleEndian.AppendUint64(into, math.Float64bits(c.constant))
	}
	kind := byte(kindVarying)
	for _, v := range c.values {
		if v != v {
			kind = kindGaps
			break
		}
	}
	if kind == kindGaps {
		bitmap := make([]byte, (len(c.values)+7)/8)
		for i, v := range c.values {
			if v == v {
				bitmap[i/8] |= 1 << (i % 8)
			}
		}
		into = append(into, bitmap...)
	}
	exponent := c.quantum()
	into = binary.AppendVarint(into, int64(exponent))
	last := int64(0)
	for _, v := range c.values {
		if v != v {
			continue
		}
		k := toQuanta(float64(v), exponent)
		into = binary.AppendVarint(into, k-last)
		last = k
	}
	return kind, into
}

// quantum returns the power of ten to which values are rounded.
func (c *column) quantum() int {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range c.values {
		if v == v {
			low, high = min(low, float64(v)), max(high, float64(v))
		}
	}
	least := max((high-low)/500, max(math.Abs(low), math.Abs(high))/1e5)
	if !(least > 0) {
		return 0
	}
	return int(math.Floor(math.Log10(least) + 1e-9))
}

// Both directions use a power of ten that is exact as a number (up to 22), so a short decimal
// number survives the round trip.

func toQuanta(v float64, exponent int) int64 {
	if exponent < 0 {
		return int64(math.Round(v * math.Pow10(-exponent)))
	}
	return int64(math.Round(v / math.Pow10(exponent)))
}

func fromQuanta(exponent int) func(k int64) float64 {
	if exponent < 0 {
		power := math.Pow10(-exponent)
		return func(k int64) float64 { return float64(k) / power }
	}
	power := math.Pow10(exponent)
	return func(k int64) float64 { return float64(k) * power }
}

// decoder decodes a block.
type decoder struct {
	raw []byte
	err error
}

func (d *decoder) unsigned(limit uint64) uint64 {
	v, n := binary.Uvarint(d.raw)
	if n <= 0 || v > limit {
		d.fail()
		return 0
	}
	d.raw = d.raw[n:]
	return v
}

func (d *decoder) signed() int64 {
	v, n := binary.Varint(d.raw)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.raw = d.raw[n:]
	return v
}

func (d *decoder) bytes(n int) []byte {
	if n > len(d.raw) {
		d.fail()
		return make([]byte, n)
	}
	b := d.raw[:n]
	d.raw = d.raw[n:]
	return b
}

func (d *decoder) fail() {
	d.raw = nil
	if d.err == nil {
		d.err = errDamaged
	}
}

// decode unpacks a block. If wanted is not nil, only the columns for which it returns true are
// kept.
func decode(level Level, data []byte, wanted func(column int32) bool) (*stretch, error) {
	r := flate.NewReader(bytes.NewReader(data))
	raw, err := io.ReadAll(io.LimitReader(r, maxBlockSize))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if len(raw) == 0 || raw[0] != formatVersion {
		return nil, fmt.Errorf("%w: unknown format", errDamaged)
	}
	d := &decoder{raw: raw[1:]}
	s := &stretch{}
	points := levels[level].points
	next := int32(0)
	for range d.unsigned(uint64(points)) {
		next += int32(d.unsigned(uint64(points)))
		length := int32(d.unsigned(uint64(points)))
		if int64(next)+int64(length) > points {
			d.fail()
			break
		}
		for range length {
			s.slots = append(s.slots, next)
			next++
		}
	}
	type head struct {
		number int32
		kind   byte
	}
	heads := make([]head, 0, 64)
	number := int32(0)
	for i := range d.unsigned(maxColumns) {
		step := d.unsigned(maxColumns)
		if d.err != nil || number > maxColumns || i > 0 && step == 0 {
			d.fail()
			break
		}
		number += int32(step)
		heads = append(heads, head{number, d.bytes(1)[0]})
	}
	// A column is needed if it is wanted, or if a needed column repeats it.
	needed := make([]bool, len(heads))
	for i := len(heads) - 1; i >= 0; i-- {
		needed[i] = wanted == nil || wanted(heads[i].number) || i+1 < len(heads) && heads[i+1].kind == kindSame && needed[i+1]
	}
	var before *column
	for i, h := range heads {
		if !needed[i] {
			d.skip(h.kind, len(s.slots))
			continue
		}
		before = d.column(h.kind, len(s.slots), before)
		if wanted == nil || wanted(h.number) {
			s.set(h.number, before)
		}
	}
	if d.err == nil && len(d.raw) > 0 {
		d.fail()
	}
	return s, d.err
}

// skip skips the values of a column.
func (d *decoder) skip(kind byte, n int) {
	switch kind {
	case kindZero, kindSame:
	case kindConstant:
		d.bytes(8)
	case kindVarying, kindGaps:
		left := n
		if kind == kindGaps {
			left = 0
			for _, b := range d.bytes((n + 7) / 8) {
				left += bits.OnesCount8(b)
			}
		}
		left++ // the exponent
		i := 0
		for ; i < len(d.raw) && left > 0; i++ {
			if d.raw[i] < 0x80 {
				left--
			}
		}
		if left > 0 {
			d.fail()
			return
		}
		d.raw = d.raw[i:]
	default:
		d.fail()
	}
}

// column decodes the values of a column.
func (d *decoder) column(kind byte, n int, before *column) *column {
	c := &column{n: n}
	switch kind {
	case kindZero:
		return c
	case kindConstant:
		c.constant = math.Float64frombits(binary.LittleEndian.Uint64(d.bytes(8)))
		return c
	case kindSame:
		if before == nil {
			d.fail()
			return c
		}
		*c = *before
		c.values = append([]float32(nil), before.values...)
		return c
	case kindVarying, kindGaps:
	default:
		d.fail()
		return c
	}
	var bitmap []byte
	if kind == kindGaps {
		bitmap = d.bytes((n + 7) / 8)
	}
	exponent := d.signed()
	if exponent < -400 || exponent > 400 {
		d.fail()
		return c
	}
	c.values = make([]float32, n)
	scale := fromQuanta(int(exponent))
	last := int64(0)
	for i := range c.values {
		if bitmap != nil && bitmap[i/8]&(1<<(i%8)) == 0 {
			c.values[i] = float32(math.NaN())
			continue
		}
		last += d.signed()
		c.values[i] = float32(scale(last))
		if d.err != nil {
			break
		}
	}
	return c
}

// Points unpacks one series of a block between two times: from <= time < to.
func (b *Block) Points(series []int32, from, to time.Time) (map[int32][]Point, error) {
	wanted := map[int32]bool{}
	for _, n := range series {
		for _, c := range columnsOf(b.Level, n) {
			wanted[c] = true
		}
	}
	s, err := decode(b.Level, b.Data, func(c int32) bool { return wanted[c] })
	if err != nil {
		return nil, fmt.Errorf("pool %q of tree %q, %v from %v: %w", b.Pool, b.Tree, b.Level, b.Start, err)
	}
	points := make(map[int32][]Point, len(series))
	for _, n := range series {
		if list := s.points(b.Level, b.Start, n, from, to); len(list) > 0 {
			points[n] = list
		}
	}
	return points, nil
}

// columnsOf returns the columns of a series at a level: averages, maxima.
func columnsOf(level Level, series int32) []int32 {
	if level == Seconds {
		return []int32{series}
	}
	return []int32{2 * series, 2*series + 1}
}

// points returns the points of one series between two times.
func (s *stretch) points(level Level, start time.Time, series int32, from, to time.Time) []Point {
	numbers := columnsOf(level, series)
	average, most := s.column(numbers[0]), s.column(numbers[len(numbers)-1])
	if average == nil || most == nil {
		return nil
	}
	step := level.Step()
	points := make([]Point, 0, len(s.slots))
	for i, slot := range s.slots {
		t := start.Add(time.Duration(slot) * step)
		if t.Before(from) || !t.Before(to) {
			continue
		}
		if v := average.at(i); v == v {
			points = append(points, Point{Time: t, Average: v, Max: most.at(i)})
		}
	}
	return points
}
