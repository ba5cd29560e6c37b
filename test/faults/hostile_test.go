//go:build linux

package faults

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
	"github.com/weirhq/weir/test/fakenode"
)

// soakTime is how long hostile clients go on: WEIR_SOAK, half an hour unless it is set, a few seconds in short runs.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	if text := os.Getenv("WEIR_SOAK"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("WEIR_SOAK: %v", err)
		}
		return d
	}
	if testing.Short() {
		return 6 * time.Second
	}
	return 30 * time.Minute
}

// hostile is clients who mean harm.
type hostile struct {
	address string
	// user is the token of a user without permissions, node that of a node.
	user, node string
	tried      []atomic.Int64 // how often, for each of attacks
}

// attack does one kind of harm once. It returns when the server has answered or closed the connection, or after a
// time of its own.
type attack struct {
	name string
	many int // how many do it at a time
	do   func(h *hostile, ctx context.Context)
}

var attacks = []attack{
	{"unfinished bodies without a token", 30, func(h *hostile, ctx context.Context) { h.unfinished(ctx, "") }},
	{"unfinished bodies with a wrong token", 10, func(h *hostile, ctx context.Context) { h.unfinished(ctx, "weir_"+strings.Repeat("x", 48)) }},
	{"unfinished bodies with a user's token", 20, func(h *hostile, ctx context.Context) { h.unfinished(ctx, h.user) }},
	{"unfinished messages of nodes", 10, (*hostile).unfinishedMessage},
	{"slow readers", 20, (*hostile).slowReader},
	{"wrong tokens", 2, (*hostile).wrongToken},
	{"malformed requests", 2, (*hostile).malformed},
	{"compressed bombs", 2, (*hostile).bomb},
	{"huge headers", 10, (*hostile).hugeHeaders},
	{"idle connections", 50, (*hostile).idle},
	{"streams that are reset", 1, (*hostile).resets},
	{"nodes that register and vanish", 2, (*hostile).ghost},
}

// begin lets all attack until ctx is cancelled. The returned function waits for them.
func (h *hostile) begin(ctx context.Context) (wait func()) {
	var all sync.WaitGroup
	for i := range attacks {
		for range attacks[i].many {
			all.Go(func() {
				for pause(ctx, 200*time.Millisecond) {
					attacks[i].do(h, ctx)
					h.tried[i].Add(1)
				}
			})
		}
	}
	return all.Wait
}

// with opens a connection for as long as a function runs, and closes it when ctx is cancelled.
func (h *hostile) with(ctx context.Context, f func(net.Conn)) {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "tcp", h.address)
	if err != nil {
		return
	}
	defer connection.Close()
	defer context.AfterFunc(ctx, func() { connection.Close() })()
	f(connection)
}

// listen reads until the server closes the connection.
func listen(connection net.Conn) { _, _ = io.Copy(io.Discard, connection) }

var junk = bytes.Repeat([]byte("junk"), 1<<20)

func (h *hostile) unfinished(ctx context.Context, token string) {
	h.with(ctx, func(connection net.Conn) {
		target := []string{
			"PUT /api/v4/write_file?path=//tmp/x", "POST /api/v4/start_operation", "POST /api/v4/get_version", "PUT /api/v4/set?path=//tmp/x", "GET /metrics", "POST /",
		}[rand.IntN(6)]
		fmt.Fprintf(connection, "%s HTTP/1.1\r\nHost: x\r\nContent-Length: 30000000\r\n", target)
		if token != "" {
			fmt.Fprintf(connection, "Authorization: OAuth %s\r\n", token)
		}
		fmt.Fprint(connection, "\r\n")
		_, _ = connection.Write(junk[:rand.IntN(len(junk))])
		listen(connection)
	})
}

func (h *hostile) unfinishedMessage(ctx context.Context) {
	h.with(ctx, func(connection net.Conn) {
		fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/proto\r\nContent-Length: 60000000\r\nAuthorization: Bearer %s\r\n\r\n",
			nodev1.NodeServiceUploadProcedure, []string{h.node, h.user, ""}[rand.IntN(3)])
		_, _ = connection.Write(junk[:rand.IntN(len(junk))])
		listen(connection)
	})
}

// slowReader asks for much, many times over, and reads nothing of it.
func (h *hostile) slowReader(ctx context.Context) {
	h.with(ctx, func(connection net.Conn) {
		if tcp, ok := connection.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(1 << 10)
		}
		_ = connection.SetWriteDeadline(time.Now().Add(5 * time.Second))
		for range 200 {
			target := []string{"/api/v4/list_operations?limit=1000", "/api/v4/list_events", "/api/v4/get?path=//sys/scheduler/orchid", "/"}[rand.IntN(4)]
			if _, err := fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: OAuth %s\r\n\r\n", target, h.user); err != nil {
				break
			}
		}
		// It waits until the server has had enough.
		probe := time.NewTicker(time.Second)
		defer probe.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-probe.C:
			}
			_ = connection.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
			if _, err := connection.Write([]byte("\r\n")); err != nil && !os.IsTimeout(err) {
				return
			}
		}
	})
}

func (h *hostile) wrongToken(ctx context.Context) {
	for _, token := range []string{"weir_", "weir_" + strings.Repeat("A", 48), strings.Repeat("x", 100_000), h.user[:len(h.user)-1]} {
		h.with(ctx, func(connection net.Conn) {
			fmt.Fprintf(connection, "GET /api/v4/get?path=//sys HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: OAuth %s\r\n\r\n", token)
			if response, err := http.ReadResponse(bufio.NewReader(connection), nil); err == nil {
				response.Body.Close()
			}
		})
	}
}

func (h *hostile) malformed(ctx context.Context) {
	random := make([]byte, 4096)
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	for _, text := range []string{
		string(random), "GET\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + string(random), "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + string(random),
		"POST /api/v4/set HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
		"POST /api/v4/set HTTP/1.1\r\nHost: x\r\nAuthorization: OAuth " + h.user + "\r\nContent-Length: 5000\r\n\r\n" + strings.Repeat("[", 5000),
		"POST /api/v4/execute_batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: OAuth " + h.user + "\r\nContent-Length: 4096\r\n\r\n" + string(random),
	} {
		h.with(ctx, func(connection net.Conn) {
			_, _ = connection.Write([]byte(text))
			_ = connection.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
			listen(connection)
		})
	}
}

var packed = func() []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	for range 40 {
		_, _ = w.Write(make([]byte, 1<<20)) // a buffer takes everything
	}
	_ = w.Close()
	return b.Bytes()
}()

func (h *hostile) bomb(ctx context.Context) {
	for _, header := range []string{
		"PUT /api/v4/write_file?path=//tmp/bomb HTTP/1.1\r\nHost: x\r\nAuthorization: OAuth " + h.user,
		"POST " + nodev1.NodeServiceHeartbeatProcedure + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/proto\r\nAuthorization: Bearer " + h.node,
	} {
		h.with(ctx, func(connection net.Conn) {
			fmt.Fprintf(connection, "%s\r\nConnection: close\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", header, len(packed))
			_, _ = connection.Write(packed)
			listen(connection)
		})
	}
}

func (h *hostile) hugeHeaders(ctx context.Context) {
	h.with(ctx, func(connection net.Conn) {
		fmt.Fprint(connection, "GET / HTTP/1.1\r\nHost: x\r\n")
		for i := range rand.IntN(40) {
			if _, err := fmt.Fprintf(connection, "X-Header-%d: %s\r\n", i, junk[:16<<10]); err != nil {
				return
			}
		}
		listen(connection)
	})
}

func (h *hostile) idle(ctx context.Context) {
	h.with(ctx, func(connection net.Conn) {
		if rand.IntN(2) == 0 {
			fmt.Fprint(connection, "GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
		}
		listen(connection)
	})
}

// resets opens streams of HTTP/2 with bodies that do not end, and resets them.
func (h *hostile) resets(ctx context.Context) {
	var dialer net.Dialer
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.DialContext = func(dialing context.Context, network, address string) (net.Conn, error) {
		connection, err := dialer.DialContext(dialing, network, address)
		if err == nil {
			time.AfterFunc(10*time.Second, func() { connection.Close() }) // it stays idle for a while
			context.AfterFunc(ctx, func() { connection.Close() })
		}
		return connection, err
	}
	transport.Protocols.SetUnencryptedHTTP2(true)
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	var streams sync.WaitGroup
	for i := range 100 {
		streams.Go(func() {
			body, end := io.Pipe()
			defer end.Close()
			go func() { _, _ = end.Write(junk[:64<<10]) }()
			request, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+h.address+"/api/v4/write_file?path=//tmp/x", body)
			if err != nil {
				return
			}
			request.Header.Set("Authorization", "OAuth "+[]string{h.user, "weir_x"}[i%2])
			if response, err := transport.RoundTrip(request); err == nil {
				response.Body.Close()
			}
		})
	}
	streams.Wait()
}

// ghost registers a node, reports once and is gone.
func (h *hostile) ghost(ctx context.Context) {
	caller, err := nodeproto.NewClient([]string{h.address}, nil, h.node)
	if err != nil {
		return
	}
	defer caller.Close()
	name := fmt.Sprintf("ghost-%d", rand.IntN(100))
	request := &nodev1.RegisterRequest{
		Incarnation: uint64(time.Now().UnixNano()), Sequence: 1, Report: &nodev1.Report{Full: true},
		Node: &nodev1.NodeDescription{
			Name: name, AgentId: name, Tags: []string{"ghosts"}, Resources: nodeproto.ToAmounts(resource.Amounts{}),
		},
	}
	answer, err := caller.Register(ctx, request)
	if err != nil {
		return
	}
	_, _ = caller.Heartbeat(ctx, &nodev1.HeartbeatRequest{
		NodeName: name, Incarnation: request.GetIncarnation(), Sequence: 2, Session: answer.GetSession(), Report: &nodev1.Report{},
	})
}

// sample is what a scheduler holds at a moment.
type sample struct {
	at         time.Duration
	heap, rss  int64 // the live heap, and all memory
	goroutines int
	files      int
}

var (
	nextGC  = regexp.MustCompile(`# NextGC = (\d+)`) // twice what was live after the last collection
	rssLine = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)
)

// sample looks after a collection of garbage.
func (s *scheduler) sample(since time.Time) sample {
	s.t.Helper()
	page, err := s.fetch("/debug/pprof/heap?gc=1&debug=1", patience)
	if err != nil {
		s.t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	heap, rss := nextGC.FindStringSubmatch(page), rssLine.FindSubmatch(status)
	if heap == nil || rss == nil {
		s.t.Fatalf("%.300s\n%s", page, status)
	}
	out := sample{at: time.Since(since)}
	out.heap, _ = strconv.ParseInt(heap[1], 10, 64)
	out.heap /= 2
	out.rss, _ = strconv.ParseInt(string(rss[1]), 10, 64)
	out.rss <<= 10
	out.goroutines, out.files = s.held()
	return out
}

// honest asks what users ask, and remembers how long the answers took.
type honest struct {
	mutex sync.Mutex
	took  []time.Duration
	wrong []error
}

func (u *honest) ask(ctx context.Context, g *gateway) {
	for pause(ctx, 50*time.Millisecond) {
		began := time.Now()
		attempt, cancel := context.WithTimeout(context.Background(), patience)
		_, err := g.read(attempt, get("//sys/pool_trees/default/load-1/@weight")) // it asks again if nobody leads
		cancel()
		u.mutex.Lock()
		u.took = append(u.took, time.Since(began))
		if err != nil {
			u.wrong = append(u.wrong, err)
		}
		u.mutex.Unlock()
	}
}

// lockDown makes tokens, after which nobody gets in without one.
func (c *cluster) lockDown() (user, node string) {
	c.t.Helper()
	token := func(name string) string {
		c.t.Helper()
		text, ok := c.must(command{name: "issue_token", parameters: []yson.Entry{yson.Pair("user", yson.String(name))}}).Text()
		if !ok {
			c.t.Fatalf("no token of %s", name)
		}
		return text
	}
	makes := func(kind, name string) {
		c.t.Helper()
		c.must(command{name: "create", parameters: []yson.Entry{
			yson.Pair("type", yson.String(kind)), yson.Pair("attributes", yson.Map(yson.Pair("name", yson.String(name)))),
		}})
	}
	makes("user", "mallory")
	makes("user", "agent")
	makes("group", "nodes")
	c.must(command{name: "add_member", parameters: []yson.Entry{yson.Pair("group", yson.String("nodes")), yson.Pair("member", yson.String("agent"))}})
	root := token("root")
	for i, s := range c.schedulers {
		own, err := client.New(client.Options{Address: s.address, Token: root})
		if err != nil {
			c.t.Fatal(err)
		}
		c.gateway.clients[i] = own
	}
	user, node = token("mallory"), token("agent")
	c.caller.Renew(nil, node)
	return user, node
}

// TestHostileClientsTakeNothing lets hostile clients do what they can beside an honest load: memory, goroutines and
// files of the scheduler stay flat, honest requests are answered and nodes are heard.
func TestHostileClientsTakeNothing(t *testing.T) {
	duration := soakTime(t)
	settings := quickly()
	settings.lease = 10 * time.Second // others test leases, and this machine has much to do
	c := newCluster(t, settings, 1, 20)
	user, node := c.lockDown()
	c.tolerated = append(c.tolerated, "disappeared_from_node")
	l := c.underLoad()
	c.awaitNodes(func(t fakenode.Totals) bool { return t.Acknowledged > 20 })
	s := c.schedulers[0]
	began := time.Now()
	calm := s.sample(began)
	t.Logf("before: %v", calm)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h := &hostile{address: s.address, user: user, node: node, tried: make([]atomic.Int64, len(attacks))}
	wait := h.begin(ctx)
	users := &honest{}
	var asking sync.WaitGroup
	asking.Go(func() { users.ask(ctx, c.gateway) })
	var samples []sample
	period := max(duration/60, time.Second)
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	heard := c.nodes.Totals().Acknowledged
	for time.Since(began) < duration || len(samples) < fewestSamples {
		<-ticker.C
		samples = append(samples, s.sample(began))
	}
	cancel()
	wait()
	asking.Wait()
	c.awaitNodes(func(t fakenode.Totals) bool { return t.Acknowledged > heard })
	if !s.running() {
		t.Fatal("the scheduler has ended")
	}
	for i := range attacks {
		if h.tried[i].Load() == 0 && duration > time.Minute {
			t.Errorf("nobody tried %s", attacks[i].name)
		}
		t.Logf("%6d times %s", h.tried[i].Load(), attacks[i].name)
	}
	slices.Sort(users.took)
	if n := len(users.took); n == 0 || len(users.wrong) > 0 {
		t.Errorf("%d honest requests, %d of them not answered: %v", n, len(users.wrong), users.wrong)
	} else {
		t.Logf("%d honest requests: p50 %v, p99 %v, longest %v", n, users.took[n/2], users.took[n*99/100], users.took[n-1])
	}
	l.stop()
	// When they are gone, nothing of them is left.
	await(t, "connections are given back", func() bool {
		goroutines, files := s.held()
		return goroutines <= calm.goroutines+slack && files <= calm.files+slack
	})
	after := s.sample(began)
	t.Logf("after: %v", after)
	// What the honest load leaves, such as operations in lists, grows all the time.
	checkFlat(t, samples, max(after.heap-calm.heap, 0)/3)
}

func (s sample) String() string {
	return fmt.Sprintf("at %v heap %d MiB, resident %d MiB, %d goroutines, %d files", s.at.Round(time.Second), s.heap>>20, s.rss>>20, s.goroutines, s.files)
}

// fewestSamples is how many are compared, also on a machine that is too busy to take them in time.
const fewestSamples = 6

// checkFlat compares the last third of the samples with the second, when all attacks are under way. In the meantime the
// heap may grow by what the honest load leaves in a third of the time.
func checkFlat(t *testing.T, samples []sample, left int64) {
	t.Helper()
	for _, s := range samples {
		t.Log(s)
	}
	third := len(samples) / 3
	for _, figure := range []struct {
		name string
		of   func(sample) int64
		more int64
	}{
		{"live heap", func(s sample) int64 { return s.heap }, 32<<20 + left},
		{"resident memory", func(s sample) int64 { return s.rss }, 64<<20 + 2*left},
		{"goroutines", func(s sample) int64 { return int64(s.goroutines) }, 200},
		{"files", func(s sample) int64 { return int64(s.files) }, 100},
	} {
		median := func(part []sample) int64 {
			values := make([]int64, len(part))
			for i, s := range part {
				values[i] = figure.of(s)
			}
			slices.Sort(values)
			return values[len(values)/2]
		}
		before, after := median(samples[third:2*third]), median(samples[2*third:])
		t.Logf("%s: %d, then %d", figure.name, before, after)
		if after > before*5/4+figure.more {
			t.Errorf("%s grew from %d to %d", figure.name, before, after)
		}
	}
}
