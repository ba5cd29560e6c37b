package journal

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
)

// Player applies a journal to a core and compares what the core does with what was
// recorded.
type Player struct {
	decoder *Decoder
	// Core is the core as of Now. It belongs to the player; fork it to ask what
	// changes it.
	Core *core.Core
	Now  time.Time
	// Header is that of the current segment.
	Header *Header
	// Names are those of all operations that were named so far.
	Names map[core.OperationID]Name
	// Gates are those that are closed now; nil if the journal has none.
	Gates *Gates
	// Played counts what was applied and compared.
	Played Played

	out       core.Decisions
	ahead     *Event // read and not applied
	continued bool   // the last segment ended with EndContinued
	kept      bool   // the current segment continues the one before
}

// Played counts the parts of a journal.
type Played struct {
	Segments, Inputs, Updates, Hashes, Checkpoints int
	Started, Stopped                               int
	// Gaps are places where inputs are missing: the journal continues with another
	// state.
	Gaps []Gap
	From time.Time
}

// Gap is a time without records.
type Gap struct {
	From, To time.Time
	Why      End
}

// Difference is the first place where a replay differs from the recording.
type Difference struct {
	Time time.Time
	// Input is the number of the input, from one, and Kind its type.
	Input int
	Kind  string
	// What differs, with what was recorded and what was replayed.
	What, Recorded, Replayed string
}

// Error describes the difference.
func (d *Difference) Error() string {
	return fmt.Sprintf("the replay differs at %s, input %d (%s): %s: recorded %s, replayed %s",
		d.Time.Format("2006-01-02T15:04:05.000000Z"), d.Input, d.Kind, d.What, d.Recorded, d.Replayed)
}

// NewPlayer returns a player of a journal.
func NewPlayer(from io.Reader) *Player {
	return &Player{decoder: NewDecoder(from), Names: map[core.OperationID]Name{}}
}

// Step applies the next event and returns it. Its decisions are in Decisions until
// the next call. The error is io.EOF at the end, a *Difference, or one of a Decoder.
func (p *Player) Step() (Event, error) {
	e, err := p.peek()
	if err != nil {
		return e, err
	}
	p.ahead = nil
	return e, p.apply(&e)
}

// Decisions returns what the last step decided.
func (p *Player) Decisions() *core.Decisions { return &p.out }

// Next returns the time of the next event, zero if there is none.
func (p *Player) Next() time.Time {
	e, _ := p.peek()
	return e.Time
}

// peek returns the next event without applying it.
func (p *Player) peek() (Event, error) {
	if p.ahead == nil {
		e, err := p.decoder.Next()
		if err != nil {
			return e, err
		}
		p.ahead = &e
	}
	return *p.ahead, nil
}

// Until applies all events up to a moment, including those at that moment; a zero
// moment is the end. A journal that is cut ends there: the error wraps ErrCut after
// everything before the cut was applied.
func (p *Player) Until(moment time.Time) error {
	for {
		e, err := p.peek()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !moment.IsZero() && e.Time.After(moment) {
			return nil
		}
		if _, err := p.Step(); err != nil {
			return err
		}
	}
}

func (p *Player) apply(e *Event) (err error) {
	defer func() {
		if problem := recover(); problem != nil { // made-up inputs may name nodes and trees that do not exist
			err = fmt.Errorf("%w: a core cannot have received input %d (%T): %v", ErrFormat, p.Played.Inputs, e.Input, problem)
		}
	}()
	p.out.Reset()
	switch {
	case e.Segment != nil:
		return p.begin(e)
	case e.Input != nil:
		return p.input(e)
	case e.Name != nil:
		p.Names[e.Name.Operation] = *e.Name
	case e.Gates != nil:
		p.Now, p.Gates = e.Time, e.Gates
	case e.Hash != nil:
		p.Now = e.Time
		p.Played.Hashes++
		return p.compare(e, "the hash of the state", *e.Hash)
	default:
		p.Now = e.Time
		p.continued = e.End == EndContinued
		if !p.continued {
			p.Played.Gaps = append(p.Played.Gaps, Gap{From: e.Time, Why: e.End})
		}
	}
	return nil
}

// begin starts a segment. If it continues the one before, the core stays: it must
// equal the checkpoint.
func (p *Player) begin(e *Event) error {
	before, header := p.Header, e.Segment
	p.Header = header
	p.Played.Segments++
	if before == nil {
		p.Played.From = e.Time
	}
	if e.Time.Before(p.Now) && before != nil && before.Epoch == header.Epoch {
		return fmt.Errorf("%w: segment %d of term %d starts at %v, before the end of the one in front of it, %v", ErrFormat, header.Number, header.Epoch, e.Time, p.Now)
	}
	follows := before != nil && before.Epoch == header.Epoch && before.Number+1 == header.Number
	continues := p.continued && follows
	p.continued, p.kept = false, continues
	if continues {
		p.Now = e.Time
		p.Played.Checkpoints++
		return p.compare(e, "the state at the start of a segment", header.Hash)
	}
	p.Gates = nil
	if before != nil {
		p.gap(e.Time)
	}
	p.Now = e.Time
	if e.Checkpoint == nil {
		p.Core = core.New(core.DefaultSettings())
		return nil
	}
	loaded, err := core.Load(e.Checkpoint)
	if err != nil {
		return fmt.Errorf("the checkpoint of build %s: %w", header.Build, err)
	}
	p.Core = loaded
	p.Played.Checkpoints++
	return p.compare(e, "the state of a checkpoint", header.Hash)
}

// gap completes the gap that ends at a time.
func (p *Player) gap(to time.Time) {
	gaps := p.Played.Gaps
	if n := len(gaps); n > 0 && gaps[n-1].To.IsZero() {
		gaps[n-1].To = to
		return
	}
	p.Played.Gaps = append(gaps, Gap{From: p.Now, To: to, Why: EndCut})
}

func (p *Player) input(e *Event) error {
	p.Now = e.Time
	p.Played.Inputs++
	if _, is := e.Input.(*core.UpdateInput); is {
		p.Played.Updates++
	}
	err := p.Core.Apply(e.Time, e.Input, &p.out)
	got := Mark{}.Since(&p.out)
	p.Played.Started += got.Started
	p.Played.Stopped += got.Stopped
	d := Difference{Time: e.Time, Input: p.Played.Inputs, Kind: fmt.Sprintf("%T", e.Input)}
	switch {
	case (err != nil) != e.Refused:
		d.What, d.Recorded, d.Replayed = "whether the core refuses it", answer(e.Refused, nil), answer(err != nil, err)
	case got != e.Outcome:
		d.What, d.Recorded, d.Replayed = "decisions", e.Outcome.String(), got.String()+describe(&p.out)
	default:
		return nil
	}
	return &d
}

func answer(refused bool, err error) string {
	switch {
	case err != nil:
		return "refused: " + err.Error()
	case refused:
		return "refused"
	}
	return "accepted"
}

// String counts the decisions.
func (o Outcome) String() string {
	return fmt.Sprintf("%d started, %d stopped, %d others (%08x)", o.Started, o.Stopped, o.Others, o.Sum)
}

// describe lists the first decisions.
func describe(d *core.Decisions) (text string) {
	const most = 5
	for _, s := range d.Started[:min(most, len(d.Started))] {
		text += fmt.Sprintf("; job %d of operation %d starts on node %d", s.Job, s.Operation, s.Node)
	}
	for _, s := range d.Stopped[:min(most, len(d.Stopped))] {
		text += fmt.Sprintf("; job %d of operation %d stops on node %d", s.Job, s.Operation, s.Node)
	}
	return text
}

func (p *Player) compare(e *Event, what string, recorded [32]byte) error {
	got, err := p.Core.Hash()
	if err != nil {
		return err
	}
	if got == recorded {
		return nil
	}
	return &Difference{
		Time: e.Time, Input: p.Played.Inputs, Kind: "after it", What: what, Recorded: fmt.Sprintf("%x", recorded[:8]), Replayed: fmt.Sprintf("%x", got[:8]),
	}
}
