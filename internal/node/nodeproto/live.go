package nodeproto

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// closePatience is how long the scheduler may take to end a stream that the node has ended.
const closePatience = 5 * time.Second

// Live is the node's end of a live connection, on which several goroutines may send.
type Live struct {
	stream NodeStream
	// Frames is what the scheduler sends; Over is closed when the scheduler has ended the stream.
	Frames chan *nodev1.SchedulerFrame
	Over   chan struct{}

	mu     sync.Mutex
	broken bool
}

// NewLive connects a node's stream with those who serve it, until ctx is cancelled.
func NewLive(ctx context.Context, stream NodeStream) *Live {
	l := &Live{stream: stream, Frames: make(chan *nodev1.SchedulerFrame), Over: make(chan struct{})}
	go l.receive(ctx)
	return l
}

// receive passes on what the scheduler sends.
func (l *Live) receive(ctx context.Context) {
	defer close(l.Over)
	for {
		frame, err := l.stream.Receive()
		if err != nil {
			return
		}
		select {
		case l.Frames <- frame:
		case <-ctx.Done():
			return
		}
	}
}

// Finish ends the node's half, and waits, but not for long, until the scheduler has everything that was sent.
func (l *Live) Finish() {
	_ = l.stream.Close() // nobody waits for what was not sent
	patience := time.NewTimer(closePatience)
	defer patience.Stop()
	for {
		select {
		case <-l.Frames:
		case <-l.Over:
			return
		case <-patience.C:
			return
		}
	}
}

// Send reports whether the frame could be sent.
func (l *Live) Send(frame *nodev1.NodeFrame) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.broken && l.stream.Send(frame) != nil {
		l.broken = true
	}
	return !l.broken
}

// Output sends what a shell has written; the data is not kept.
func (l *Live) Output(data []byte, isStderr bool) bool {
	frame := &nodev1.NodeFrame_Output{Output: &nodev1.ShellOutput{Data: append([]byte(nil), data...), Stderr: isStderr}}
	return l.Send(&nodev1.NodeFrame{Frame: frame})
}

// End sends the last frame.
func (l *Live) End(reason nodev1.StreamEndReason, message string) {
	l.EndWith(&nodev1.StreamEnd{Reason: reason, Message: message})
}

// EndWith sends the last frame.
func (l *Live) EndWith(end *nodev1.StreamEnd) {
	l.Send(&nodev1.NodeFrame{Frame: &nodev1.NodeFrame_End{End: end}})
}

// OpenLocal opens a stream to a scheduler in the same process.
func OpenLocal(ctx context.Context, service Service, peer Peer, first *nodev1.NodeFrame) NodeStream {
	ctx, cancel := context.WithCancel(ctx)
	s := &localStream{ctx: ctx, up: make(chan *nodev1.NodeFrame, localFrames), down: make(chan *nodev1.SchedulerFrame, localFrames), closed: make(chan struct{})}
	go func() {
		defer cancel()
		_ = service.Stream(ctx, peer, first, (*localEnd)(s)) // the node sees its end
	}()
	return s
}

// localFrames is how many frames wait in a stream within a process. Both ends may send at once.
const localFrames = 16

// localStream is a stream within a process. Its context ends when the scheduler has ended it.
type localStream struct {
	ctx    context.Context
	up     chan *nodev1.NodeFrame
	down   chan *nodev1.SchedulerFrame
	once   sync.Once
	closed chan struct{} // by the node
}

// Send passes a frame to the scheduler. It refuses once either end has ended the stream, even while there is room.
func (s *localStream) Send(frame *nodev1.NodeFrame) error {
	select {
	case <-s.closed:
		return io.ErrClosedPipe
	case <-s.ctx.Done():
		return io.EOF
	default:
	}
	select {
	case <-s.closed:
		return io.ErrClosedPipe
	case s.up <- frame:
		return nil
	case <-s.ctx.Done():
		return io.EOF
	}
}

// Receive returns a frame of the scheduler: everything that was sent before the scheduler ended the stream.
func (s *localStream) Receive() (*nodev1.SchedulerFrame, error) {
	select {
	case frame := <-s.down:
		return frame, nil
	case <-s.ctx.Done():
	}
	select {
	case frame := <-s.down:
		return frame, nil
	default:
		return nil, io.EOF
	}
}

// Close ends the node's half.
func (s *localStream) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// localEnd is the scheduler's end.
type localEnd localStream

// Send passes a frame to the node. It refuses once the stream has ended, even while there is room.
func (s *localEnd) Send(frame *nodev1.SchedulerFrame) error {
	if s.ctx.Err() != nil {
		return io.EOF
	}
	select {
	case s.down <- frame:
		return nil
	case <-s.ctx.Done():
		return io.EOF
	}
}

// Receive returns a frame of the node: everything that was sent before the node closed its half.
func (s *localEnd) Receive() (*nodev1.NodeFrame, error) {
	select {
	case frame := <-s.up:
		return frame, nil
	case <-s.closed:
	case <-s.ctx.Done():
	}
	select {
	case frame := <-s.up:
		return frame, nil
	default:
		return nil, io.EOF
	}
}
