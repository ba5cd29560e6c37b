package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// Limits on live connections.
const (
	// maxStreams is how many live connections a node has at a time.
	maxStreams = 64
	// sessionPatience is how long a job's proxy may take to start a shell.
	sessionPatience = 20 * time.Second
	// drainPatience is how long the output of a shell that has ended may take to arrive: processes that it left in the
	// background may hold its streams open.
	drainPatience = time.Second
	// followPause is how long a reader of output waits before it looks for more.
	followPause = 100 * time.Millisecond
	// readersPatience is how long the files of an ended job wait for those who still read its output.
	readersPatience = 10 * time.Second
	// closePatience is how long the scheduler may take to end a stream that the node has ended.
	closePatience = 5 * time.Second
	// shellPiece is how much output of a shell one frame carries.
	shellPiece = 32 << 10
)

// readers counts who reads the output of a job.
type readers struct {
	mu    sync.Mutex
	count int
	none  chan struct{} // closed when there is none left; nil if nobody waits
}

func (r *readers) add(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count += n; r.count == 0 && r.none != nil {
		close(r.none)
		r.none = nil
	}
}

// await waits until nobody reads, but not for long.
func (r *readers) await() {
	r.mu.Lock()
	if r.count == 0 {
		r.mu.Unlock()
		return
	}
	if r.none == nil {
		r.none = make(chan struct{})
	}
	none := r.none
	r.mu.Unlock()
	select {
	case <-none:
	case <-time.After(readersPatience):
	}
}

// openStream connects a job with somebody who waits at the scheduler.
func (a *Agent) openStream(order *nodev1.OpenStreamOrder) {
	if a.streams >= maxStreams {
		a.refuseStream(order, nodev1.StreamEndReason_STREAM_END_REASON_TOO_MANY, fmt.Sprintf("the node has %d live connections, which is the limit", maxStreams))
		return
	}
	j := a.jobs[order.GetNumber()]
	shell := order.GetShell()
	switch {
	case j == nil, shell != nil && j.result != nil:
		a.refuseStream(order, nodev1.StreamEndReason_STREAM_END_REASON_NO_JOB, "the job is not on the node any more")
		return
	case shell != nil && a.NoShells:
		a.refuseStream(order, nodev1.StreamEndReason_STREAM_END_REASON_FORBIDDEN, "the operator of the node allows no shells in jobs (node/shells)")
		return
	case !j.launched:
		a.refuseStream(order, nodev1.StreamEndReason_STREAM_END_REASON_NOT_STARTED, "the job has not started yet")
		return
	}
	a.streams++
	dir := j.dir
	if shell == nil {
		j.readers.add(1)
	}
	a.serveStream(order, func(s *liveStream) {
		defer a.post(func() { a.streams-- })
		if shell != nil {
			a.serveShell(s, dir, shell)
			return
		}
		defer j.readers.add(-1)
		a.serveOutput(s, dir, order.GetOutput())
	})
}

// refuseStream answers an order with the reason why there is nothing to connect.
func (a *Agent) refuseStream(order *nodev1.OpenStreamOrder, reason nodev1.StreamEndReason, message string) {
	a.serveStream(order, func(s *liveStream) { s.end(reason, message) })
}

// serveStream opens a stream and serves it outside the loop.
func (a *Agent) serveStream(order *nodev1.OpenStreamOrder, serve func(s *liveStream)) {
	a.work(func() {
		ctx, cancel := context.WithCancel(context.WithoutCancel(a.ctx)) // the last frame is sent when the agent stops
		defer cancel()
		opened, err := a.Caller.Stream(ctx, &nodev1.NodeFrame{NodeName: a.Description.GetName(), Stream: order.GetStream()})
		if err != nil {
			a.Log.Warn("a live connection cannot be opened", "job", order.GetNumber(), "error", err)
			serve(&liveStream{broken: true})
			return
		}
		s := &liveStream{NodeStream: opened, frames: make(chan *nodev1.SchedulerFrame), over: make(chan struct{})}
		go s.receive(ctx)
		serve(s)
		_ = opened.Close() // nobody waits for what was not sent
		s.await()
	})
}

// liveStream is the node's end of a stream, on which several goroutines may send.
type liveStream struct {
	nodeproto.NodeStream
	frames chan *nodev1.SchedulerFrame // what the scheduler sends
	over   chan struct{}               // closed when the scheduler has ended the stream

	mu     sync.Mutex
	broken bool
}

// receive passes on what the scheduler sends.
func (s *liveStream) receive(ctx context.Context) {
	defer close(s.over)
	for {
		frame, err := s.Receive()
		if err != nil {
			return
		}
		select {
		case s.frames <- frame:
		case <-ctx.Done():
			return
		}
	}
}

// await waits, but not for long, until the scheduler has everything that was sent.
func (s *liveStream) await() {
	patience := time.After(closePatience)
	for {
		select {
		case <-s.frames:
		case <-s.over:
			return
		case <-patience:
			return
		}
	}
}

// send reports whether the frame could be sent.
func (s *liveStream) send(frame *nodev1.NodeFrame) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.broken && s.Send(frame) != nil {
		s.broken = true
	}
	return !s.broken
}

// end sends the last frame.
func (s *liveStream) end(reason nodev1.StreamEndReason, message string) {
	s.send(&nodev1.NodeFrame{Frame: &nodev1.NodeFrame_End{End: &nodev1.StreamEnd{Reason: reason, Message: message}}})
}

// serveOutput sends the output of a job from an offset on, as it is written, until the job has ended. The first piece
// is sent at once, even if it is empty.
func (a *Agent) serveOutput(s *liveStream, dir string, from *nodev1.FollowOutput) {
	name := "stderr"
	if from.GetStream() == nodev1.Stream_STREAM_STDOUT {
		name = "stdout"
	}
	if s.broken {
		return
	}
	buffer := make([]byte, nodeproto.PieceSize)
	offset, first := max(from.GetOffset(), 0), true
	for {
		ended := jobproxy.HasEnded(dir) // before the read: what it reads then is all
		part, err := jobproxy.ReadPart(dir, name, offset, buffer)
		if err != nil {
			reason := nodev1.StreamEndReason_STREAM_END_REASON_FAILED
			if errors.Is(err, os.ErrNotExist) {
				reason = nodev1.StreamEndReason_STREAM_END_REASON_NO_JOB
			}
			s.end(reason, err.Error())
			return
		}
		last := ended && len(part.Data) == 0
		if first || last || len(part.Data) > 0 {
			piece := &nodev1.OutputPiece{Offset: part.Offset, Data: part.Data, Size: part.Size, Ended: last}
			if !s.send(&nodev1.NodeFrame{Frame: &nodev1.NodeFrame_Piece{Piece: piece}}) || last {
				return
			}
		}
		first, offset = false, part.End()
		if len(part.Data) > 0 {
			continue
		}
		select {
		case <-s.over:
			return
		case <-a.ctx.Done():
			s.end(nodev1.StreamEndReason_STREAM_END_REASON_STOPPING, "the agent of the node stops")
			return
		case <-time.After(followPause):
		}
	}
}

// refusals translates why a proxy refuses a session.
var refusals = map[jobproxy.Refusal]nodev1.StreamEndReason{
	jobproxy.RefusedNotStarted:  nodev1.StreamEndReason_STREAM_END_REASON_NOT_STARTED,
	jobproxy.RefusedEnded:       nodev1.StreamEndReason_STREAM_END_REASON_NO_JOB,
	jobproxy.RefusedTooMany:     nodev1.StreamEndReason_STREAM_END_REASON_TOO_MANY,
	jobproxy.RefusedFailed:      nodev1.StreamEndReason_STREAM_END_REASON_FAILED,
	jobproxy.RefusedUnsupported: nodev1.StreamEndReason_STREAM_END_REASON_UNSUPPORTED,
}

// serveShell runs a process in a job and connects it with the scheduler.
func (a *Agent) serveShell(s *liveStream, dir string, wanted *nodev1.OpenShell) {
	if s.broken {
		return
	}
	request := &jobproxy.SessionRequest{
		Command: wanted.GetCommand(), Arguments: wanted.GetArguments(), Terminal: wanted.GetTerminal(),
		Height: uint16(min(wanted.GetHeight(), 1<<15)), Width: uint16(min(wanted.GetWidth(), 1<<15)),
	}
	for _, v := range wanted.GetEnvironment() {
		request.Environment = append(request.Environment, jobproxy.Variable{Name: v.GetName(), Value: v.GetValue()})
	}
	session, err := jobproxy.OpenSession(dir, request, sessionPatience)
	if err != nil {
		var refused *jobproxy.RefusedError
		switch {
		case errors.As(err, &refused):
			s.end(refusals[refused.Reason], refused.Message)
		case errors.Is(err, jobproxy.ErrGone), errors.Is(err, os.ErrNotExist):
			s.end(nodev1.StreamEndReason_STREAM_END_REASON_NO_JOB, "the job has ended")
		default:
			s.end(nodev1.StreamEndReason_STREAM_END_REASON_FAILED, err.Error())
		}
		return
	}
	defer session.Close()
	s.send(&nodev1.NodeFrame{Frame: &nodev1.NodeFrame_Output{Output: &nodev1.ShellOutput{}}}) // it has started
	shell := &shell{s: s, session: session}
	var copying sync.WaitGroup
	copying.Go(func() { shell.copyOut(session.Output, false) })
	if session.Errors != nil {
		copying.Go(func() { shell.copyOut(session.Errors, true) })
	}
	unwanted := make(chan struct{}) // the scheduler wants no more of it
	go func() {
		defer close(unwanted)
		shell.takeInput()
	}()
	var end jobproxy.SessionEnd
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		end, err = session.Wait()
	}()
	select {
	case <-exited:
	case <-unwanted:
		return
	case <-a.ctx.Done():
		s.end(nodev1.StreamEndReason_STREAM_END_REASON_STOPPING, "the agent of the node stops")
		return
	}
	drained := make(chan struct{})
	go func() { copying.Wait(); close(drained) }()
	select {
	case <-drained:
	case <-unwanted:
	case <-time.After(drainPatience):
	}
	if err != nil {
		s.end(nodev1.StreamEndReason_STREAM_END_REASON_NO_JOB, "the job has ended, or its supervisor has")
		return
	}
	s.send(&nodev1.NodeFrame{Frame: &nodev1.NodeFrame_End{End: &nodev1.StreamEnd{
		Reason: nodev1.StreamEndReason_STREAM_END_REASON_EXITED, ExitCode: int32(end.Code), Signal: int32(end.Signal),
	}}})
}

// shell connects a session with a stream.
type shell struct {
	s       *liveStream
	session *jobproxy.Session
}

// copyOut sends what the process writes. It ends when no process holds the stream open, or when the session is closed.
func (c *shell) copyOut(from *os.File, isStderr bool) {
	buffer := make([]byte, shellPiece)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			frame := &nodev1.NodeFrame_Output{Output: &nodev1.ShellOutput{Data: append([]byte(nil), buffer[:n]...), Stderr: isStderr}}
			if !c.s.send(&nodev1.NodeFrame{Frame: frame}) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// endOfInput is the character that ends the input of a terminal.
const endOfInput = 4

// takeInput passes on what the scheduler sends, until it ends the stream.
func (c *shell) takeInput() {
	var consumed int64
	for {
		var frame *nodev1.SchedulerFrame
		select {
		case frame = <-c.s.frames:
		case <-c.s.over:
			return
		}
		if frame.GetTerminate() {
			return
		}
		if frame.GetHeight() > 0 && frame.GetWidth() > 0 && c.session.Errors == nil {
			_ = c.session.Resize(uint16(min(frame.GetHeight(), 1<<15)), uint16(min(frame.GetWidth(), 1<<15))) // it may have ended
		}
		if data := frame.GetInput(); len(data) > 0 {
			_, err := c.session.Input.Write(data)
			if err != nil && !errors.Is(err, io.ErrClosedPipe) && c.session.Errors == nil {
				return
			}
			consumed += int64(len(data)) // also what nobody reads any more
			c.s.send(&nodev1.NodeFrame{Frame: &nodev1.NodeFrame_Consumed{Consumed: consumed}})
		}
		if frame.GetCloseInput() {
			if c.session.Errors == nil {
				_, _ = c.session.Input.Write([]byte{endOfInput}) // it may have ended
			} else {
				_ = c.session.Input.Close()
			}
		}
	}
}
