package nodeproto

import (
	"context"
	"errors"
	"fmt"
	"io"

	"connectrpc.com/connect"

	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// MaxFrameSize bounds a frame of a stream; PieceSize is how much data one carries at most.
const (
	MaxFrameSize = 1 << 20
	PieceSize    = 256 << 10
)

// SchedulerStream is the scheduler's end of a stream. One goroutine may send while another receives.
type SchedulerStream interface {
	Send(*nodev1.SchedulerFrame) error
	// Receive returns io.EOF when the node has ended the stream.
	Receive() (*nodev1.NodeFrame, error)
}

// NodeStream is the node's end of a stream. One goroutine may send while another receives. Cancelling the
// context that it was opened with ends both.
type NodeStream interface {
	Send(*nodev1.NodeFrame) error
	// Receive returns io.EOF when the scheduler has ended the stream.
	Receive() (*nodev1.SchedulerFrame, error)
	// Close ends the node's half: the scheduler gets everything that was sent, and then ends the stream.
	Close() error
}

// Stream opens a stream to the scheduler that answered last: an order for it came from there.
func (c *Client) Stream(ctx context.Context, first *nodev1.NodeFrame) (NodeStream, error) {
	address := c.Current()
	headed, info := connect.NewClientContext(ctx)
	if token := *c.token.Load(); token != "" {
		info.RequestHeader().Set("Authorization", "Bearer "+token)
	}
	opened, err := c.pool.scheduler(address).Stream(headed)
	if err == nil {
		if err = opened.Send(first); errors.Is(err, io.EOF) { // it was refused: the answer has the reason
			_, err = opened.Receive()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("scheduler %s: %w", address, FromConnect(err))
	}
	return clientStream{opened}, nil
}

type clientStream struct {
	*connect.BidiStreamForClientSimple[nodev1.NodeFrame, nodev1.SchedulerFrame]
}

func (s clientStream) Close() error { return s.CloseRequest() }
