package sim

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/journal"
	"github.com/weirhq/weir/internal/value/document"
)

// recording applies the inputs of a simulation to a core of its own and writes them as a journal, with a segment every ten minutes
// and a hash of the state every thousand inputs.
type recording struct {
	t       *testing.T
	core    *core.Core
	types   *journal.Types
	framer  *journal.Framer
	encoder *journal.Encoder
	file    bytes.Buffer
	records []byte // that are not in the file yet
	out     core.Decisions
	inputs  int
	begun   time.Time
	number  uint64
}

func (r *recording) begin(now time.Time) {
	saved, err := r.core.Save()
	if err != nil {
		r.t.Fatal(err)
	}
	r.file.Write(r.framer.AppendStart(nil, &journal.Header{Build: "test", Epoch: 1, Number: r.number, Start: now, Hash: hashOf(r.t, r.core)}, saved))
	r.encoder, r.begun = journal.NewEncoder(r.types, now), now
	r.number++
}

func (r *recording) watch(now time.Time, input core.Input, _ *core.Decisions) {
	now = now.Truncate(time.Microsecond) // as the daemon's clock
	if r.encoder == nil {
		r.begin(now)
	}
	r.out.Reset()
	mark := journal.MarkOf(&r.out)
	err := r.core.Apply(now, input, &r.out)
	r.records = r.encoder.Input(r.records, now, input, err != nil, mark.Since(&r.out))
	if r.inputs++; r.inputs%1000 == 0 {
		r.records = r.encoder.Hash(r.records, now, hashOf(r.t, r.core))
	}
	if now.Sub(r.begun) >= 10*time.Minute {
		r.end(now, journal.EndContinued)
		r.begin(now)
	}
}

func (r *recording) end(now time.Time, how journal.End) {
	r.file.Write(r.framer.AppendRecords(nil, r.encoder.End(r.records, now, how)))
	r.records = nil
}

// TestHoursOfAClusterReplayExactly records an hour of a busy cluster as a journal, 24 hours in make long, and plays it with its names and without: all
// decisions and hashes agree.
func TestHoursOfAClusterReplayExactly(t *testing.T) {
	hours := time.Hour
	if os.Getenv("WEIR_LONG") != "" {
		hours = 24 * time.Hour
	}
	s := read(t, strings.ReplaceAll(day, "events:", "events:\n  - {at: 20m, lose_nodes: {group: n, count: 2}}\n  - {at: 40m, return_nodes: {group: n}}"))
	s.Duration = document.Some(hours)
	types, err := journal.NewTypes()
	if err != nil {
		t.Fatal(err)
	}
	r := &recording{t: t, core: core.New(SettingsOf(s)), types: types, framer: journal.NewFramer(types)}
	if _, err := Run(context.Background(), s, Options{Watch: r.watch}); err != nil {
		t.Fatal(err)
	}
	r.end(s.Start.Add(hours), journal.EndTerm)
	var anonymous bytes.Buffer
	if _, err := journal.Anonymise(types, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(r.file.Bytes())), nil },
		func(part []byte) error { anonymous.Write(part); return nil }); err != nil {
		t.Fatal(err)
	}
	var played [2]journal.Played
	for i, file := range [][]byte{r.file.Bytes(), anonymous.Bytes()} {
		p := journal.NewPlayer(bytes.NewReader(file))
		if err := p.Until(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if i == 0 && hashOf(t, p.Core) != hashOf(t, r.core) {
			t.Error("the replayed core differs")
		}
		played[i] = p.Played
	}
	if a, b := played[0], played[1]; a.Inputs != r.inputs || a.Inputs != b.Inputs || a.Started != b.Started || a.Stopped != b.Stopped || a.Segments != b.Segments || a.Started < 100 {
		t.Errorf("of %d inputs, %+v were played, and without names %+v", r.inputs, a, b)
	}
}
