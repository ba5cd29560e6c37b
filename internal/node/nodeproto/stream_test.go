package nodeproto_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

func TestAStreamCarriesFramesBothWaysUntilTheNodeEndsIt(t *testing.T) {
	address, _ := serve(t, newScheduler(0), nodeproto.Insecure{}, nil)
	client, err := nodeproto.NewClient([]string{address}, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	stream, err := client.Stream(t.Context(), &nodev1.NodeFrame{NodeName: "n", Stream: []byte("s")})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		data := bytes.Repeat([]byte("x"), nodeproto.PieceSize)
		if err := stream.Send(&nodev1.NodeFrame{Frame: &nodev1.NodeFrame_Output{Output: &nodev1.ShellOutput{Data: data}}}); err != nil {
			t.Fatal(err)
		}
		frame, err := stream.Receive()
		if err != nil || !bytes.Equal(frame.GetInput(), data) {
			t.Fatalf("%d bytes came back, %v", len(frame.GetInput()), err)
		}
	}
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
}

func TestAStreamOfANodeIsRefusedToOthers(t *testing.T) {
	tokens := &nodeproto.Tokens{}
	if err := tokens.Add("secret", "n"); err != nil {
		t.Fatal(err)
	}
	address, _ := serve(t, newScheduler(0), tokens, nil)
	for _, c := range []struct{ token, node string }{{"wrong", "n"}, {"secret", "other"}, {"secret", ""}} {
		client, err := nodeproto.NewClient([]string{address}, nil, c.token)
		if err != nil {
			t.Fatal(err)
		}
		stream, err := client.Stream(t.Context(), &nodev1.NodeFrame{NodeName: c.node, Stream: []byte("s")})
		if err == nil {
			_, err = stream.Receive()
		}
		if err == nil || errors.Is(err, io.EOF) {
			t.Errorf("token %q may speak for node %q", c.token, c.node)
		}
		client.Close()
	}
}

// relay is a scheduler that returns what it gets as input.
type relay struct{ nodeproto.Service }

func (relay) Stream(_ context.Context, _ nodeproto.Peer, first *nodev1.NodeFrame, stream nodeproto.SchedulerStream) error {
	for {
		frame, err := stream.Receive()
		if err != nil {
			return nil
		}
		if err := stream.Send(&nodev1.SchedulerFrame{Input: append(first.GetStream(), frame.GetOutput().GetData()...)}); err != nil {
			return err
		}
	}
}

func TestAStreamWithinAProcessLosesNothing(t *testing.T) {
	stream := nodeproto.OpenLocal(t.Context(), relay{}, nodeproto.Peer{}, &nodev1.NodeFrame{Stream: []byte("s")})
	live := nodeproto.NewLive(t.Context(), stream)
	for i := range byte(10) { // both ends send at once
		if !live.Output([]byte{i}, false) {
			t.Fatal("the stream is broken")
		}
	}
	for i := range byte(10) {
		if frame := <-live.Frames; !bytes.Equal(frame.GetInput(), []byte{'s', i}) {
			t.Errorf("frame %d: %v", i, frame)
		}
	}
	live.Finish()
	if live.Output(nil, false) {
		t.Error("a stream that has ended takes more")
	}
	<-live.Over
}

// farewell is a scheduler that sends a few frames and ends the stream at once.
type farewell struct{ nodeproto.Service }

func (farewell) Stream(_ context.Context, _ nodeproto.Peer, _ *nodev1.NodeFrame, stream nodeproto.SchedulerStream) error {
	for i := range byte(farewells) {
		if err := stream.Send(&nodev1.SchedulerFrame{Input: []byte{i}}); err != nil {
			return err
		}
	}
	return nil
}

// farewells is fewer than a stream holds: the scheduler has gone before the node reads the first.
const farewells = 8

func TestWhatTheSchedulerSentBeforeItEndedAStreamArrives(t *testing.T) {
	for range 100 { // a stream that chooses at random would lose a frame in one of them
		stream := nodeproto.OpenLocal(t.Context(), farewell{}, nodeproto.Peer{}, &nodev1.NodeFrame{})
		for i := range byte(farewells) {
			if frame, err := stream.Receive(); err != nil || !bytes.Equal(frame.GetInput(), []byte{i}) {
				t.Fatalf("frame %d: %v, %v", i, frame, err)
			}
		}
		if frame, err := stream.Receive(); err == nil {
			t.Fatalf("a stream that has ended gives %v", frame)
		}
		if err := stream.Send(&nodev1.NodeFrame{}); err == nil {
			t.Fatal("a stream that has ended takes a frame")
		}
	}
}
