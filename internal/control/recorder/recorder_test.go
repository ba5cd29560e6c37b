package recorder

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/journal"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

var noon = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

// bench is a core whose inputs are recorded.
type bench struct {
	t       *testing.T
	core    *core.Core
	now     time.Time
	rec     *Recording
	alerts  []string
	r       *Recorder
	applied int
}

func newBench(t *testing.T, o Options) *bench {
	t.Helper()
	b := &bench{t: t, core: core.New(core.DefaultSettings()), now: noon}
	o.Build, o.Log, o.Alert = "test", slog.New(slog.DiscardHandler), func(message string) { b.alerts = append(b.alerts, message) }
	if o.Directory == "" {
		o.Directory = t.TempDir()
	}
	if o.Keep == 0 {
		o.Keep = time.Hour
	}
	var err error
	if b.r, err = New(o); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) record() {
	b.rec = b.r.Record(b.now, Term{Epoch: 3, Core: b.core, Names: func() []journal.Name { return []journal.Name{{Operation: 1, ID: "id"}} }})
}

func (b *bench) apply(input core.Input) {
	b.now = b.now.Add(time.Millisecond)
	var out core.Decisions
	err := b.core.Apply(b.now, input, &out)
	b.rec.Applied(b.now, input, err != nil, journal.Mark{}.Since(&out))
	b.applied++
}

// play plays all files.
func (b *bench) play() (*journal.Player, error) {
	b.t.Helper()
	list, err := b.r.List()
	if err != nil {
		b.t.Fatal(err)
	}
	var all bytes.Buffer
	for _, s := range list {
		data, err := os.ReadFile(s.Path)
		if err != nil {
			b.t.Fatal(err)
		}
		all.Write(data)
	}
	p := journal.NewPlayer(&all)
	return p, p.Until(time.Time{})
}

// export returns a part of the journal.
func (b *bench) export(from, to time.Time) io.Reader {
	b.t.Helper()
	file, size, err := b.r.Open(from, to)
	if err != nil {
		b.t.Fatal(err)
	}
	defer file.Close()
	var out bytes.Buffer
	if n, err := out.ReadFrom(file); err != nil || n != size {
		b.t.Fatalf("%d of %d bytes: %v", n, size, err)
	}
	return &out
}

func (b *bench) sameCore(p *journal.Player) {
	b.t.Helper()
	want, err := b.core.Hash()
	if err != nil {
		b.t.Fatal(err)
	}
	if got, err := p.Core.Hash(); err != nil || got != want {
		b.t.Errorf("the replayed core differs: %v", err)
	}
}

func nodeInput(id core.NodeID) core.Input {
	return &core.NodeInput{Node: id, Name: "node", Resources: resource.Amounts{resource.CPU: 400, resource.Memory: 4 << 30, resource.UserSlots: 4}}
}

func TestARecordingReplaysExactlyAcrossSegments(t *testing.T) {
	b := newBench(t, Options{SegmentTime: 700 * time.Millisecond})
	b.record()
	b.apply(nodeInput(0))
	for range 2500 {
		b.apply(&core.UpdateInput{})
	}
	b.rec.Close()
	p, err := b.play()
	if err != nil {
		t.Fatal(err)
	}
	b.sameCore(p)
	if p.Played.Segments != 4 || p.Played.Inputs != b.applied+1 || len(p.Played.Gaps) != 1 || p.Played.Gaps[0].Why != journal.EndTerm {
		t.Errorf("%+v", p.Played)
	}
	list, _ := b.r.List()
	for _, s := range list {
		if s.Epoch != 3 || s.Size == 0 || s.Current {
			t.Errorf("%+v", s)
		}
		if info, err := os.Stat(s.Path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info.Mode(), err)
		}
	}
}

func TestHashesOfTheStateAreRecorded(t *testing.T) {
	b := newBench(t, Options{})
	b.record()
	for range 2001 {
		b.apply(&core.UpdateInput{})
	}
	b.rec.Close()
	if p, err := b.play(); err != nil || p.Played.Hashes != 2 {
		t.Errorf("%+v %v", p.Played, err)
	}
}

// TestAFullQueueMakesAGapAndTheLoopNeverWaits fills the queue while nothing is
// written: the segment ends, and a new one starts from a checkpoint.
func TestAFullQueueMakesAGapAndTheLoopNeverWaits(t *testing.T) {
	b := newBench(t, Options{Queue: 2000})
	b.rec = &Recording{recorder: b.r, term: Term{Epoch: 3, Core: b.core}, last: b.now, queue: queue{most: 2000, wake: make(chan struct{}, 1)}, done: make(chan struct{})}
	b.rec.begin(b.now, false)
	for range 2000 { // nobody empties the queue
		b.apply(&core.UpdateInput{})
	}
	if b.r.Counters().Gaps != 1 || len(b.alerts) != 1 || !strings.Contains(b.alerts[0], "gap") {
		t.Fatalf("%+v %q", b.r.Counters(), b.alerts)
	}
	go b.rec.write()
	if !expected.Soon(b.rec.queue.isEmpty) {
		t.Fatal("the queue is not emptied")
	}
	b.apply(nodeInput(0))
	b.apply(&core.UpdateInput{})
	b.rec.Close()
	p, err := b.play()
	if err != nil {
		t.Fatal(err)
	}
	b.sameCore(p)
	if gaps := p.Played.Gaps; len(gaps) != 2 || gaps[0].Why != journal.EndGap || gaps[0].To.IsZero() {
		t.Errorf("%+v", gaps)
	}
}

func TestADiskThatRefusesWritesRaisesAnAlertAndRecordingResumes(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "journal")
	if err := os.WriteFile(directory, nil, 0o600); err != nil { // a file is in the way
		t.Fatal(err)
	}
	b := newBench(t, Options{Directory: directory})
	b.record()
	b.apply(nodeInput(0))
	if !expected.Soon(b.rec.failed.Load) {
		t.Fatal("nothing fails")
	}
	if err := os.Remove(directory); err != nil {
		t.Fatal(err)
	}
	b.apply(&core.UpdateInput{}) // notices the failure
	b.now = b.now.Add(resumePause)
	if !expected.Soon(b.rec.queue.isEmpty) {
		t.Fatal("the queue is not emptied")
	}
	b.apply(&core.UpdateInput{})
	b.apply(&core.UpdateInput{})
	b.rec.Close()
	if len(b.alerts) != 2 || b.alerts[0] == "" || b.alerts[1] != "" {
		t.Errorf("%q", b.alerts)
	}
	p, err := b.play()
	if err != nil {
		t.Fatal(err)
	}
	b.sameCore(p)
}

func TestAKillLeavesWholeFrames(t *testing.T) {
	b := newBench(t, Options{})
	b.record()
	for range 300 {
		b.apply(&core.UpdateInput{})
	}
	b.rec.Close()
	list, _ := b.r.List()
	data, err := os.ReadFile(list[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(list[0].Path, data[:len(data)-5], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.play(); !errors.Is(err, journal.ErrCut) {
		t.Errorf("%v", err)
	}
	out := b.export(time.Time{}, time.Time{})
	if err := journal.NewPlayer(out).Until(time.Time{}); err != nil {
		t.Errorf("an export has only whole frames: %v", err)
	}
}

func TestOldFilesAreRemovedByAgeAndSize(t *testing.T) {
	b := newBench(t, Options{Keep: time.Hour, Size: 1000})
	make := func(number uint64, age time.Duration, size int) string {
		name := filepath.Join(b.r.options.Directory, fileName(noon.Add(-age), 1, number))
		if err := os.WriteFile(name, bytes.Repeat([]byte{1}, size), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, noon.Add(-age), noon.Add(-age)); err != nil {
			t.Fatal(err)
		}
		return name
	}
	old := make(0, 2*time.Hour, 10)
	large := make(1, 30*time.Minute, 600)
	kept := make(2, 20*time.Minute, 600)
	b.r.current = filepath.Base(make(3, 3*time.Hour, 100))
	stranger := filepath.Join(b.r.options.Directory, "notes.txt")
	if err := os.WriteFile(stranger, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.r.retain(noon); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{old: false, large: false, kept: true, filepath.Join(b.r.options.Directory, b.r.current): true, stranger: true} {
		if _, err := os.Stat(name); (err == nil) != want {
			t.Errorf("%s is kept: %v", name, err == nil)
		}
	}
}

func TestAnExportHasTheSegmentsOfItsTime(t *testing.T) {
	b := newBench(t, Options{SegmentTime: 100 * time.Millisecond})
	b.record()
	for range 1000 {
		b.apply(&core.UpdateInput{})
	}
	b.rec.Close()
	p := journal.NewPlayer(b.export(time.Time{}, noon.Add(250*time.Millisecond)))
	if err := p.Until(time.Time{}); err != nil || p.Played.Segments != 3 {
		t.Errorf("%+v %v", p.Played, err)
	}
	if _, _, err := b.r.Open(noon.Add(-2*time.Hour), noon.Add(-time.Hour)); !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), "it starts at 2026-11-16T12:00:00Z") {
		t.Errorf("%v", err)
	}
}
