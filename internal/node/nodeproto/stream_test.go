package nodeproto_test

import (
	"bytes"
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
