package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/klog/v2"

	"github.com/weirhq/weir/internal/node/jobinit"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/node/picture"
)

// Limits on live connections.
const (
	// maxStreams is how many live connections the driver has at a time, maxShells how many shells one job has.
	maxStreams = 512
	maxShells  = 4
	// reopenPause is the pause before a log is opened again that ended before its job did.
	reopenPause = 500 * time.Millisecond
	// endPatience is how long the end of a shell that nobody wants may take.
	endPatience = 10 * time.Second
	// endInput ends the input of a terminal.
	endInput = '\x04'
)

// lives are the live connections of a driver. The zero value is ready to use.
type lives struct {
	mutex  sync.Mutex
	count  int
	shells map[uint64]int // by job
	named  atomic.Uint64
}

// enter takes a place. It returns why there is none.
func (l *lives) enter(job uint64, shell bool) (why string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	switch {
	case l.count >= maxStreams:
		return fmt.Sprintf("the driver of Kubernetes has %d live connections, which is the limit", maxStreams)
	case shell && l.shells[job] >= maxShells:
		return fmt.Sprintf("the job has %d shells, which is the limit", maxShells)
	}
	if l.shells == nil {
		l.shells = map[uint64]int{}
	}
	l.count++
	if shell {
		l.shells[job]++
	}
	return ""
}

// leave gives a place back.
func (l *lives) leave(job uint64, shell bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.count--
	if shell {
		if l.shells[job]--; l.shells[job] == 0 {
			delete(l.shells, job)
		}
	}
}

// serve opens a live connection to the scheduler and connects it with the pod of a job.
func (t *term) serve(s *picture.Stream) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.ctx)) // the last frame is sent when the term ends
	defer cancel()
	opened, err := t.Caller.Stream(ctx, &nodev1.NodeFrame{NodeName: s.Node, Stream: s.Order.GetStream()})
	if err != nil {
		t.Log.Warn("a live connection cannot be opened", "job", s.Order.GetNumber(), "error", err)
		return
	}
	live := nodeproto.NewLive(ctx, opened)
	defer live.Finish()
	if s.Refusal != nil {
		live.EndWith(s.Refusal)
		return
	}
	job, shell := s.Order.GetNumber(), s.Order.GetShell()
	if why := t.lives.enter(job, shell != nil); why != "" {
		live.End(nodev1.StreamEndReason_STREAM_END_REASON_TOO_MANY, why)
		return
	}
	defer t.lives.leave(job, shell != nil)
	if shell != nil {
		t.serveShell(live, s, shell)
		return
	}
	t.serveOutput(live, s, s.Order.GetOutput())
}

// until returns a context that ends with the term, or when the scheduler wants no more of a connection.
func (t *term) until(live *nodeproto.Live) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.ctx)
	go func() {
		select {
		case <-live.Over:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// stopping ends a connection because the term does.
func stopping(live *nodeproto.Live) {
	live.End(nodev1.StreamEndReason_STREAM_END_REASON_STOPPING, "this scheduler no longer drives Kubernetes")
}

// serveOutput sends the output of a job from an offset on, as it is written, until its pod has ended. The first piece is
// sent at once, even if it is empty. Kubernetes keeps both streams in one log, which it can read only from its start.
func (t *term) serveOutput(live *nodeproto.Live, s *picture.Stream, from *nodev1.FollowOutput) {
	ctx, cancel := t.until(live)
	defer cancel()
	if from.GetStream() == nodev1.Stream_STREAM_STDOUT {
		live.End(nodev1.StreamEndReason_STREAM_END_REASON_UNSUPPORTED, "the log of a pod has both streams of its job: there is no separate standard output")
		return
	}
	pods := t.Client.CoreV1().Pods(s.Namespace)
	out := &follower{live: live, offset: max(from.GetOffset(), 0)}
	if !out.send(nil, false) {
		return
	}
	for {
		ended := hasEnded(ctx, t, s) // before the read: what it reads then is all
		stream, err := pods.GetLogs(s.Pod, &corev1.PodLogOptions{Container: picture.Container, Follow: !ended}).Stream(ctx)
		if err == nil {
			err = out.copy(stream)
			stream.Close()
		}
		switch {
		case t.ctx.Err() != nil:
			stopping(live)
			return
		case ctx.Err() != nil || errors.Is(err, errNobodyReads):
			return
		case apierrors.IsNotFound(err), ended && err == nil:
			out.send(nil, true)
			return
		case apierrors.IsForbidden(err):
			live.End(nodev1.StreamEndReason_STREAM_END_REASON_FAILED, err.Error())
			return
		}
		select { // the kubelet or the API server ended the connection, or the job has ended
		case <-ctx.Done():
		case <-time.After(reopenPause):
		}
	}
}

// hasEnded reports whether the container of a job has ended.
func hasEnded(ctx context.Context, t *term, s *picture.Stream) bool {
	pod, err := t.Client.CoreV1().Pods(s.Namespace).Get(ctx, s.Pod, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && picture.HasEnded(pod)
}

// errNobodyReads means that the scheduler has ended the connection.
var errNobodyReads = errors.New("nobody reads the output any more")

// follower sends a log that is read from its start, perhaps more than once, from an offset on.
type follower struct {
	live   *nodeproto.Live
	offset int64 // of the next byte to send
}

// copy sends what a log has after the offset.
func (f *follower) copy(log io.Reader) error {
	buffer := make([]byte, 32<<10)
	for at := int64(0); ; {
		n, err := log.Read(buffer)
		data := buffer[:n]
		if skip := f.offset - at; skip > 0 {
			data = data[min(skip, int64(n)):]
		}
		at += int64(n)
		if len(data) > 0 && !f.send(data, false) {
			return errNobodyReads
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// send sends a piece. It reports whether somebody takes it.
func (f *follower) send(data []byte, ended bool) bool {
	piece := &nodev1.OutputPiece{Offset: f.offset, Data: bytes.Clone(data), Size: f.offset + int64(len(data)), Ended: ended}
	f.offset += int64(len(data))
	return f.live.Send(&nodev1.NodeFrame{Frame: &nodev1.NodeFrame_Piece{Piece: piece}})
}

// Exec runs a command in the container of a job until it ends.
type Exec func(ctx context.Context, namespace, pod string, command []string, streams remotecommand.StreamOptions) error

// ExecWith returns how commands run in containers of a cluster.
func ExecWith(config *rest.Config) Exec {
	return func(ctx context.Context, namespace, pod string, command []string, streams remotecommand.StreamOptions) error {
		own := rest.CopyConfig(config)
		own.APIPath, own.GroupVersion, own.NegotiatedSerializer = "/api", &corev1.SchemeGroupVersion, scheme.Codecs.WithoutConversion()
		client, err := rest.RESTClientFor(own)
		if err != nil {
			return err
		}
		address := client.Get().Resource("pods").Namespace(namespace).Name(pod).SubResource("exec").VersionedParams(&corev1.PodExecOptions{
			Container: picture.Container, Command: command, Stdin: streams.Stdin != nil, Stdout: streams.Stdout != nil,
			Stderr: streams.Stderr != nil, TTY: streams.Tty,
		}, scheme.ParameterCodec).URL()
		executor, err := remotecommand.NewWebSocketExecutor(own, "GET", address.String())
		if err != nil {
			return err
		}
		return executor.StreamWithContext(klog.NewContext(ctx, klog.Logger{}), streams) // the outcome says what went wrong
	}
}

// serveShell runs a process in the container of a job and connects it with the scheduler.
func (t *term) serveShell(live *nodeproto.Live, s *picture.Stream, wanted *nodev1.OpenShell) {
	if t.Exec == nil {
		live.End(nodev1.StreamEndReason_STREAM_END_REASON_UNSUPPORTED, "this driver of Kubernetes has no shells")
		return
	}
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	id := fmt.Sprintf("%d-%d", t.epoch, t.lives.named.Add(1))
	in, keys := io.Pipe()
	defer keys.Close()
	sizes := make(sizeQueue, 1)
	sizes.put(wanted.GetHeight(), wanted.GetWidth())
	out := &shellOutput{live: live}
	streams := remotecommand.StreamOptions{Stdin: in, Stdout: out, Tty: wanted.GetTerminal()}
	if wanted.GetTerminal() {
		streams.TerminalSizeQueue = sizes
	} else {
		streams.Stderr = &shellOutput{live: live, isStderr: true, begun: true}
	}
	unwanted := make(chan struct{})
	go func() {
		defer close(unwanted)
		defer cancel()
		takeInput(ctx, live, keys, sizes, wanted.GetTerminal())
	}()
	err := t.Exec(ctx, s.Namespace, s.Pod, picture.SessionCommand(id, wanted), streams)
	in.Close()
	var exited exec.CodeExitError
	hasExited := err == nil || errors.As(err, &exited)
	if !hasExited && out.hasBegun() {
		t.endShell(s, id)
	}
	select {
	case <-unwanted:
		if t.ctx.Err() == nil {
			return
		}
	default:
	}
	switch {
	case hasExited && out.hasBegun():
		live.EndWith(&nodev1.StreamEnd{Reason: nodev1.StreamEndReason_STREAM_END_REASON_EXITED, ExitCode: int32(exited.Code)})
	case t.ctx.Err() != nil:
		stopping(live)
	case hasExited:
		live.End(nodev1.StreamEndReason_STREAM_END_REASON_UNSUPPORTED, fmt.Sprintf("the init of the pod ended with code %d: it may be of a version that has no shells", exited.Code))
	case hasEnded(t.ctx, t, s):
		live.End(nodev1.StreamEndReason_STREAM_END_REASON_NO_JOB, "the pod of the job has ended")
	default:
		live.End(nodev1.StreamEndReason_STREAM_END_REASON_FAILED, err.Error())
	}
}

// endShell ends the processes of a shell that nobody is connected with: container runtimes leave them running.
func (t *term) endShell(s *picture.Stream, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), endPatience)
	defer cancel()
	err := t.Exec(ctx, s.Namespace, s.Pod, picture.SessionEnd(id), remotecommand.StreamOptions{Stdout: io.Discard, Stderr: io.Discard})
	if err != nil {
		t.Log.Debug("the processes of a shell may still run in its pod", "pod", s.Pod, "error", err)
	}
}

// shellOutput sends what a shell writes. The first byte on its standard output says that it runs.
type shellOutput struct {
	live     *nodeproto.Live
	isStderr bool

	mutex sync.Mutex
	begun bool
}

// hasBegun reports whether the shell has run.
func (o *shellOutput) hasBegun() bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.begun
}

// Write sends a piece.
func (o *shellOutput) Write(data []byte) (int, error) {
	n := len(data)
	o.mutex.Lock()
	begins := !o.begun && n > 0 && data[0] == jobinit.SessionReady
	o.begun = o.begun || begins
	o.mutex.Unlock()
	if begins {
		o.live.Output(nil, false) // it has started
		if data = data[1:]; len(data) == 0 {
			return n, nil
		}
	}
	for len(data) > 0 {
		piece := data[:min(len(data), nodeproto.PieceSize)]
		if !o.live.Output(piece, o.isStderr) {
			return 0, errNobodyReads
		}
		data = data[len(piece):]
	}
	return n, nil
}

// sizeQueue holds the newest size of a terminal.
type sizeQueue chan remotecommand.TerminalSize

func (q sizeQueue) put(height, width uint32) {
	if height == 0 || width == 0 {
		return
	}
	select {
	case <-q:
	default:
	}
	q <- remotecommand.TerminalSize{Height: uint16(min(height, 1<<15)), Width: uint16(min(width, 1<<15))}
}

// Next returns the next size, nil when there is none any more.
func (q sizeQueue) Next() *remotecommand.TerminalSize {
	size, more := <-q
	if !more {
		return nil
	}
	return &size
}

// takeInput passes on what the scheduler sends, until it ends the shell, or ctx is cancelled.
func takeInput(ctx context.Context, live *nodeproto.Live, keys *io.PipeWriter, sizes sizeQueue, terminal bool) {
	defer close(sizes)
	defer keys.Close()
	var consumed int64
	for {
		var frame *nodev1.SchedulerFrame
		select {
		case frame = <-live.Frames:
		case <-live.Over:
			return
		case <-ctx.Done():
			return
		}
		if frame.GetTerminate() {
			return
		}
		sizes.put(frame.GetHeight(), frame.GetWidth())
		if data := frame.GetInput(); len(data) > 0 {
			_, _ = keys.Write(data) // a shell that reads no more takes the rest as well
			consumed += int64(len(data))
			live.Send(&nodev1.NodeFrame{Frame: &nodev1.NodeFrame_Consumed{Consumed: consumed}})
		}
		if frame.GetCloseInput() {
			if terminal {
				_, _ = keys.Write([]byte{endInput})
			} else {
				_ = keys.Close()
			}
		}
	}
}
