package core_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/journal"
	"github.com/weirhq/weir/test/expected"
)

// record writes a history as a journal of several segments and returns the core that
// it led to.
func record(r *rapid.T, history []core.Recorded) ([]byte, *core.Core) {
	types, err := journal.NewTypes()
	if err != nil {
		r.Fatal(err)
	}
	c, framer := core.New(core.DefaultSettings()), journal.NewFramer(types)
	var file, records []byte
	var encoder *journal.Encoder
	var number uint64
	begin := func(now time.Time, checkpoint bool) {
		sum, err := c.Hash()
		if err != nil {
			r.Fatal(err)
		}
		var saved []byte
		if checkpoint {
			if saved, err = c.Save(); err != nil {
				r.Fatal(err)
			}
		}
		file = framer.AppendStart(file, &journal.Header{Build: "test", Epoch: 1, Number: number, Start: now, Hash: sum}, saved)
		number++
		encoder = journal.NewEncoder(types, now)
	}
	begin(history[0].Now, false)
	var out core.Decisions
	for _, e := range history {
		mark := journal.MarkOf(&out)
		err := c.Apply(e.Now, e.Input, &out)
		records = encoder.Input(records, e.Now, e.Input, err != nil, mark.Since(&out))
		switch rapid.IntRange(0, 15).Draw(r, "between") {
		case 0:
			sum, err := c.Hash()
			if err != nil {
				r.Fatal(err)
			}
			records = encoder.Hash(records, e.Now, sum)
		case 1:
			file, records = framer.AppendRecords(file, records), nil
		case 2:
			file, records = framer.AppendRecords(file, encoder.End(records, e.Now, journal.EndContinued)), nil
			begin(e.Now, true)
		case 3:
			out.Reset()
		}
	}
	return framer.AppendRecords(file, encoder.End(records, history[len(history)-1].Now, journal.EndTerm)), c
}

// TestPropertyARecordedHistoryReplaysExactly writes a random history as a journal,
// with segments and hashes in between, and plays it.
func TestPropertyARecordedHistoryReplaysExactly(t *testing.T) {
	expected.Tenth(t)
	rapid.Check(t, func(r *rapid.T) {
		history := core.RandomHistory(r, rapid.IntRange(1, 25).Draw(r, "steps"))
		file, c := record(r, history)
		p := journal.NewPlayer(bytes.NewReader(file))
		if err := p.Until(time.Time{}); err != nil {
			r.Fatal(err)
		}
		if p.Played.Inputs != len(history) {
			r.Fatalf("%d of %d inputs were played", p.Played.Inputs, len(history))
		}
		want, err := c.Hash()
		if err != nil {
			r.Fatal(err)
		}
		if got, err := p.Core.Hash(); err != nil || got != want {
			r.Fatalf("the replayed core differs (%v)", err)
		}
		if at := rapid.IntRange(0, 2*len(file)-1).Draw(r, "cut or damage"); at < len(file) {
			cut := journal.NewPlayer(bytes.NewReader(file[:at]))
			if err := cut.Until(time.Time{}); err != nil && !errors.Is(err, journal.ErrCut) {
				r.Fatalf("a cut journal: %v", err)
			}
		} else {
			damaged := bytes.Clone(file)
			damaged[at-len(file)] ^= 1 << rapid.IntRange(0, 7).Draw(r, "bit")
			if err := journal.NewPlayer(bytes.NewReader(damaged)).Until(time.Time{}); err == nil {
				r.Fatal("a damaged journal is accepted")
			}
		}
	})
}

// TestPropertyAnAnonymousJournalDecidesTheSame removes the names from the journal of a
// random history. It replays with the same decisions, and no name is left in it.
func TestPropertyAnAnonymousJournalDecidesTheSame(t *testing.T) {
	expected.Tenth(t)
	types, err := journal.NewTypes()
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(r *rapid.T) {
		history := core.RandomHistory(r, rapid.IntRange(1, 20).Draw(r, "steps"))
		file, _ := record(r, history)
		var anonymous []byte
		names, err := journal.Anonymise(types, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file)), nil },
			func(part []byte) error { anonymous = append(anonymous, part...); return nil })
		if err != nil {
			r.Fatal(err)
		}
		before, after := journal.NewPlayer(bytes.NewReader(file)), journal.NewPlayer(bytes.NewReader(anonymous))
		for _, p := range []*journal.Player{before, after} {
			if err := p.Until(time.Time{}); err != nil {
				r.Fatal(err)
			}
		}
		b, a := before.Played, after.Played
		if a.Inputs != b.Inputs || a.Started != b.Started || a.Stopped != b.Stopped || a.Segments != b.Segments || a.Checkpoints != b.Checkpoints || !after.Header.Anonymous {
			r.Fatalf("%+v became %+v", b, a)
		}
		if err := after.Core.Verify(); err != nil {
			r.Fatal(err)
		}
		text, err := after.Core.Save()
		if err != nil {
			r.Fatal(err)
		}
		for _, e := range names.Entries() {
			if len(e.Original) > 4 && bytes.Contains(text, []byte(e.Original)) && e.Original != "default" {
				r.Fatalf("%s %s is still there", e.Class, e.Original)
			}
		}
	})
}
