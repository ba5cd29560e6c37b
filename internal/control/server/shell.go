package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/guid"
)

const (
	// shellIdle is how long nobody may type and nothing may be written before a shell ends, unless its user sets less.
	shellIdle = time.Hour
	// shellAbandoned is how long nobody may ask for its output before it ends.
	shellAbandoned = 2 * time.Minute
	// shellKept is how long an ended shell answers how it ended.
	shellKept = 2 * time.Minute
	// shellLook is how often a shell is checked for these.
	shellLook = time.Second
	// shellStart is how long a node may take to start a shell.
	shellStart = 30 * time.Second
	// maxShellOutput is how much output waits for its user, maxShellInput how much input for the shell.
	maxShellOutput = 1 << 20
	maxShellInput  = 64 << 10
	// maxShells is how many shells there are at a time, ended ones included.
	maxShells = 256
	// jobEndGrace is how long the node of a job that has ended may take to report how its shells ended.
	jobEndGrace = 3 * time.Second
	// auditPatience is how long the end of a shell waits for its audit record.
	auditPatience = 10 * time.Second
)

// ShellRequest is a process to run in a job beside its command.
type ShellRequest struct {
	User          string   // who may use it
	Command       string   // for the job's shell; empty: an interactive shell, unless there are arguments
	Arguments     []string // a program and its arguments, instead of a command
	Environment   []*nodev1.Variable
	Terminal      bool
	Height, Width uint32
	Idle          time.Duration // zero: the default
}

// ShellEnd is how a shell ended.
type ShellEnd struct {
	Reason   LiveReason
	Message  string
	ExitCode int32 // if it ended by itself
	Signal   int32 // that ended it; zero if none did
}

// Shell is a process in a job, as its user sees it.
type Shell struct {
	ID       guid.ID
	Job      guid.ID
	User     string
	Terminal bool

	server *Server
	who    Caller
	began  time.Time
	stream *liveStream
	idle   time.Duration

	mu       sync.Mutex
	output   []shellOutput // what the user has not confirmed
	first    int64         // offset of the first byte in output
	last     int64         // offset after the last one
	given    int64         // offset after the last byte that was returned
	accepted int64         // bytes of input
	consumed int64         // how much of it the shell has taken
	height   uint32
	width    uint32
	stirred  time.Time     // when somebody typed or something was written
	asked    time.Time     // when the user last asked
	finish   *ShellEnd     // nil while it runs
	over     time.Time     // when it ended
	changed  chan struct{} // closed, and replaced, when anything changes
}

type shellOutput struct {
	data   []byte
	stderr bool
}

// OpenShell starts a process in a running job. The audit has it before it starts.
func (s *Server) OpenShell(ctx context.Context, who Caller, job guid.ID, request *ShellRequest) (*Shell, error) {
	order := &nodev1.OpenStreamOrder{What: &nodev1.OpenStreamOrder_Shell{Shell: &nodev1.OpenShell{
		Command: request.Command, Arguments: request.Arguments, Environment: request.Environment, Terminal: request.Terminal,
		Height: request.Height, Width: request.Width,
	}}}
	now := time.Now()
	shell := &Shell{
		ID: s.newID(guid.Object), Job: job, User: request.User, Terminal: request.Terminal, server: s, who: who, began: now, idle: shellIdle,
		height: request.Height, width: request.Width, stirred: now, asked: now, changed: make(chan struct{}),
	}
	if request.Idle > 0 {
		shell.idle = min(request.Idle, shellIdle)
	}
	shell.who.Object = job.String()
	isAudited := false
	live, err := s.open(ctx, job, order, true, func(t *term, _ *Job) error {
		s.live.mu.Lock()
		full := len(s.live.shells) >= maxShells
		s.live.mu.Unlock()
		if full {
			return liveErrorf(LiveTooMany, "there are %d shells, which is the limit", maxShells)
		}
		t.audit(shell.who, nil, shell.opened(request))
		isAudited = true
		return nil
	})
	if err != nil {
		if isAudited {
			reason := LiveTerminated // its user did not wait
			var refused *LiveError
			if errors.As(err, &refused) {
				reason = refused.Reason
			}
			shell.end(ShellEnd{Reason: reason, Message: err.Error()})
			shell.auditEnd()
		}
		return nil, err
	}
	shell.stream = live
	if err := shell.awaitStart(ctx); err != nil {
		shell.leave()
		return nil, err
	}
	s.live.mu.Lock()
	if s.live.shells == nil {
		s.live.shells = map[guid.ID]*Shell{}
	}
	s.live.shells[shell.ID] = shell
	s.live.mu.Unlock()
	go shell.run()
	return shell, nil
}

// awaitStart waits until the node has started the process, or has refused to.
func (sh *Shell) awaitStart(ctx context.Context) error {
	timer := time.NewTimer(shellStart)
	defer timer.Stop()
	select {
	case frame, more := <-sh.stream.frames:
		sh.take(frame, more)
	case <-timer.C:
		sh.end(ShellEnd{Reason: LiveNodeAway, Message: fmt.Sprintf("node %s has not started it within %v", sh.stream.node, shellStart)})
	case <-sh.stream.ended:
		sh.take(nil, false)
	case <-ctx.Done():
		sh.end(ShellEnd{Reason: LiveTerminated, Message: "its user did not wait"})
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.finish != nil {
		return &LiveError{sh.finish.Reason, sh.finish.Message}
	}
	return nil
}

// opened and closed are what the audit has about a shell. The environment is not part of it: it holds tokens.
func (sh *Shell) opened(request *ShellRequest) []byte {
	record := map[string]any{"shell_id": sh.ID.String(), "state": "opened", "terminal": request.Terminal}
	switch {
	case len(request.Arguments) > 0:
		record["arguments"] = request.Arguments
	case request.Command != "":
		record["command"] = request.Command
	}
	return mustJSON(record)
}

func (sh *Shell) closed() []byte {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	end := sh.finish
	record := map[string]any{
		"shell_id": sh.ID.String(), "state": "closed", "reason": string(end.Reason), "duration_ms": sh.over.Sub(sh.began).Milliseconds(),
	}
	if end.Reason == LiveExited {
		record["exit_code"], record["signal"] = end.ExitCode, end.Signal
	}
	return mustJSON(record)
}

// Shell returns a shell, also one that has ended a short while ago.
func (s *Server) Shell(id guid.ID) (*Shell, bool) {
	s.live.mu.Lock()
	defer s.live.mu.Unlock()
	shell, found := s.live.shells[id]
	return shell, found
}

// run takes what the node sends until the shell ends.
func (sh *Shell) run() {
	look := time.NewTicker(shellLook)
	defer look.Stop()
	for {
		frames := sh.stream.frames
		sh.mu.Lock()
		changed, isFull, isOver := sh.changed, sh.last-sh.first >= maxShellOutput, sh.finish != nil
		sh.mu.Unlock()
		switch {
		case isOver:
			sh.leave()
			return
		case isFull:
			frames = nil // the node waits until the user has taken some
		}
		select {
		case frame, more := <-frames:
			sh.take(frame, more)
		case now := <-look.C:
			sh.look(now)
		case <-changed:
		}
	}
}

// change changes the state of the shell and wakes those who wait for that.
func (sh *Shell) change(f func()) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	f()
	close(sh.changed)
	sh.changed = make(chan struct{})
}

// end records why the shell ends. It reports whether this is the first reason, which counts.
func (sh *Shell) end(end ShellEnd) (isFirst bool) {
	sh.change(func() {
		if isFirst = sh.finish == nil; isFirst {
			sh.finish, sh.over = &end, time.Now()
		}
	})
	return isFirst
}

// take handles a frame of the node.
func (sh *Shell) take(frame *nodev1.NodeFrame, more bool) {
	switch end := frame.GetEnd(); {
	case !more:
		reason := sh.stream.closedFor()
		if reason == "" {
			reason = LiveNodeAway
		}
		sh.end(ShellEnd{Reason: reason, Message: fmt.Sprintf("the connection to node %s broke off", sh.stream.node)})
	case end != nil:
		sh.end(ShellEnd{Reason: reasonOf(end), Message: end.GetMessage(), ExitCode: end.GetExitCode(), Signal: end.GetSignal()})
	case frame.GetOutput() != nil:
		sh.change(func() {
			sh.stirred = time.Now()
			sh.output = append(sh.output, shellOutput{frame.GetOutput().GetData(), frame.GetOutput().GetStderr()})
			sh.last += int64(len(frame.GetOutput().GetData()))
		})
	case frame.GetConsumed() > 0:
		sh.change(func() { sh.consumed = max(sh.consumed, min(frame.GetConsumed(), sh.accepted)) })
	}
}

// look ends a shell that nobody uses.
func (sh *Shell) look(now time.Time) {
	sh.mu.Lock()
	silent, alone := now.Sub(sh.stirred), now.Sub(sh.asked)
	sh.mu.Unlock()
	switch {
	case silent > sh.idle:
		sh.end(ShellEnd{Reason: LiveIdle, Message: fmt.Sprintf("nobody typed and nothing was written for %v", sh.idle)})
	case alone > shellAbandoned:
		sh.end(ShellEnd{Reason: LiveAbandoned, Message: fmt.Sprintf("nobody asked for its output for %v", shellAbandoned)})
	}
}

// leave ends the process if it still runs, adds the end to the audit, and forgets the shell after a while.
func (sh *Shell) leave() {
	sh.mu.Lock()
	end := sh.finish
	sh.mu.Unlock()
	sh.stream.send(&nodev1.SchedulerFrame{Terminate: true})
	sh.stream.close(end.Reason)
	board := &sh.server.live
	if end.Reason != LiveTakeover { // otherwise the term adds it to its last rows
		sh.auditEnd()
	}
	time.AfterFunc(shellKept, func() {
		board.mu.Lock()
		defer board.mu.Unlock()
		delete(board.shells, sh.ID)
	})
}

// auditEnd adds the end of the shell to the audit.
func (sh *Shell) auditEnd() {
	ctx, cancel := context.WithTimeout(context.Background(), auditPatience)
	defer cancel()
	_, err := ask(ctx, sh.server, func(t *term) (struct{}, error) {
		t.audit(sh.who, nil, sh.closed())
		return struct{}{}, nil
	})
	if err != nil {
		sh.server.log.Warn("the end of a shell is not in the audit", "job", sh.Job, "shell", sh.ID, "user", sh.User, "error", err)
	}
}

// auditShells adds the ends of the shells that ended with a term to the rows: at its end, or when this server leads
// again.
func (t *term) auditShells() {
	board := &t.server.live
	board.mu.Lock()
	shells := board.unaudited
	board.unaudited = nil
	board.mu.Unlock()
	for _, shell := range shells {
		t.audit(shell.who, nil, shell.closed())
	}
}

// jobEnded ends the shells of a job, unless its node does so first.
func (b *liveBoard) jobEnded(job core.JobID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, shell := range b.shells { // the order does not matter
		if shell.stream.job == job {
			time.AfterFunc(jobEndGrace, func() { shell.end(ShellEnd{Reason: LiveJobEnded, Message: "the job has ended"}) })
		}
	}
}

// Type passes input to the shell, and the size of its terminal if it has changed. offset is where in the whole input
// the keys begin: what the shell already has of them is skipped. It returns the offset up to which input was taken; a
// shell that does not read takes no more.
func (sh *Shell) Type(keys []byte, offset int64, height, width uint32, isLast bool) (taken int64) {
	frame := &nodev1.SchedulerFrame{CloseInput: isLast}
	sh.change(func() {
		sh.asked = time.Now()
		if len(keys) > 0 && offset <= sh.accepted {
			known := min(sh.accepted-offset, int64(len(keys)))
			room := max(maxShellInput-(sh.accepted-sh.consumed), 0)
			frame.Input = keys[known:][:min(room, int64(len(keys))-known)]
			sh.accepted += int64(len(frame.Input))
			sh.stirred = sh.asked
		}
		if height > 0 && width > 0 && (height != sh.height || width != sh.width) {
			sh.height, sh.width, frame.Height, frame.Width = height, width, height, width
		}
		frame.CloseInput = isLast && (len(keys) == 0 || offset+int64(len(keys)) <= sh.accepted)
		taken = sh.accepted
	})
	if len(frame.Input) > 0 || frame.CloseInput || frame.Height > 0 {
		sh.stream.send(frame)
	}
	return taken
}

// ShellOutput is what a shell has written since an offset.
type ShellOutput struct {
	Output, Errors []byte
	Next           int64     // the offset to ask for next
	End            *ShellEnd // nil while it runs, or has written more
}

// Read returns what the shell has written from an offset on, and forgets what was before it. A negative offset means
// what has not been returned yet. It waits until there is something, or the shell has ended.
func (sh *Shell) Read(ctx context.Context, offset int64, wait time.Duration) ShellOutput {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		sh.mu.Lock()
		sh.asked = time.Now()
		out, changed := sh.collect(offset), sh.changed
		finish := sh.finish
		sh.mu.Unlock()
		if len(out.Output) > 0 || len(out.Errors) > 0 {
			return out
		}
		if out.End = finish; finish != nil {
			return out
		}
		select {
		case <-changed:
		case <-timer.C:
			return out
		case <-ctx.Done():
			return out
		}
	}
}

// collect returns the output from an offset on.
func (sh *Shell) collect(offset int64) ShellOutput {
	if offset < 0 {
		offset = sh.given
	}
	before := len(sh.output)
	for len(sh.output) > 0 && sh.first+int64(len(sh.output[0].data)) <= offset {
		sh.first += int64(len(sh.output[0].data))
		sh.output = sh.output[1:]
	}
	if len(sh.output) < before { // there is room for more
		close(sh.changed)
		sh.changed = make(chan struct{})
	}
	out := ShellOutput{Next: max(offset, sh.first)}
	at := sh.first
	for _, o := range sh.output {
		data := o.data[min(max(out.Next-at, 0), int64(len(o.data))):]
		at += int64(len(o.data))
		if o.stderr {
			out.Errors = append(out.Errors, data...)
		} else {
			out.Output = append(out.Output, data...)
		}
		out.Next = max(out.Next, at)
	}
	sh.given = max(sh.given, out.Next)
	return out
}

// Terminate ends the shell because its user wants that.
func (sh *Shell) Terminate() {
	sh.end(ShellEnd{Reason: LiveTerminated, Message: "the user ended it"})
}
