package app

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/test/expected"
)

// alone starts a scheduler without nodes and waits until it leads.
func alone(t *testing.T, change func(*config.Scheduler)) *Scheduler {
	t.Helper()
	settings := config.Default()
	c := &settings.Scheduler
	c.Listen, c.DataDir = document.Some("127.0.0.1:0"), document.Some(filepath.Join(t.TempDir(), "scheduler"))
	c.Leader.LeaseTTL = document.Some(time.Minute)
	if change != nil {
		change(c)
	}
	s, err := NewScheduler(t.Context(), c, "test", newTestLog(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup((&cluster{t: t}).run(s.Run))
	<-s.Server.Led()
	return s
}

// giveToken issues a token for a user.
func giveToken(t *testing.T, s *Scheduler, user string) string {
	t.Helper()
	token := auth.NewToken([32]byte{1})
	insist(t, func() error {
		return s.Server.EditRegistry(t.Context(), server.Caller{User: auth.Root}, func(*server.Registry) (*store.Batch, error) {
			b := &store.Batch{}
			b.Put.Tokens = append(b.Put.Tokens, store.Token{Hash: token.Hash().String(), User: user, Name: "test", Created: time.Now()})
			return b, nil
		})
	})
	return token.Reveal()
}

// unfinished opens connections that start a request with a long body and do not finish it. They
// send part of the body until the server stops reading.
func unfinished(t *testing.T, s *Scheduler, count, part int, begin func(i int) string) []net.Conn {
	t.Helper()
	data := bytes.Repeat([]byte("x"), part)
	list := make([]net.Conn, count)
	var senders sync.WaitGroup
	for i := range list {
		connection, err := net.Dial("tcp", s.Address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { connection.Close() })
		list[i] = connection
		senders.Go(func() {
			_ = connection.SetWriteDeadline(time.Now().Add(5 * time.Second))
			fmt.Fprintf(connection, "%sContent-Length: 30000000\r\n\r\n", begin(i))
			_, _ = connection.Write(data) // the server may stop reading
		})
	}
	senders.Wait()
	return list
}

// grown returns how far the heap and the number of goroutines exceed their earlier values.
func grown(before runtime.MemStats, goroutines int) (bytes int64, more int) {
	runtime.GC()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return int64(now.HeapAlloc) - int64(before.HeapAlloc), runtime.NumGoroutine() - goroutines
}

const (
	strangers = 80
	sentEach  = 2 << 20
)

// Requests without a token use no memory: 80 connections that send 2 MiB each of an endless body
// are refused and closed, whatever they request.
func TestBodiesWithoutATokenTakeNoMemory(t *testing.T) {
	s := alone(t, nil)
	giveToken(t, s, auth.Root)
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	goroutines := runtime.NumGoroutine()
	targets := []string{
		"PUT /api/v4/write_file?path=//tmp/x", "PUT /api/v4/get_version", "POST /api/v4/get_current_user", "GET /", "GET /metrics", "GET /healthz",
		"PUT /hosts", "POST " + nodev1.NodeServiceHeartbeatProcedure, "PUT /nothing/here", "POST /api/v3/start_op",
	}
	began := time.Now()
	unfinished(t, s, strangers, sentEach, func(i int) string {
		return targets[i%len(targets)] + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/proto\r\n"
	})
	most := int64(0)
	if !expected.Soon(func() bool {
		bytes, more := grown(before, goroutines)
		most = max(most, bytes)
		return more <= 5
	}) {
		_, more := grown(before, goroutines)
		t.Errorf("%d goroutines are left", more)
	}
	t.Logf("the heap grew by %d KiB at most, all connections were gone after %v", most>>10, time.Since(began))
	if most > strangers*sentEach/8 {
		t.Errorf("the heap grew by %d bytes", most)
	}
}

// Requests with a token stay within the budget, and a refusal states the amounts.
func TestBodiesWithATokenStayWithinTheBudget(t *testing.T) {
	const limit = 16 << 20
	s := alone(t, func(c *config.Scheduler) { c.Overload.BytesPerCaller = document.Some(int64(limit)) })
	token := giveToken(t, s, auth.Root)
	other := giveToken(t, s, auth.Root)
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	list := unfinished(t, s, strangers, sentEach, func(i int) string {
		return fmt.Sprintf("PUT /api/v4/set?path=//tmp/x HTTP/1.1\r\nHost: x\r\nAuthorization: OAuth %s\r\n", []string{token, other}[i%2])
	})
	var refused, told atomic.Int64
	for _, connection := range list {
		go func() {
			_ = connection.SetReadDeadline(time.Now().Add(expected.Patience))
			response, err := http.ReadResponse(bufio.NewReader(connection), nil)
			if err == nil {
				body, _ := io.ReadAll(response.Body)
				response.Body.Close()
				if response.StatusCode == http.StatusTooManyRequests && response.Header.Get("Retry-After") != "" && bytes.Contains(body, []byte(`"limit":16777216`)) {
					told.Add(1)
				}
			}
			refused.Add(1)
		}()
	}
	// The body of each request being read holds at least what has been sent.
	if !expected.Soon(func() bool { return refused.Load() >= strangers-limit/sentEach }) || told.Load() == 0 {
		t.Errorf("%d of %d requests were refused, %d of them were told the limit", refused.Load(), len(list), told.Load())
	}
	more, _ := grown(before, 0)
	t.Logf("%d of %d requests were refused, the heap grew by %d KiB", refused.Load(), len(list), more>>10)
	if more > 2*limit {
		t.Errorf("the heap grew by %d bytes", more)
	}
	for _, connection := range list {
		connection.Close()
	}
	if !expected.Soon(func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.URL+"/api/v4/set?path=//tmp/x", longText(4<<20))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "OAuth "+token)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	}) {
		t.Error("the budget was not given back")
	}
}

// Answers that somebody does not read count too.
func TestUnreadAnswersStayWithinTheBudget(t *testing.T) {
	s := alone(t, func(c *config.Scheduler) { c.Overload.BytesPerCaller = document.Some(int64(16 << 20)) })
	token := giveToken(t, s, auth.Root)
	send := func(method, command string, body io.Reader) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/api/v4/"+command+"?path=//tmp/long", body)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "OAuth "+token)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode
	}
	if status := send(http.MethodPut, "set", longText(7<<20)); status != http.StatusOK {
		t.Fatalf("the text is not written: %d", status)
	}
	var connections []net.Conn
	statuses := ""
	for range 4 {
		connection, err := net.Dial("tcp", s.Address)
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		connections = append(connections, connection)
		fmt.Fprintf(connection, "GET /api/v4/get?path=//tmp/long HTTP/1.1\r\nHost: %s\r\nAuthorization: OAuth %s\r\n\r\n", s.Address, token)
		line := make([]byte, len("HTTP/1.1 200"))
		_ = connection.SetReadDeadline(time.Now().Add(expected.Patience))
		if _, err := io.ReadFull(connection, line); err != nil {
			t.Fatal(err)
		}
		statuses += string(line[len("HTTP/1.1"):])
	}
	if statuses != " 200 200 429 429" {
		t.Errorf("the answers are%s", statuses)
	}
	for _, connection := range connections {
		connection.Close()
	}
	if !expected.Soon(func() bool { return send(http.MethodGet, "get", nil) == http.StatusOK }) {
		t.Error("the budget was not given back")
	}
}

// longText is a text of this many bytes, as a value.
func longText(size int64) io.Reader {
	return io.MultiReader(strings.NewReader(`"`), io.LimitReader(letters{}, size), strings.NewReader(`"`))
}

// letters is an endless text that needs no escapes.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
