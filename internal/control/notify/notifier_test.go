package notify

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/test/expected"
)

// book is a log and the positions in it.
type book struct {
	mutex     sync.Mutex
	events    []store.Event
	positions map[string][2]int64
}

func (b *book) add(types ...string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, typ := range types {
		number := int64(len(b.events) + 1)
		b.events = append(b.events, store.Event{ID: number, Time: time.Now().UTC(), Type: typ, Tree: "main", Pool: "pool-" + strconv.FormatInt(number, 10)})
	}
}

func (b *book) EventsAfter(_ context.Context, types []string, position int64, limit int) (list []store.Event, more bool, _ error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, e := range b.events {
		if e.ID > position && slices.Contains(types, e.Type) {
			if len(list) == limit {
				return list, true, nil
			}
			list = append(list, e)
		}
	}
	return list, false, nil
}

func (b *book) LastEvent(context.Context) (int64, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return int64(len(b.events)), nil
}

func (b *book) Notified(_ context.Context, target string) (int64, int64, bool, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	at, known := b.positions[target]
	return at[0], at[1], known, nil
}

func (b *book) SaveNotified(ctx context.Context, target string, position, dropped int64) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.positions[target] = [2]int64{position, dropped}
	return nil
}

func (b *book) position(target string) int64 {
	at, _, _, _ := b.Notified(context.Background(), target)
	return at
}

// receiver is a webhook that records what it gets.
type receiver struct {
	*httptest.Server
	mutex    sync.Mutex
	messages []Message
	bodies   [][]byte
	headers  []http.Header
	// answer returns the status of an answer, after the message is recorded.
	answer func(number int) int
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		var m Message
		if err := json.Unmarshal(body, &m); err != nil {
			t.Error(err)
		}
		r.mutex.Lock()
		r.messages, r.bodies, r.headers = append(r.messages, m), append(r.bodies, body), append(r.headers, request.Header.Clone())
		number, answer := len(r.messages), r.answer
		r.mutex.Unlock()
		if answer != nil {
			w.WriteHeader(answer(number))
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// ids are all events that were received, in order.
func (r *receiver) ids() (list []int64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, m := range r.messages {
		list = append(list, ids(m)...)
	}
	return list
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

var quiet = slog.New(slog.DiscardHandler)

// start runs a notifier until the returned function is called.
func start(n *Notifier) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { n.Run(ctx) })
	return func() { cancel(); done.Wait() }
}

// A leader that dies between a delivery and the next position delivers again, under the same numbers; nothing is lost.
func TestNothingIsLostWhenALeaderIsKilled(t *testing.T) {
	b := &book{positions: map[string][2]int64{"chat": {}}}
	r := newReceiver(t)
	target := &Target{Name: "chat", URL: r.URL, Allow: loopback}
	b.add("operation_completed", "operation_failed")
	killed := make(chan struct{})
	r.answer = func(number int) int {
		if number == 2 { // the second message arrives, and its sender never learns of it
			close(killed)
			<-time.After(50 * time.Millisecond)
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	}
	stop := start(New([]*Target{target}, everything, b, b, quiet))
	<-killed
	stop()
	if at := b.position("chat"); at != 1 {
		t.Fatalf("the position is %d, want 1: only the first delivery was acknowledged", at)
	}
	b.add("operation_aborted") // what the dying leader committed
	r.mutex.Lock()
	r.answer = nil
	r.mutex.Unlock()
	next := New([]*Target{target}, everything, b, b, quiet)
	stop = start(next)
	defer stop()
	if !expected.Soon(func() bool { return b.position("chat") == 3 }) {
		t.Fatalf("the position is %d, want 3", b.position("chat"))
	}
	if got := r.ids(); !slices.Equal(got, []int64{1, 2, 2, 3}) {
		t.Errorf("received %v, want 1, 2 twice, 3", got)
	}
	if s := next.States()[0]; s.Delivered != 2 || s.Failed != 0 || s.Error != "" || s.Last.IsZero() {
		t.Errorf("%+v", s)
	}
}

func TestATargetThatDoesNotAnswerDelaysNoOther(t *testing.T) {
	b := &book{positions: map[string][2]int64{"chat": {}, "dead": {}}}
	r := newReceiver(t)
	hangs := make(chan struct{})
	dead := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hangs }))
	t.Cleanup(func() { close(hangs); dead.Close() })
	rules := []Rule{{Targets: []string{"chat", "dead"}}}
	n := New([]*Target{{Name: "dead", URL: dead.URL, Allow: loopback}, {Name: "chat", URL: r.URL, Allow: loopback}}, rules, b, b, quiet)
	b.add("operation_completed", "scheduler_started")
	defer start(n)()
	if !expected.Soon(func() bool { return b.position("chat") == 2 }) {
		t.Errorf("the other target has %v", r.ids())
	}
	if at := b.position("dead"); at != 0 {
		t.Errorf("what a dead target did not get counts as delivered up to %d", at)
	}
}

func TestANewTargetIsToldWhatHappensFromNowOn(t *testing.T) {
	b := &book{positions: map[string][2]int64{}}
	r := newReceiver(t)
	b.add("operation_completed", "operation_completed")
	defer start(New([]*Target{{Name: "chat", URL: r.URL, Allow: loopback}}, everything, b, b, quiet))()
	if !expected.Soon(func() bool { _, _, known, _ := b.Notified(t.Context(), "chat"); return known }) {
		t.Fatal("the target gets no position")
	}
	b.add("job_started", "operation_completed")
	if !expected.Soon(func() bool { return len(r.ids()) > 0 }) || r.ids()[0] != 4 {
		t.Errorf("received %v, want 4", r.ids())
	}
}

func TestMessagesAreSigned(t *testing.T) {
	// printf '1700000000.{"kind":"test"}' | openssl dgst -sha256 -hmac secret
	const want = "sha256=7eba336b995337d92663d2f31b99d1a0ec66b3c69f67eb972e4d5152c7855e66"
	if got := Sign([]byte("secret"), 1700000000, []byte(`{"kind":"test"}`)); got != want {
		t.Errorf("the signature is %s, want %s", got, want)
	}
	r := newReceiver(t)
	target := &Target{Name: "chat", URL: r.URL, Allow: loopback, Secret: []byte("secret"), Header: http.Header{"Authorization": {"Bearer x"}}}
	n := New([]*Target{target}, nil, nil, nil, quiet)
	if err := n.Test(t.Context(), "chat", "ann"); err != nil {
		t.Fatal(err)
	}
	header := r.headers[0]
	seconds, err := strconv.ParseInt(header.Get(TimeHeader), 10, 64)
	if err != nil || header.Get(SignatureHeader) != Sign([]byte("secret"), seconds, r.bodies[0]) {
		t.Errorf("%v: %v", err, header)
	}
	if header.Get("Authorization") != "Bearer x" || header.Get("Content-Type") != "application/json" {
		t.Errorf("%v", header)
	}
	if m := r.messages[0]; m.Kind != test || m.Notices[0].User != "ann" {
		t.Errorf("%+v", m)
	}
	if err := n.Test(t.Context(), "chta", "ann"); !errors.Is(err, ErrNoTarget) || !strings.Contains(err.Error(), "chat") {
		t.Error(err)
	}
}

func TestWebhooksDoNotReachTheSchedulersOwnMachine(t *testing.T) {
	r := newReceiver(t)
	port := r.URL[strings.LastIndexByte(r.URL, ':'):]
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "127.1.2.3", "0.0.0.0", "[::1]"} {
		n := New([]*Target{{Name: "chat", URL: "http://" + host + port}}, nil, nil, nil, quiet)
		if err := n.Test(t.Context(), "chat", ""); err == nil {
			t.Errorf("%s: delivered", host)
		}
	}
	for address, refused := range map[string]bool{
		"127.0.0.1:80": true, "[::1]:80": true, "169.254.169.254:80": true, "[fe80::1]:80": true, "0.0.0.0:80": true, "[::]:80": true,
		"[::ffff:169.254.169.254]:80": true, "224.0.0.1:80": true, "10.0.0.1:80": false, "192.0.2.1:443": false, "[2001:db8::1]:443": false,
	} {
		if err := (&Target{}).permits(address); (err != nil) != refused || refused && !errors.Is(err, ErrForbiddenAddress) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if len(r.ids()) > 0 || len(r.messages) > 0 {
		t.Error("a message reached this machine")
	}
	// A redirect is an answer, not an order.
	away := httptest.NewServer(http.RedirectHandler(r.URL, http.StatusTemporaryRedirect))
	defer away.Close()
	n := New([]*Target{{Name: "chat", URL: away.URL, Allow: loopback}}, nil, nil, nil, quiet)
	if err := n.Test(t.Context(), "chat", ""); err == nil || !strings.Contains(err.Error(), "307") || len(r.messages) > 0 {
		t.Errorf("a redirect: %v", err)
	}
}

func TestCommandsReadMessages(t *testing.T) {
	file := t.TempDir() + "/message"
	n := New([]*Target{
		{Name: "write", Command: []string{"/bin/sh", "-c", "cat > " + file}},
		{Name: "fail", Command: []string{"/bin/sh", "-c", "echo no such room >&2; exit 3"}},
		{Name: "missing", Command: []string{"/no/such/program"}},
		{Name: "look", Command: []string{"/bin/sh", "-c", `test -z "$HOME$WEIR_SECRET"`}},
	}, nil, nil, nil, quiet)
	t.Setenv("WEIR_SECRET", "x")
	if err := n.Test(t.Context(), "write", "ann"); err != nil {
		t.Fatal(err)
	}
	if text := expected.Read(t, file); !strings.Contains(text, `"kind":"test"`) || !strings.Contains(text, `"user":"ann"`) {
		t.Error(text)
	}
	if err := n.Test(t.Context(), "fail", ""); err == nil || !strings.Contains(err.Error(), "no such room") || !strings.Contains(err.Error(), "exit status 3") {
		t.Error(err)
	}
	if err := n.Test(t.Context(), "missing", ""); err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Error(err)
	}
	if err := n.Test(t.Context(), "look", ""); err != nil {
		t.Errorf("a command sees the scheduler's environment: %v", err)
	}
}
