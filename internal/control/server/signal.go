package server

import (
	"context"
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/guid"
)

// SignalJob sends a signal to a running job: to its command or, with all set, to all its processes. It returns when the
// node has sent it. The audit has it before that.
func (s *Server) SignalJob(ctx context.Context, who Caller, job guid.ID, signal string, all bool) error {
	who.Object = job.String()
	order := &nodev1.OpenStreamOrder{What: &nodev1.OpenStreamOrder_Signal{Signal: &nodev1.SendSignal{Name: signal, All: all}}}
	live, err := s.open(ctx, job, order, true, func(t *term, _ *Job) error {
		t.audit(who, nil, mustJSON(map[string]any{"signal_name": signal, "all": all}))
		return nil
	})
	if err != nil {
		return err
	}
	defer live.close(liveOver)
	timer := time.NewTimer(shellStart)
	defer timer.Stop()
	select {
	case frame, more := <-live.frames:
		return live.signalled(frame, more)
	case <-live.ended:
		return live.signalled(nil, false)
	case <-timer.C:
		return liveErrorf(LiveNodeAway, "node %s has not sent the signal within %v", live.node, shellStart)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// signalled is what the node's answer to a signal means. A node of an earlier version takes the order for a request for
// output.
func (s *liveStream) signalled(frame *nodev1.NodeFrame, more bool) error {
	end := frame.GetEnd()
	switch {
	case !more:
		reason := s.closedFor()
		if reason == "" {
			reason = LiveNodeAway
		}
		return liveErrorf(reason, "the connection to node %s broke off: it is unknown whether the signal was sent", s.node)
	case end == nil:
		return liveErrorf(LiveUnsupported, "node %s has a version that sends no signals", s.node)
	case end.GetReason() == nodev1.StreamEndReason_STREAM_END_REASON_SIGNALLED:
		return nil
	}
	return &LiveError{reasonOf(end), fmt.Sprintf("the signal was not sent: %s", end.GetMessage())}
}
