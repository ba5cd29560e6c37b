package journal

import (
	"crypto/sha256"
	"encoding/binary"
	"reflect"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/value/imprint"
)

// Encoder turns what happens to a core into the records of one segment. Times never
// go back and have whole microseconds: see Moment.
type Encoder struct {
	writer *imprint.Writer
	types  *Types
	last   int64 // microseconds
}

// NewEncoder returns the encoder of a segment that starts at a time.
func NewEncoder(types *Types, start time.Time) *Encoder {
	return &Encoder{writer: types.inputs.Writer(), types: types, last: start.UnixMicro()}
}

// Moment returns a time as journals keep it: in UTC, with whole microseconds.
func Moment(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

func (e *Encoder) head(into []byte, now time.Time, tag uint64) []byte {
	micro := max(now.UnixMicro(), e.last)
	into = binary.AppendUvarint(into, uint64(micro-e.last))
	e.last = micro
	return binary.AppendUvarint(into, tag)
}

// Input appends an input, whether the core refused it, and what it decided.
func (e *Encoder) Input(into []byte, now time.Time, input core.Input, refused bool, outcome Outcome) []byte {
	kind := e.types.kinds[reflect.TypeOf(input)]
	tag := uint64(firstInputTag + 4*kind)
	if refused {
		tag |= refusedFlag
	}
	if outcome != (Outcome{}) {
		tag |= decidedFlag
	}
	into = e.writer.Append(e.head(into, now, tag), kind, input)
	if outcome != (Outcome{}) {
		into = outcome.append(into)
	}
	return into
}

// Name appends the name of an operation.
func (e *Encoder) Name(into []byte, now time.Time, n Name) []byte {
	into = binary.AppendUvarint(e.head(into, now, nameTag), uint64(n.Operation))
	for _, text := range []string{n.ID, n.Alias} {
		into = binary.AppendUvarint(into, uint64(len(text)))
		into = append(into, text...)
	}
	return into
}

// HashHead appends the head of a record with a hash of the state. The hash itself
// follows: it may be computed later, from a fork.
func (e *Encoder) HashHead(into []byte, now time.Time) []byte { return e.head(into, now, hashTag) }

// Hash appends a hash of the state.
func (e *Encoder) Hash(into []byte, now time.Time, sum [sha256.Size]byte) []byte {
	return append(e.HashHead(into, now), sum[:]...)
}

// End appends the end of the segment.
func (e *Encoder) End(into []byte, now time.Time, end End) []byte {
	return append(e.head(into, now, endTag), byte(end))
}

// EndRecord returns the end of a segment for a writer that has no encoder; its time
// is that of the last record.
func EndRecord(end End) []byte { return []byte{0, endTag, byte(end)} }
