package gate

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// hasty makes callers wait for milliseconds where usually they wait for seconds.
var hasty = pace{patience: 50 * time.Millisecond, slowest: 1 << 40, linger: 20 * time.Millisecond}

func serve(t *testing.T, p pace, handler http.HandlerFunc) (address string) {
	t.Helper()
	s := httptest.NewServer(p.over(handler))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	connection, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	_ = connection.SetDeadline(time.Now().Add(time.Minute))
	return connection
}

// ends waits until the other end closes a connection, and returns what it said before.
func ends(t *testing.T, connection net.Conn) string {
	t.Helper()
	said, err := io.ReadAll(connection)
	if e, ok := err.(net.Error); ok && e.Timeout() {
		t.Fatalf("the connection stays open after %q", said)
	}
	return string(said)
}

func TestACallerWhoSendsNothingMoreIsCutOff(t *testing.T) {
	failed := make(chan error, 1)
	address := serve(t, hasty, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		failed <- err
	})
	connection := dial(t, address)
	fmt.Fprint(connection, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nbegin")
	if err := <-failed; err == nil {
		t.Error("the body was complete")
	}
	ends(t, connection)
}

func TestABodyThatNobodyReadsIsNotAwaited(t *testing.T) {
	address := serve(t, hasty, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	connection := dial(t, address)
	fmt.Fprint(connection, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nbegin")
	if said := ends(t, connection); !strings.HasPrefix(said, "HTTP/1.1 418") {
		t.Errorf("%q", said)
	}
}

func TestACallerWhoReadsNothingIsCutOff(t *testing.T) {
	failed := make(chan error, 1)
	much := bytes.Repeat([]byte("x"), 64<<20)
	address := serve(t, hasty, func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(much)
		failed <- err
	})
	connection := dial(t, address)
	fmt.Fprint(connection, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if err := <-failed; err == nil {
		t.Error("everything was written")
	}
}

// A request may be held for longer than callers may make the server wait, after its body or
// without one, and the connection serves the next request.
func TestAHeldRequestIsAnswered(t *testing.T) {
	address := serve(t, hasty, func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		held := time.NewTimer(4 * hasty.patience)
		defer held.Stop()
		select {
		case <-r.Context().Done():
			t.Error("the request was given up")
		case <-held.C:
		}
		if len(data) > 0 {
			fmt.Fprintf(w, "%d bytes", len(data))
		}
	})
	connection := dial(t, address)
	in := bufio.NewReader(connection)
	for _, body := range []string{"12345", "", "123"} {
		fmt.Fprintf(connection, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		response, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(response.Body)
		if want := fmt.Sprintf("%d bytes", len(body)); err != nil || body != "" && string(said) != want {
			t.Errorf("%q, %v, want %s", said, err, want)
		}
	}
}

// What counts is the time that the server waits for the caller, and the data that moves in it.
func TestALargeTransferMayTakeLong(t *testing.T) {
	p := &pacer{pace: usualPace}
	for range 100 {
		p.step(time.Now().Add(-time.Second), 64<<10)
	}
	if left := p.left(); left < usualPace.patience {
		t.Errorf("twice as fast as the slowest, %v are left", left)
	}
	p = &pacer{pace: usualPace}
	for range 100 {
		p.step(time.Now().Add(-time.Second), 16<<10)
	}
	if left := p.left(); left > 0 {
		t.Errorf("half as fast as the slowest, %v are left", left)
	}
}

func TestAnIdleConnectionIsClosed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(http.NotFoundHandler(), nil, nil, slog.New(slog.DiscardHandler))
	if s.IdleTimeout != idlePatience || s.ReadHeaderTimeout != headerPatience || s.ReadTimeout != 0 || s.WriteTimeout != 0 {
		t.Errorf("idle %v, headers %v, requests %v, answers %v", s.IdleTimeout, s.ReadHeaderTimeout, s.ReadTimeout, s.WriteTimeout)
	}
	s.IdleTimeout, s.ReadHeaderTimeout = 20*time.Millisecond, 20*time.Millisecond
	go func() { _ = s.Serve(listener) }()
	defer s.Close()
	fresh, used, half := dial(t, listener.Addr().String()), dial(t, listener.Addr().String()), dial(t, listener.Addr().String())
	fmt.Fprint(used, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	fmt.Fprint(half, "GET / HTTP/1.1\r\nHost: x\r\n")
	ends(t, fresh)
	ends(t, half)
	if said := ends(t, used); !strings.HasPrefix(said, "HTTP/1.1 404") {
		t.Errorf("%q", said)
	}
}

func TestLongHeadersAreRefused(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(http.NotFoundHandler(), nil, nil, slog.New(slog.DiscardHandler))
	go func() { _ = s.Serve(listener) }()
	defer s.Close()
	connection := dial(t, listener.Addr().String())
	go func() {
		fmt.Fprintf(connection, "GET / HTTP/1.1\r\nHost: x\r\nX-Long: %s\r\n\r\n", strings.Repeat("x", 2*maxHeader))
	}()
	line := make([]byte, len("HTTP/1.1 431"))
	if _, err := io.ReadFull(connection, line); err != nil || string(line) != "HTTP/1.1 431" {
		t.Errorf("%q, %v", line, err)
	}
}

func TestFailedHandshakesAreNoWarnings(t *testing.T) {
	var lines bytes.Buffer
	log := &serverLog{slog.New(slog.NewTextHandler(&lines, nil))}
	for _, line := range []string{"http: TLS handshake error from 1.2.3.4: EOF\n", "http: Accept error: too many open files\n"} {
		if _, err := log.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if got := lines.String(); strings.Contains(got, "handshake") || !strings.Contains(got, "level=WARN") {
		t.Error(got)
	}
}
