package server

import (
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// wire records what the scheduler sends to a node.
type recordedWire struct{ frames []*nodev1.SchedulerFrame }

func (w *recordedWire) Send(frame *nodev1.SchedulerFrame) error {
	w.frames = append(w.frames, frame)
	return nil
}

func (w *recordedWire) Receive() (*nodev1.NodeFrame, error) { select {} }

func newTestShell(t *testing.T) (*Shell, *recordedWire) {
	t.Helper()
	stream, err := new(liveBoard).add("s", "n", 1)
	if err != nil {
		t.Fatal(err)
	}
	wire := &recordedWire{}
	if !stream.connect(wire) {
		t.Fatal("the stream does not connect")
	}
	return &Shell{stream: stream, idle: time.Hour, stirred: time.Now(), asked: time.Now(), changed: make(chan struct{})}, wire
}

func (w *recordedWire) text() (text string) {
	for _, frame := range w.frames {
		text += string(frame.GetInput())
	}
	return text
}

func TestInputThatIsRepeatedOrEarlyIsTakenOnce(t *testing.T) {
	shell, wire := newTestShell(t)
	for _, step := range []struct {
		keys   string
		offset int64
		taken  int64
	}{{"abc", 0, 3}, {"abc", 0, 3}, {"bcde", 1, 5}, {"late", 9, 5}, {"", 0, 5}, {"f", 5, 6}} {
		if taken := shell.Type([]byte(step.keys), step.offset, 0, 0, false); taken != step.taken {
			t.Errorf("%q at %d: %d bytes are taken, want %d", step.keys, step.offset, taken, step.taken)
		}
	}
	if wire.text() != "abcdef" {
		t.Errorf("the node got %q", wire.text())
	}
}

func TestAShellThatDoesNotReadTakesNoMoreInput(t *testing.T) {
	shell, wire := newTestShell(t)
	keys := []byte(strings.Repeat("x", 2*maxShellInput))
	if taken := shell.Type(keys, 0, 0, 0, false); taken != maxShellInput {
		t.Errorf("%d bytes are taken", taken)
	}
	if taken := shell.Type(keys[maxShellInput:], maxShellInput, 0, 0, true); taken != maxShellInput || wire.frames[len(wire.frames)-1].GetCloseInput() {
		t.Errorf("%d bytes are taken", taken)
	}
	shell.take(&nodev1.NodeFrame{Frame: &nodev1.NodeFrame_Consumed{Consumed: maxShellInput}}, true)
	if taken := shell.Type(keys[maxShellInput:], maxShellInput, 0, 0, true); taken != 2*maxShellInput || !wire.frames[len(wire.frames)-1].GetCloseInput() {
		t.Errorf("%d bytes are taken", taken)
	}
}

func TestOutputIsGivenAgainUntilItIsConfirmed(t *testing.T) {
	shell, _ := newTestShell(t)
	write := func(text string, isStderr bool) {
		shell.take(&nodev1.NodeFrame{Frame: &nodev1.NodeFrame_Output{Output: &nodev1.ShellOutput{Data: []byte(text), Stderr: isStderr}}}, true)
	}
	write("one ", false)
	write("two", true)
	for range 2 {
		if out := shell.Read(t.Context(), 0, 0); string(out.Output) != "one " || string(out.Errors) != "two" || out.Next != 7 {
			t.Errorf("%+v", out)
		}
	}
	write("three", false)
	if out := shell.Read(t.Context(), -1, 0); string(out.Output) != "three" || out.Next != 12 {
		t.Errorf("%+v", out)
	}
	shell.take(&nodev1.NodeFrame{Frame: &nodev1.NodeFrame_End{End: &nodev1.StreamEnd{Reason: nodev1.StreamEndReason_STREAM_END_REASON_EXITED, ExitCode: 4}}}, true)
	if out := shell.Read(t.Context(), 12, 0); out.End == nil || out.End.Reason != LiveExited || out.End.ExitCode != 4 {
		t.Errorf("%+v", out)
	}
}

func TestAShellThatNobodyUsesEnds(t *testing.T) {
	now := time.Now()
	for _, one := range []struct {
		silent, alone time.Duration
		want          LiveReason
	}{{time.Minute, time.Minute, ""}, {2 * time.Hour, 0, LiveIdle}, {0, time.Hour, LiveAbandoned}} {
		shell, _ := newTestShell(t)
		shell.stirred, shell.asked = now.Add(-one.silent), now.Add(-one.alone)
		shell.look(now)
		if got := shell.finish; got == nil != (one.want == "") || got != nil && got.Reason != one.want {
			t.Errorf("%+v: %+v", one, got)
		}
	}
}

func TestLiveConnectionsAreBounded(t *testing.T) {
	var board liveBoard
	name := func(i int) string { return strings.Repeat("x", i) }
	for i := range maxLiveJob {
		if _, err := board.add(name(i), "n", 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := board.add("more", "n", 1); err == nil {
		t.Error("a job has more connections than it may have")
	}
	other, err := board.add("other", "n", 2)
	if err != nil {
		t.Fatal(err)
	}
	other.close(liveOver)
	other.close(LiveTakeover)
	if other.closedFor() != liveOver || len(board.streams) != maxLiveJob || other.connect(nil) {
		t.Errorf("a closed connection is %q, %d are left", other.closedFor(), len(board.streams))
	}
}

// pieces makes a reader of a job's output that gets these pieces.
func readerOf(pieces ...*nodev1.OutputPiece) *outputReader {
	stream := &liveStream{frames: make(chan *nodev1.NodeFrame, len(pieces)), ended: make(chan struct{}), node: "n"}
	for _, piece := range pieces {
		stream.frames <- &nodev1.NodeFrame{Frame: &nodev1.NodeFrame_Piece{Piece: piece}}
	}
	return &outputReader{stream: stream}
}

func TestAReaderReturnsWhatThereIsInPiecesOfTheLimitAndStopsBeforeAGap(t *testing.T) {
	r := readerOf(&nodev1.OutputPiece{Data: []byte("abcdef"), Size: 10}, &nodev1.OutputPiece{Offset: 8, Data: []byte("ij"), Size: 10}, &nodev1.OutputPiece{Offset: 10, Size: 10, Ended: true})
	for _, want := range []struct {
		offset int64
		data   string
		ended  bool
	}{{0, "abcd", false}, {4, "ef", false}, {8, "ij", false}, {10, "", true}} {
		out, err := r.read(t.Context(), 4, time.Hour)
		if err != nil || out.Offset != want.offset || string(out.Data) != want.data || out.Ended != want.ended || out.Size != 10 {
			t.Errorf("%+v, %v, want %+v", out, err, want)
		}
	}
}

func TestAReaderThatHasEverythingWaitsNoLongerThanItsCaller(t *testing.T) {
	r := readerOf(&nodev1.OutputPiece{Data: []byte("a"), Size: 1})
	for _, want := range []string{"a", ""} {
		if out, err := r.read(t.Context(), 100, 0); err != nil || string(out.Data) != want {
			t.Errorf("%q, %v", out.Data, err)
		}
	}
	close(r.stream.frames)
	if _, err := r.read(t.Context(), 100, time.Hour); err == nil {
		t.Error("a broken connection is no error")
	}
}
