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
	// sessionPatience is how long a job's proxy may take to start a shell or to send a signal.
	sessionPatience = 20 * time.Second
	// drainPatience is how long the output of a shell that has ended may take to arrive: processes that it left in the
	// background may hold its streams open.
	drainPatience = time.Second
	// followPause is how long a reader of output waits before it looks for more.
	followPause = 100 * time.Millisecond
	// readersPatience is how long the files of an ended job wait for those who still read its output.
	readersPatience = 10 * time.Second
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
	shell, signal := order.GetShell(), order.GetSignal()
	reads := shell == nil && signal == nil
	switch {
	case j == nil, !reads && j.result != nil:
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
	if reads {
		j.readers.add(1)
	}
	a.serveStream(order, func(s *nodeproto.Live) {
		switch {
		case shell != nil:
			a.serveShell(s, dir, shell)
		case signal != nil:
			s.EndWith(sendSignal(dir, signal))
		default:
			a.serveOutput(s, dir, order.GetOutput())
		}
	}, func() {
		if reads {
			j.readers.add(-1)
		}
		a.post(func() { a.streams-- })
	})
}

// refuseStream answers an order with the reason why there is nothing to connect.
func (a *Agent) refuseStream(order *nodev1.OpenStreamOrder, reason nodev1.StreamEndReason, message string) {
	a.serveStream(order, func(s *nodeproto.Live) { s.End(reason, message) }, func() {})
}

// serveStream opens a stream and serves it outside the loop; after is called when that is over, or has failed.
func (a *Agent) serveStream(order *nodev1.OpenStreamOrder, serve func(s *nodeproto.Live), after func()) {
	a.work(func() {
		defer after()
		ctx, cancel := context.WithCancel(context.WithoutCancel(a.ctx)) // the last frame is sent when the agent stops
		defer cancel()
		opened, err := a.Caller.Stream(ctx, &nodev1.NodeFrame{NodeName: a.Description.GetName(), Stream: order.GetStream()})
		if err != nil {
			a.Log.Warn("a live connection cannot be opened", "job", order.GetNumber(), "error", err)
			return
		}
		s := nodeproto.NewLive(ctx, opened)
		serve(s)
		s.Finish()
	})
}

// serveOutput sends the output of a job from an offset on, as it is written, until the job has ended. The first piece
// is sent at once, even if it is empty.
func (a *Agent) serveOutput(s *nodeproto.Live, dir string, from *nodev1.FollowOutput) {
	name := "stderr"
	if from.GetStream() == nodev1.Stream_STREAM_STDOUT {
		name = "stdout"
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
			s.End(reason, err.Error())
			return
		}
		last := ended && len(part.Data) == 0
		if first || last || len(part.Data) > 0 {
			piece := &nodev1.OutputPiece{Offset: part.Offset, Data: part.Data, Size: part.Size, Ended: last}
			if !s.Send(&nodev1.NodeFrame{Frame: &nodev1.NodeFrame_Piece{Piece: piece}}) || last {
				return
			}
		}
		first, offset = false, part.End()
		if len(part.Data) > 0 {
			continue
		}
		select {
		case <-s.Over:
			return
		case <-a.ctx.Done():
			s.End(nodev1.StreamEndReason_STREAM_END_REASON_STOPPING, "the agent of the node stops")
			return
		case <-time.After(followPause):
		}
	}
}

// refusals translates why a proxy refuses a session or a signal.
var refusals = map[jobproxy.Refusal]nodev1.StreamEndReason{
	jobproxy.RefusedNotStarted:  nodev1.StreamEndReason_STREAM_END_REASON_NOT_STARTED,
	jobproxy.RefusedEnded:       nodev1.StreamEndReason_STREAM_END_REASON_NO_JOB,
	jobproxy.RefusedTooMany:     nodev1.StreamEndReason_STREAM_END_REASON_TOO_MANY,
	jobproxy.RefusedFailed:      nodev1.StreamEndReason_STREAM_END_REASON_FAILED,
	jobproxy.RefusedUnsupported: nodev1.StreamEndReason_STREAM_END_REASON_UNSUPPORTED,
}

// refusal says why a job takes no session or signal.
func refusal(err error) *nodev1.StreamEnd {
	var refused *jobproxy.RefusedError
	switch {
	case errors.As(err, &refused):
		return &nodev1.StreamEnd{Reason: refusals[refused.Reason], Message: refused.Message}
	case errors.Is(err, jobproxy.ErrGone), errors.Is(err, os.ErrNotExist):
		return &nodev1.StreamEnd{Reason: nodev1.StreamEndReason_STREAM_END_REASON_NO_JOB, Message: "the job has ended"}
	}
	return &nodev1.StreamEnd{Reason: nodev1.StreamEndReason_STREAM_END_REASON_FAILED, Message: err.Error()}
}

// sendSignal sends a signal to a job and says what became of it.
func sendSignal(dir string, wanted *nodev1.SendSignal) *nodev1.StreamEnd {
	if err := jobproxy.SendSignal(dir, &jobproxy.SignalRequest{Name: wanted.GetName(), All: wanted.GetAll()}, sessionPatience); err != nil {
		return refusal(err)
	}
	return &nodev1.StreamEnd{Reason: nodev1.StreamEndReason_STREAM_END_REASON_SIGNALLED}
}

// serveShell runs a process in a job and connects it with the scheduler.
func (a *Agent) serveShell(s *nodeproto.Live, dir string, wanted *nodev1.OpenShell) {
	request := &jobproxy.SessionRequest{
		Command: wanted.GetCommand(), Arguments: wanted.GetArguments(), Terminal: wanted.GetTerminal(),
		Height: uint16(min(wanted.GetHeight(), 1<<15)), Width: uint16(min(wanted.GetWidth(), 1<<15)),
	}
	for _, v := range wanted.GetEnvironment() {
		request.Environment = append(request.Environment, jobproxy.Variable{Name: v.GetName(), Value: v.GetValue()})
	}
	session, err := jobproxy.OpenSession(dir, request, sessionPatience)
	if err != nil {
		s.EndWith(refusal(err))
		return
	}
	defer session.Close()
	s.Output(nil, false) // it has started
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
		s.End(nodev1.StreamEndReason_STREAM_END_REASON_STOPPING, "the agent of the node stops")
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
		s.End(nodev1.StreamEndReason_STREAM_END_REASON_NO_JOB, "the job has ended, or its supervisor has")
		return
	}
	s.EndWith(&nodev1.StreamEnd{Reason: nodev1.StreamEndReason_STREAM_END_REASON_EXITED, ExitCode: int32(end.Code), Signal: int32(end.Signal)})
}

// shell connects a session with a stream.
type shell struct {
	s       *nodeproto.Live
	session *jobproxy.Session
}

// copyOut sends what the process writes. It ends when no process holds the stream open, or when the session is closed.
func (c *shell) copyOut(from *os.File, isStderr bool) {
	buffer := make([]byte, shellPiece)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !c.s.Output(buffer[:n], isStderr) {
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
		case frame = <-c.s.Frames:
		case <-c.s.Over:
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
			c.s.Send(&nodev1.NodeFrame{Frame: &nodev1.NodeFrame_Consumed{Consumed: consumed}})
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
