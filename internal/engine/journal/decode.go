package journal

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/value/imprint"
)

// Event is one part of a journal. Exactly one of the pointers and interfaces is set,
// or End is not EndCut.
type Event struct {
	Time time.Time
	// Segment is the start of a segment. Checkpoint is its saved core, nil if it
	// starts with a new core.
	Segment    *Header
	Checkpoint []byte

	Input   core.Input
	Refused bool    // the core refused the input
	Outcome Outcome // what it decided

	Name  *Name
	Hash  *[sha256.Size]byte
	Gates *Gates
	End   End
}

// Decoder reads a journal.
type Decoder struct {
	frames  frames
	segment *Header
	inputs  *described
	reader  *imprint.Reader
	now     int64 // microseconds
	rest    []byte
	err     error
}

// NewDecoder returns a decoder of a file, or of several files one after another.
func NewDecoder(from io.Reader) *Decoder { return &Decoder{frames: frames{from: from}} }

// maxCheckpoint is the largest checkpoint that is read.
const maxCheckpoint = 4 << 30

// Next returns the next event. The error is io.EOF at the end. It wraps ErrCut if the
// journal ends too early and ErrFormat if it is damaged; no event follows.
func (d *Decoder) Next() (Event, error) {
	if d.err != nil {
		return Event{}, d.err
	}
	e, err := d.next()
	d.err = err
	return e, err
}

func (d *Decoder) next() (Event, error) {
	for len(d.rest) == 0 {
		kind, contents, err := d.frames.next()
		switch {
		case err != nil:
			return Event{}, err
		case kind == headerFrame:
			return d.begin(contents)
		case kind == recordsFrame && d.segment != nil:
			d.rest = contents
		default:
			return Event{}, d.frames.wrong("a frame of kind %q is not expected here", byte(kind))
		}
	}
	return d.record()
}

// begin reads the start of a segment.
func (d *Decoder) begin(frame []byte) (Event, error) {
	s, inputs, err := readStart(frame, d.inputs)
	if err != nil {
		return Event{}, err
	}
	if s.Checkpoint < 0 || s.Checkpoint > maxCheckpoint {
		return Event{}, d.frames.wrong("a checkpoint of %d bytes", s.Checkpoint)
	}
	var checkpoint []byte
	for len(checkpoint) < s.Checkpoint {
		kind, part, err := d.frames.next()
		if errors.Is(err, io.EOF) {
			err = d.frames.cut(err)
		}
		if err != nil {
			return Event{}, err
		}
		if kind != checkpointFrame || len(part) == 0 || len(part) > s.Checkpoint-len(checkpoint) {
			return Event{}, d.frames.wrong("the checkpoint is incomplete")
		}
		checkpoint = append(checkpoint, part...)
	}
	d.segment, d.inputs, d.reader = &s.Header, inputs, inputs.schema.Reader()
	d.now = s.Start.UnixMicro()
	return Event{Time: s.Start, Segment: d.segment, Checkpoint: checkpoint}, nil
}

// record reads one record.
func (d *Decoder) record() (Event, error) {
	passed, n := binary.Uvarint(d.rest)
	tag, m := binary.Uvarint(d.rest[max(n, 0):])
	if n <= 0 || m <= 0 || passed > uint64(1)<<55 {
		return Event{}, d.frames.wrong("a record has no valid head")
	}
	d.rest = d.rest[n+m:]
	d.now += int64(passed)
	e := Event{Time: time.UnixMicro(d.now).UTC()}
	switch {
	case tag == hashTag && len(d.rest) >= sha256.Size:
		sum := [sha256.Size]byte(d.rest)
		e.Hash, d.rest = &sum, d.rest[sha256.Size:]
	case tag == nameTag:
		return d.name(e)
	case tag == gatesTag:
		return d.gates(e)
	case tag == endTag && len(d.rest) >= 1:
		if e.End = End(d.rest[0]); e.End == EndCut || e.End > EndTerm {
			return Event{}, d.frames.wrong("a segment ends for reason %d", e.End)
		}
		d.rest = d.rest[1:]
	case tag >= firstInputTag:
		return d.input(e, tag)
	default:
		return Event{}, d.frames.wrong("a record with tag %d is not valid", tag)
	}
	return e, nil
}

func (d *Decoder) name(e Event) (Event, error) {
	id, n := binary.Uvarint(d.rest)
	if n <= 0 || id > 1<<31-1 {
		return Event{}, d.frames.wrong("a name has no operation")
	}
	d.rest = d.rest[n:]
	e.Name = &Name{Operation: core.OperationID(id)}
	for _, text := range []*string{&e.Name.ID, &e.Name.Alias} {
		length, n := binary.Uvarint(d.rest)
		if n <= 0 || length > uint64(len(d.rest)-n) {
			return Event{}, d.frames.wrong("a name is incomplete")
		}
		*text, d.rest = string(d.rest[n:n+int(length)]), d.rest[n+int(length):]
	}
	return e, nil
}

func (d *Decoder) input(e Event, tag uint64) (Event, error) {
	kind := (tag - firstInputTag) / 4
	if kind >= uint64(len(d.inputs.kinds)) {
		return Event{}, d.frames.wrong("an input of kind %d is not described", kind)
	}
	if d.inputs.kinds[kind] == nil {
		return Event{}, fmt.Errorf("%w: this build does not know %s; use build %s", ErrFormat, d.inputs.schema.Names()[kind], d.segment.Build)
	}
	input := reflect.New(d.inputs.kinds[kind]).Interface().(core.Input)
	rest, err := d.reader.Read(d.rest, int(kind), input)
	if err != nil {
		return Event{}, fmt.Errorf("%w: a %T in the frame before byte %d: %w", ErrFormat, input, d.frames.at, err)
	}
	d.rest, e.Input, e.Refused = rest, input, tag&refusedFlag != 0
	if tag&decidedFlag == 0 {
		return e, nil
	}
	for _, count := range []*int{&e.Outcome.Started, &e.Outcome.Stopped, &e.Outcome.Others} {
		v, n := binary.Uvarint(d.rest)
		if n <= 0 || v > 1<<31 {
			return Event{}, d.frames.wrong("the outcome of an input is incomplete")
		}
		*count, d.rest = int(v), d.rest[n:]
	}
	if len(d.rest) < 4 {
		return Event{}, d.frames.wrong("the outcome of an input is incomplete")
	}
	e.Outcome.Sum, d.rest = binary.LittleEndian.Uint32(d.rest), d.rest[4:]
	return e, nil
}
