package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weirhq/weir/internal/node/jobinit"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/node/picture"
	"github.com/weirhq/weir/test/expected"
	"github.com/weirhq/weir/test/fakescheduler"
)

// TestMain makes this program the init of a session when it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case jobinit.SessionFlag:
			os.Exit(jobinit.Session(os.Args[2:]))
		case jobinit.EndSessionFlag:
			os.Exit(jobinit.EndSession(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

// container pretends to be the API server with the one container of a job. Commands really run, on this machine.
type container struct {
	*httptest.Server
	ended atomic.Bool
	cut   atomic.Int32 // how many followers are cut off before the end
	sizes chan string

	mutex sync.Mutex
	text  string
	news  chan struct{}
}

func newContainer(t *testing.T) *container {
	c := &container{sizes: make(chan string, 10), news: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/jobs/pods/p", func(w http.ResponseWriter, _ *http.Request) {
		pod := corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		if c.ended.Load() {
			pod.Status.Phase = corev1.PodSucceeded
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(pod) // the client sees what is wrong
	})
	mux.HandleFunc("GET /api/v1/namespaces/jobs/pods/p/log", c.log)
	mux.HandleFunc("GET /api/v1/namespaces/jobs/pods/p/exec", c.exec)
	c.Server = httptest.NewServer(mux)
	t.Cleanup(c.Close)
	return c
}

func (c *container) write(text string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.text += text
	close(c.news)
	c.news = make(chan struct{})
}

func (c *container) log(w http.ResponseWriter, r *http.Request) {
	sent := 0
	for {
		c.mutex.Lock()
		text, news := c.text, c.news
		c.mutex.Unlock()
		fmt.Fprint(w, text[sent:])
		sent = len(text)
		w.(http.Flusher).Flush()
		if r.URL.Query().Get("follow") != "true" || c.ended.Load() || c.cut.Add(-1) >= 0 {
			return
		}
		select {
		case <-news:
		case <-r.Context().Done():
			return
		}
	}
}

// exec speaks the fifth version of the protocol: the first byte of a message is its channel.
func (c *container) exec(w http.ResponseWriter, r *http.Request) {
	upgrader := websocket.Upgrader{Subprotocols: []string{"v5.channel.k8s.io"}}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer conn.Close()
	var mutex sync.Mutex
	send := func(channel byte, data []byte) {
		mutex.Lock()
		defer mutex.Unlock()
		_ = conn.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, data...)) // the client may be gone
	}
	command := exec.Command("/proc/self/exe", r.URL.Query()["command"][1:]...)
	in, err := command.StdinPipe()
	if err != nil {
		return
	}
	command.Stdout, command.Stderr = channelWriter{1, send}, channelWriter{2, send}
	if err := command.Start(); err != nil {
		return
	}
	go func() {
		for {
			_, message, err := conn.ReadMessage()
			switch {
			case err != nil: // as container runtimes do, the process is left alone
				return
			case message[0] == 0:
				_, _ = in.Write(message[1:])
			case message[0] == 4:
				c.sizes <- strings.TrimSpace(string(message[1:]))
			case message[0] == 255 && message[1] == 0:
				in.Close()
			}
		}
	}()
	status := metav1.Status{Status: metav1.StatusSuccess}
	var failed *exec.ExitError
	if err := command.Wait(); errors.As(err, &failed) {
		status = metav1.Status{Status: metav1.StatusFailure, Reason: "NonZeroExitCode", Details: &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Type: "ExitCode", Message: fmt.Sprint(failed.ExitCode())}},
		}}
	}
	text, _ := json.Marshal(status) // it can be written
	send(3, text)
	_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
}

type channelWriter struct {
	channel byte
	send    func(byte, []byte)
}

func (w channelWriter) Write(data []byte) (int, error) {
	w.send(w.channel, data)
	return len(data), nil
}

// far is the scheduler's end of a live connection.
type far struct {
	*fakescheduler.Scheduler
	streams chan nodeproto.SchedulerStream
	over    chan struct{}
}

func (f *far) Stream(ctx context.Context, _ nodeproto.Peer, _ *nodev1.NodeFrame, stream nodeproto.SchedulerStream) error {
	f.streams <- stream
	select {
	case <-f.over:
	case <-ctx.Done():
	}
	return nil
}

type farCaller struct {
	Caller
	far *far
}

func (c farCaller) Stream(ctx context.Context, first *nodev1.NodeFrame) (nodeproto.NodeStream, error) {
	return nodeproto.OpenLocal(ctx, c.far, nodeproto.Peer{}, first), nil
}

// open serves an order on a container and returns the scheduler's end. Closing over ends the connection.
func (c *container) open(t *testing.T, order *nodev1.OpenStreamOrder) (stream nodeproto.SchedulerStream, over chan struct{}, served chan struct{}) {
	t.Helper()
	config := &rest.Config{Host: c.URL}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	f := &far{streams: make(chan nodeproto.SchedulerStream, 1), over: make(chan struct{})}
	on := &term{ctx: t.Context(), Driver: &Driver{Options: Options{Client: client, Caller: farCaller{far: f}, Exec: ExecWith(config), Log: slog.New(slog.DiscardHandler)}}}
	served = make(chan struct{})
	go func() {
		defer close(served)
		on.serve(&picture.Stream{Order: order, Node: "n", Namespace: "jobs", Pod: "p"})
	}()
	return <-f.streams, f.over, served
}

// next returns the next frame of the node.
func next(t *testing.T, stream nodeproto.SchedulerStream) *nodev1.NodeFrame {
	t.Helper()
	frame, err := stream.Receive()
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

func follow(offset int64) *nodev1.OpenStreamOrder {
	return &nodev1.OpenStreamOrder{What: &nodev1.OpenStreamOrder_Output{Output: &nodev1.FollowOutput{Stream: nodev1.Stream_STREAM_STDERR, Offset: offset}}}
}

// The output of a pod arrives as it is written, from any offset, once, although connections to the log are cut.
func TestTheOutputOfAPodIsFollowedToItsEnd(t *testing.T) {
	for _, offset := range []int64{0, 4} {
		c := newContainer(t)
		c.cut.Store(1)
		c.write("first ")
		stream, over, served := c.open(t, follow(offset))
		if piece := next(t, stream).GetPiece(); piece == nil || len(piece.GetData()) > 0 || piece.GetOffset() != offset {
			t.Errorf("the first piece: %v", piece)
		}
		var text []byte
		for ended := false; !ended; {
			piece := next(t, stream).GetPiece()
			if piece == nil || piece.GetOffset() != offset+int64(len(text)) {
				t.Fatalf("%v after %q", piece, text)
			}
			text, ended = append(text, piece.GetData()...), piece.GetEnded()
			if bytes.HasSuffix(text, []byte("t ")) {
				c.write("second")
			} else if bytes.HasSuffix(text, []byte("second")) && !c.ended.Load() {
				c.ended.Store(true)
				c.write("")
			}
		}
		if string(text) != "first second"[offset:] {
			t.Errorf("from %d: %q", offset, text)
		}
		close(over)
		<-served
	}
}

func TestTheLogOfAPodHasNoSeparateStandardOutput(t *testing.T) {
	c := newContainer(t)
	order := follow(0)
	order.GetOutput().Stream = nodev1.Stream_STREAM_STDOUT
	stream, over, served := c.open(t, order)
	if end := next(t, stream).GetEnd(); end.GetReason() != nodev1.StreamEndReason_STREAM_END_REASON_UNSUPPORTED {
		t.Errorf("%v", end)
	}
	close(over)
	<-served
}

func shell(s *nodev1.OpenShell) *nodev1.OpenStreamOrder {
	return &nodev1.OpenStreamOrder{What: &nodev1.OpenStreamOrder_Shell{Shell: s}}
}

// shellFrames collects the frames of a shell until its end.
func shellFrames(t *testing.T, stream nodeproto.SchedulerStream) (out, errs string, consumed int64, end *nodev1.StreamEnd) {
	t.Helper()
	for end == nil {
		frame := next(t, stream)
		if frame.GetOutput().GetStderr() {
			errs += string(frame.GetOutput().GetData())
		} else {
			out += string(frame.GetOutput().GetData())
		}
		consumed, end = max(consumed, frame.GetConsumed()), frame.GetEnd()
	}
	return out, errs, consumed, end
}

func TestAShellRunsInThePodOfAJob(t *testing.T) {
	c := newContainer(t)
	stream, over, served := c.open(t, shell(&nodev1.OpenShell{
		Command: `read line; echo "$WORD $line"; echo no >&2; cat; exit 7`, Environment: []*nodev1.Variable{{Name: "WORD", Value: "got"}},
	}))
	if frame := next(t, stream); frame.GetOutput() == nil || len(frame.GetOutput().GetData()) > 0 {
		t.Errorf("the first frame says that the shell has started: %v", frame)
	}
	for _, frame := range []*nodev1.SchedulerFrame{{Input: []byte("it\n")}, {Input: []byte("rest")}, {CloseInput: true}} {
		if err := stream.Send(frame); err != nil {
			t.Fatal(err)
		}
	}
	out, errs, consumed, end := shellFrames(t, stream)
	if out != "got it\nrest" || errs != "no\n" || consumed != 7 || end.GetReason() != nodev1.StreamEndReason_STREAM_END_REASON_EXITED || end.GetExitCode() != 7 {
		t.Errorf("%q, %q, %d, %v", out, errs, consumed, end)
	}
	close(over)
	<-served
}

func TestATerminalInAPodFollowsTheSizeOfItsUsers(t *testing.T) {
	c := newContainer(t)
	stream, over, served := c.open(t, shell(&nodev1.OpenShell{Arguments: []string{"cat"}, Terminal: true, Height: 24, Width: 80}))
	next(t, stream)
	if size := <-c.sizes; size != `{"Width":80,"Height":24}` {
		t.Errorf("%s", size)
	}
	if err := stream.Send(&nodev1.SchedulerFrame{Height: 30, Width: 90, Input: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if size := <-c.sizes; size != `{"Width":90,"Height":30}` {
		t.Errorf("%s", size)
	}
	if err := stream.Send(&nodev1.SchedulerFrame{Terminate: true}); err != nil {
		t.Fatal(err)
	}
	close(over)
	<-served
}

// Container runtimes leave a process running whose connection is gone. Weir ends it.
func TestAShellThatNobodyWantsIsEndedWithItsProcesses(t *testing.T) {
	c := newContainer(t)
	stream, over, served := c.open(t, shell(&nodev1.OpenShell{Command: `sleep 4567 & echo $!; exec sleep 4567`}))
	text := ""
	for !strings.HasSuffix(text, "\n") {
		text += string(next(t, stream).GetOutput().GetData())
	}
	close(over)
	<-served
	if !expected.Soon(func() bool {
		_, err := os.Stat("/proc/" + strings.TrimSpace(text) + "/environ")
		return errors.Is(err, os.ErrNotExist) || isZombie(strings.TrimSpace(text))
	}) {
		t.Errorf("process %s still runs", text)
	}
}

func isZombie(pid string) bool {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && strings.Contains(string(text), ") Z ")
}

func TestAShellInAPodThatCannotRunSaysWhy(t *testing.T) {
	c := newContainer(t)
	stream, over, served := c.open(t, shell(&nodev1.OpenShell{Arguments: []string{"no-such-program-here"}}))
	_, errs, _, end := shellFrames(t, stream)
	if end.GetExitCode() != 127 || !strings.Contains(errs, "no such program") {
		t.Errorf("%q, %v", errs, end)
	}
	close(over)
	<-served
	c.Close()
	_, end2 := refusedShell(t, c)
	if end2.GetReason() != nodev1.StreamEndReason_STREAM_END_REASON_FAILED || end2.GetMessage() == "" {
		t.Errorf("without an API server: %v", end2)
	}
}

func refusedShell(t *testing.T, c *container) (string, *nodev1.StreamEnd) {
	t.Helper()
	stream, over, served := c.open(t, shell(&nodev1.OpenShell{Arguments: []string{"true"}}))
	out, _, _, end := shellFrames(t, stream)
	close(over)
	<-served
	return out, end
}

func TestLiveConnectionsToOneJobAreBounded(t *testing.T) {
	var l lives
	for range maxShells {
		if why := l.enter(1, true); why != "" {
			t.Fatal(why)
		}
	}
	if why := l.enter(1, true); !strings.Contains(why, "shells") {
		t.Errorf("%q", why)
	}
	if why := l.enter(2, true); why != "" {
		t.Error(why)
	}
	l.leave(1, true)
	if why := l.enter(1, true); why != "" {
		t.Error(why)
	}
}
