package journal

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"reflect"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/imprint"
)

// Header describes a segment.
type Header struct {
	Build string // that wrote it
	Epoch uint64 // the leader's term
	// Number counts the segments of a term, from zero.
	Number uint64
	Start  time.Time
	// UpdatePeriod and HeartbeatPeriod are those of the daemon, for re-runs.
	UpdatePeriod, HeartbeatPeriod time.Duration
	// Hash is that of the core at the start.
	Hash [sha256.Size]byte
	// Anonymous reports whether names have been replaced.
	Anonymous bool
}

// start is what a header frame contains.
type start struct {
	Header
	Checkpoint int // its length; zero: the segment starts with a new core
}

// Types describe headers and inputs, as this build writes them. They never change.
type Types struct {
	headers, inputs *imprint.Schema
	described       []byte // the schema of inputs
	kinds           map[reflect.Type]int
}

// NewTypes describes the inputs of a core. Specifications and configurations are
// written once for each content. An error names a field that cannot be written.
func NewTypes() (*Types, error) {
	headers, err := imprint.Describe([]reflect.Type{reflect.TypeFor[start]()})
	if err != nil {
		return nil, err
	}
	kinds := inputTypes()
	inputs, err := imprint.Describe(kinds, reflect.TypeFor[operation.Spec](), reflect.TypeFor[pooltree.Tree](), reflect.TypeFor[pooltree.PoolConfig]())
	if err != nil {
		return nil, err
	}
	t := &Types{headers: headers, inputs: inputs, described: inputs.Append(nil), kinds: map[reflect.Type]int{}}
	for i, kind := range kinds {
		t.kinds[reflect.PointerTo(kind)] = i
	}
	return t, nil
}

// inputTypes are the types of all inputs, in the order of core.Inputs.
func inputTypes() []reflect.Type {
	inputs := core.Inputs()
	types := make([]reflect.Type, len(inputs))
	for i, input := range inputs {
		types[i] = reflect.TypeOf(input).Elem()
	}
	return types
}

// header returns the contents of a header frame: the header with its schema, then
// the schema of inputs.
func (t *Types) header(h *Header, checkpoint int) []byte {
	head := t.headers.Writer().Append(t.headers.Append(nil), 0, &start{*h, checkpoint})
	return append(head, t.described...)
}

// described is what a header frame says about inputs, bound to local types. A kind
// that this build does not know is nil.
type described struct {
	text   string
	schema *imprint.Schema
	kinds  []reflect.Type
}

// readStart reads a header frame. known is what the last header said.
func readStart(frame []byte, known *described) (s start, inputs *described, err error) {
	schema, rest, err := imprint.ReadSchema(frame)
	if err == nil {
		err = schema.Bind([]reflect.Type{reflect.TypeFor[start]()}, false)
	}
	if err == nil {
		rest, err = schema.Reader().Read(rest, 0, &s)
	}
	if err != nil {
		return s, nil, fmt.Errorf("%w: the header: %w", ErrFormat, err)
	}
	if known != nil && known.text == string(rest) {
		return s, known, nil
	}
	inputs = &described{text: string(rest)}
	if inputs.schema, rest, err = imprint.ReadSchema(rest); err != nil {
		return s, nil, fmt.Errorf("%w: the types of inputs: %w", ErrFormat, err)
	}
	if len(rest) > 0 {
		return s, nil, fmt.Errorf("%w: %d bytes follow the types of inputs", ErrFormat, len(rest))
	}
	local := map[string]reflect.Type{}
	for _, t := range inputTypes() {
		local[t.String()] = t
	}
	for _, name := range inputs.schema.Names() {
		inputs.kinds = append(inputs.kinds, local[name])
	}
	if err := inputs.schema.Bind(inputs.kinds, false); err != nil {
		return s, nil, fmt.Errorf("build %s wrote the journal: %w", s.Build, err)
	}
	return s, inputs, nil
}

// Name is what people call an operation.
type Name struct {
	Operation core.OperationID
	// ID and Alias are the operation's; Alias may be empty.
	ID, Alias string
}

// End is why a segment ends.
type End uint8

const (
	// EndCut is the end of a segment whose writer was killed.
	EndCut End = iota
	// EndContinued means that the next segment of the same term continues it.
	EndContinued
	// EndGap means that the next segment lacks some inputs before its start, because
	// the writer could not keep up.
	EndGap
	// EndTerm means that the leader stepped down.
	EndTerm
)

// String returns a word for listings.
func (e End) String() string {
	switch e {
	case EndContinued:
		return "continued"
	case EndGap:
		return "gap"
	case EndTerm:
		return "end of term"
	}
	return "cut"
}

// Tags of records. A tag above is that of an input: its number times four plus its
// flags.
const (
	hashTag = iota
	nameTag
	endTag
	gatesTag
	firstInputTag = 4
)

// Flags of an input.
const (
	refusedFlag = 1 << iota // the core refused it
	decidedFlag             // its outcome follows it
)

// Outcome summarises the decisions that followed an input.
type Outcome struct {
	Started, Stopped, Others int
	// Sum is a checksum of what was decided, without names.
	Sum uint32
}

// Mark is how many decisions there are.
type Mark struct{ operations, moved, stopped, started, ended, changed, takenBack, failRunning int }

// MarkOf returns a mark for a later Since.
func MarkOf(d *core.Decisions) Mark {
	return Mark{len(d.Operations), len(d.Moved), len(d.Stopped), len(d.Started), len(d.Ended), len(d.Changed), len(d.TakenBack), len(d.FailRunning)}
}

// Since summarises the decisions after the mark.
func (m Mark) Since(d *core.Decisions) Outcome {
	if m == MarkOf(d) {
		return Outcome{}
	}
	o := Outcome{Started: len(d.Started) - m.started, Stopped: len(d.Stopped) - m.stopped}
	sum := uint32(2166136261)
	add := func(values ...int64) {
		for _, v := range values {
			for range 2 {
				sum = (sum ^ uint32(v)) * 16777619
				v >>= 32
			}
		}
	}
	for i := m.started; i < len(d.Started); i++ {
		s := &d.Started[i]
		add(1, int64(s.Job), int64(s.Operation), int64(s.Tree), int64(s.Node), int64(s.Stage), int64(s.WaitTimeout), int64(s.Index), int64(s.TaskIndex), int64(s.Task), int64(s.Cookie))
		add(s.Resources[:]...)
	}
	for i := m.stopped; i < len(d.Stopped); i++ {
		s := &d.Stopped[i]
		add(2, int64(s.Job), int64(s.Operation), int64(s.Node), int64(s.Reason), int64(s.Preemption), int64(s.Class), int64(s.For), int64(s.Timeout))
		add(s.Held[:]...)
	}
	for _, c := range d.Operations[m.operations:] {
		add(3, int64(c.Operation), int64(c.State))
	}
	for _, c := range d.Moved[m.moved:] {
		add(4, int64(c.Operation), int64(c.Tree))
	}
	for i := m.ended; i < len(d.Ended); i++ {
		e := &d.Ended[i]
		add(5, int64(e.Operation), int64(e.Finished.Job), int64(e.State), int64(e.Reason))
	}
	for _, id := range d.Changed[m.changed:] {
		add(6, int64(id))
	}
	for _, id := range d.TakenBack[m.takenBack:] {
		add(7, int64(id))
	}
	for _, id := range d.FailRunning[m.failRunning:] {
		add(8, int64(id))
	}
	after := MarkOf(d)
	o.Others = after.operations - m.operations + after.moved - m.moved + after.ended - m.ended + after.changed - m.changed +
		after.takenBack - m.takenBack + after.failRunning - m.failRunning
	o.Sum = sum
	return o
}

func (o *Outcome) append(into []byte) []byte {
	into = binary.AppendUvarint(into, uint64(o.Started))
	into = binary.AppendUvarint(into, uint64(o.Stopped))
	into = binary.AppendUvarint(into, uint64(o.Others))
	return binary.LittleEndian.AppendUint32(into, o.Sum)
}
