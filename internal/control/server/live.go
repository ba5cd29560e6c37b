package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/guid"
)

// Live connections to jobs: a caller waits here, an order asks the job's node to connect, and the node's stream is
// handed to the caller. Streams are memory only. They end with the term of the leader.

// Limits on live connections.
const (
	// livePatience is how long a node may take to connect.
	livePatience = 15 * time.Second
	// maxLive is how many live connections the scheduler has at a time, maxLiveJob how many of them to one job.
	maxLive    = 512
	maxLiveJob = 24
	// liveQueue is how many frames wait for a caller. A node whose frames nobody takes is slowed down.
	liveQueue = 4
)

// LiveReason is why there is no live connection, or why it ended.
type LiveReason string

// Reasons for the end of a live connection.
const (
	LiveExited       LiveReason = "exited"            // the shell has ended
	LiveJobEnded     LiveReason = "job_ended"         // the job has ended
	LiveNotStarted   LiveReason = "job_not_started"   // the job waits or is being prepared
	LiveNodeAway     LiveReason = "node_away"         // the node does not answer
	LiveForbidden    LiveReason = "shells_forbidden"  // by the operator of the node
	LiveUnsupported  LiveReason = "shell_unsupported" // by the version of the node, or by that which started the job
	LiveTooMany      LiveReason = "too_many_shells"
	LiveFailed       LiveReason = "shell_failed"    // the node could not start it
	LiveAgentStopped LiveReason = "agent_stopped"   // the agent of the node stopped
	LiveTakeover     LiveReason = "leader_changed"  // this scheduler no longer leads
	LiveIdle         LiveReason = "idle"            // nobody typed and nothing was written for too long
	LiveAbandoned    LiveReason = "client_gone"     // nobody asked for its output for too long
	LiveTerminated   LiveReason = "terminated"      // by its user
	liveOver         LiveReason = "nobody_reads_it" // the caller has what it wanted
)

// LiveError is why there is no live connection.
type LiveError struct {
	Reason  LiveReason
	Message string
}

func (e *LiveError) Error() string { return e.Message }

func liveErrorf(reason LiveReason, format string, args ...any) *LiveError {
	return &LiveError{reason, fmt.Sprintf(format, args...)}
}

// endReasons translates the node's reasons.
var endReasons = map[nodev1.StreamEndReason]LiveReason{
	nodev1.StreamEndReason_STREAM_END_REASON_EXITED:      LiveExited,
	nodev1.StreamEndReason_STREAM_END_REASON_NO_JOB:      LiveJobEnded,
	nodev1.StreamEndReason_STREAM_END_REASON_NOT_STARTED: LiveNotStarted,
	nodev1.StreamEndReason_STREAM_END_REASON_FORBIDDEN:   LiveForbidden,
	nodev1.StreamEndReason_STREAM_END_REASON_TOO_MANY:    LiveTooMany,
	nodev1.StreamEndReason_STREAM_END_REASON_STOPPING:    LiveAgentStopped,
	nodev1.StreamEndReason_STREAM_END_REASON_UNSUPPORTED: LiveUnsupported,
}

func reasonOf(end *nodev1.StreamEnd) LiveReason {
	if reason, known := endReasons[end.GetReason()]; known {
		return reason
	}
	return LiveFailed
}

// liveBoard has all live connections. The zero value is ready to use.
type liveBoard struct {
	mu      sync.Mutex
	streams map[string]*liveStream // by name, from the order on
	readers []*outputReader        // that no caller uses now
	shells  map[guid.ID]*Shell
	// unaudited are shells that ended with a term, and whose ends are not in the audit yet.
	unaudited []*Shell
}

// liveStream is the scheduler's end of a stream.
type liveStream struct {
	board  *liveBoard
	name   string
	node   string
	job    core.JobID
	opened chan struct{}          // closed when the node has connected
	frames chan *nodev1.NodeFrame // what the node sends; closed at its end
	ended  chan struct{}          // closed by close

	mu     sync.Mutex
	wire   nodeproto.SchedulerStream // nil before the node has connected, and at the end
	reason LiveReason                // why it was closed
	isOpen bool
}

// add registers a stream, which the caller must close.
func (b *liveBoard) add(name, node string, job core.JobID) (*liveStream, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := 0
	for _, other := range b.streams { // the order does not matter
		if other.job == job {
			own++
		}
	}
	if len(b.streams) >= maxLive || own >= maxLiveJob {
		return nil, liveErrorf(LiveTooMany, "there are %d live connections, %d of them to this job; the limits are %d and %d", len(b.streams), own, maxLive, maxLiveJob)
	}
	if b.streams == nil {
		b.streams = map[string]*liveStream{}
	}
	s := &liveStream{
		board: b, name: name, node: node, job: job,
		opened: make(chan struct{}), frames: make(chan *nodev1.NodeFrame, liveQueue), ended: make(chan struct{}),
	}
	b.streams[name] = s
	return s, nil
}

// close ends a stream, for a reason that counts if it is the first.
func (s *liveStream) close(reason LiveReason) {
	s.mu.Lock()
	first := s.reason == ""
	if first {
		s.reason = reason
		close(s.ended)
	}
	s.mu.Unlock()
	if first {
		s.board.mu.Lock()
		delete(s.board.streams, s.name)
		s.board.mu.Unlock()
	}
}

// closedFor is why the stream was closed; empty if it is open.
func (s *liveStream) closedFor() LiveReason {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason
}

// send sends a frame to the node. It reports whether there was a connection.
func (s *liveStream) send(frame *nodev1.SchedulerFrame) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wire != nil && s.wire.Send(frame) == nil
}

// connect takes over the node's stream. It reports false if the stream has one, or nobody waits.
func (s *liveStream) connect(wire nodeproto.SchedulerStream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isOpen || s.reason != "" {
		return false
	}
	s.wire, s.isOpen = wire, true
	close(s.opened)
	return true
}

// disconnect forgets the node's stream, which is valid only while its handler runs.
func (s *liveStream) disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wire = nil
}

// Stream joins a node's stream with the caller who waits for it.
func (s nodeService) Stream(ctx context.Context, _ nodeproto.Peer, first *nodev1.NodeFrame, wire nodeproto.SchedulerStream) error {
	s.live.mu.Lock()
	live := s.live.streams[string(first.GetStream())]
	s.live.mu.Unlock()
	if live == nil || live.node != first.GetNodeName() || !live.connect(wire) {
		return nil // the caller has gone
	}
	defer live.disconnect()
	received := make(chan struct{})
	go func() {
		defer close(received)
		defer close(live.frames)
		for {
			frame, err := wire.Receive()
			if err != nil {
				return
			}
			select {
			case live.frames <- frame:
			case <-live.ended:
				return
			}
		}
	}()
	select {
	case <-received:
	case <-live.ended:
	case <-ctx.Done():
	}
	return nil
}

// open asks the node of a job for a stream and waits until it has connected. prepare runs on the loop before the order
// is queued; with durable set, the order waits until what prepare has added is on disk.
func (s *Server) open(ctx context.Context, id guid.ID, order *nodev1.OpenStreamOrder, durable bool, prepare func(t *term, job *Job) error) (*liveStream, error) {
	number, _ := guid.JobNumber(id)
	name := s.newID(guid.Object)
	order.Number, order.Stream = number, []byte(name.String())
	live, err := askHow(ctx, s, !durable, func(t *term) (*liveStream, error) {
		t.answerNow = !durable
		job := t.jobs[core.JobID(number)]
		if job == nil {
			return nil, liveErrorf(LiveJobEnded, "job %s does not run", id)
		}
		node := t.nodeList[job.node]
		switch {
		case node.session == nil || !node.session.Confirmed() || !node.record.Online:
			return nil, liveErrorf(LiveNodeAway, "node %s, where job %s runs, does not answer", job.Node, id)
		case !node.streams:
			return nil, liveErrorf(LiveUnsupported, "node %s has a version without live access to jobs", job.Node)
		}
		live, err := s.live.add(name.String(), job.Node, job.Number)
		if err != nil {
			return nil, err
		}
		if prepare != nil {
			if err := prepare(t, job); err != nil {
				live.close(liveOver)
				return nil, err
			}
		}
		if durable {
			t.ordersTo(node).OpenStream(order)
			return live, nil
		}
		node.session.After(t.durable)
		node.session.OpenStream(order)
		t.answerHeld(node)
		return live, nil
	})
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(livePatience)
	defer timer.Stop()
	select {
	case <-live.opened:
		return live, nil
	case <-live.ended:
		return nil, liveErrorf(live.closedFor(), "job %s: the connection ended before it began", id)
	case <-timer.C:
		live.close(LiveNodeAway)
		return nil, liveErrorf(LiveNodeAway, "node %s, where job %s runs, has not connected within %v", live.node, id, livePatience)
	case <-ctx.Done():
		live.close(liveOver)
		return nil, ctx.Err()
	}
}

// endAll ends all live connections because this server no longer leads.
func (b *liveBoard) endAll() {
	b.mu.Lock()
	var streams []*liveStream
	for _, s := range b.streams { // the order does not matter
		streams = append(streams, s)
	}
	var shells []*Shell
	for _, shell := range b.shells {
		shells = append(shells, shell)
	}
	b.readers = nil
	b.mu.Unlock()
	for _, shell := range shells {
		if shell.end(ShellEnd{Reason: LiveTakeover, Message: "this scheduler no longer leads, and live connections do not move"}) {
			b.mu.Lock()
			b.unaudited = append(b.unaudited, shell)
			b.mu.Unlock()
		}
	}
	for _, s := range streams {
		s.close(LiveTakeover)
	}
}

// LiveOutput is a part of the output of a running job.
type LiveOutput struct {
	Offset int64 // of the first byte; above what was asked for if the bytes between are not kept
	Data   []byte
	Size   int64 // of everything that the job has written so far
	Ended  bool  // the job has ended, and there is no more
}

// End is the offset after the last byte.
func (o *LiveOutput) End() int64 { return o.Offset + int64(len(o.Data)) }

const (
	// readerPatience is how long a reader is kept for the next request of a caller that follows a job.
	readerPatience = 30 * time.Second
	// maxLiveAnswer bounds what one request returns.
	maxLiveAnswer = 8 << 20
	// notYet is how long a caller waits at least for a job that has not started.
	notYet = 500 * time.Millisecond
)

// outputReader reads the output of a running job from an offset on. One caller uses it at a time.
type outputReader struct {
	stream   *liveStream
	kind     nodev1.Stream
	position int64
	size     int64 // of the output, as of the last piece
	begun    bool  // a piece has come
	piece    *nodev1.OutputPiece
	ended    bool
	timer    *time.Timer // closes it if nobody comes back
}

// ReadOutput returns output of a running job from an offset on, up to limit bytes. If there is none, it waits for some;
// it also returns when the job has ended.
func (s *Server) ReadOutput(ctx context.Context, id guid.ID, stdout bool, offset, limit int64, wait time.Duration) (LiveOutput, error) {
	number, _ := guid.JobNumber(id)
	kind := nodev1.Stream_STREAM_STDERR
	if stdout {
		kind = nodev1.Stream_STREAM_STDOUT
	}
	r := s.live.reader(core.JobID(number), kind, offset)
	if r == nil {
		order := &nodev1.OpenStreamOrder{What: &nodev1.OpenStreamOrder_Output{Output: &nodev1.FollowOutput{Stream: kind, Offset: offset}}}
		live, err := s.open(ctx, id, order, false, nil)
		if err != nil {
			return LiveOutput{}, err
		}
		r = &outputReader{stream: live, kind: kind, position: offset}
	}
	out, err := r.read(ctx, min(limit, maxLiveAnswer), wait)
	if err != nil || out.Ended {
		r.stream.close(liveOver)
		var failed *LiveError
		if errors.As(err, &failed) && failed.Reason == LiveNotStarted {
			pauseFor(ctx, min(max(wait, 0), notYet))
			return LiveOutput{Offset: offset}, nil
		}
		return out, err
	}
	s.live.keep(r)
	return out, nil
}

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// reader takes the idle reader that is at an offset, nil if there is none.
func (b *liveBoard) reader(job core.JobID, kind nodev1.Stream, offset int64) *outputReader {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, r := range b.readers {
		if r.stream.job == job && r.kind == kind && r.position == offset && r.stream.closedFor() == "" {
			r.timer.Stop()
			b.readers = append(b.readers[:i], b.readers[i+1:]...)
			return r
		}
	}
	return nil
}

// keep keeps a reader for the next request.
func (b *liveBoard) keep(r *outputReader) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readers = append(b.readers, r)
	r.timer = time.AfterFunc(readerPatience, func() { b.drop(r) })
}

// drop closes a reader if no caller has taken it.
func (b *liveBoard) drop(r *outputReader) {
	b.mu.Lock()
	idle := false
	for i, other := range b.readers {
		if other == r {
			b.readers, idle = append(b.readers[:i], b.readers[i+1:]...), true
			break
		}
	}
	b.mu.Unlock()
	if idle {
		r.stream.close(liveOver)
	}
}

// read collects what there is, and waits if there is nothing.
func (r *outputReader) read(ctx context.Context, limit int64, wait time.Duration) (LiveOutput, error) {
	out := LiveOutput{Offset: r.position}
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	for int64(len(out.Data)) < limit && !r.ended {
		if r.piece == nil {
			isNews, err := r.next(ctx, deadline, len(out.Data) > 0)
			if err != nil {
				return out, err
			}
			if !isNews {
				break
			}
		}
		piece := r.piece
		if piece.GetOffset() > r.position { // a gap
			if len(out.Data) > 0 {
				break // the next call begins after it
			}
			r.position, out.Offset = piece.GetOffset(), piece.GetOffset()
		}
		n := min(int64(len(piece.Data)), limit-int64(len(out.Data)))
		out.Data = append(out.Data, piece.Data[:n]...)
		r.position += n
		if n == int64(len(piece.Data)) {
			r.ended, r.piece = piece.GetEnded(), nil
		} else {
			r.piece = &nodev1.OutputPiece{Offset: r.position, Data: piece.Data[n:], Size: piece.Size, Ended: piece.Ended}
		}
	}
	out.Size, out.Ended = max(r.size, r.position), r.ended && r.piece == nil
	return out, nil
}

// next takes the next piece. It does not wait for output that does not exist yet if the caller has some, and otherwise
// until the deadline.
func (r *outputReader) next(ctx context.Context, deadline *time.Timer, hasSome bool) (bool, error) {
	behind := !r.begun || r.position < r.size
	if hasSome && !behind {
		return false, nil
	}
	var late <-chan time.Time
	if behind { // the node is sending it
		timer := time.NewTimer(livePatience)
		defer timer.Stop()
		late = timer.C
	}
	passed := deadline.C
	if behind {
		passed = nil
	}
	select {
	case frame, more := <-r.stream.frames:
		if !more {
			return false, r.lost()
		}
		if end := frame.GetEnd(); end != nil {
			return false, &LiveError{reasonOf(end), end.GetMessage()}
		}
		if r.piece = frame.GetPiece(); r.piece == nil {
			return false, liveErrorf(LiveFailed, "node %s sent a frame of another kind", r.stream.node)
		}
		r.begun, r.size = true, r.piece.GetSize()
		return true, nil
	case <-passed:
		return false, nil
	case <-late:
		return false, liveErrorf(LiveNodeAway, "node %s sends nothing", r.stream.node)
	case <-r.stream.ended:
		return false, r.lost()
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// lost is the error of a reader whose stream broke off.
func (r *outputReader) lost() error {
	reason := r.stream.closedFor()
	if reason == "" {
		reason = LiveNodeAway
	}
	return liveErrorf(reason, "the connection to node %s broke off", r.stream.node)
}
