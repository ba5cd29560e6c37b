package nodeproto

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"
)

// A scheduler that hangs gets no call while the standby, which still names it, is about to lead.
func TestAClientProbesASchedulerThatWasSilent(t *testing.T) {
	hung, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and sends nothing, like a stopped process
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hung.Close() }()
	a, b := hung.Addr().String(), "b:1"
	c, err := NewClient([]string{a, b}, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	p := c.pool
	gone := connect.NewError(connect.CodeUnavailable, errors.New("the connection is lost"))
	notLeader := &NotLeaderError{Leader: a}

	// One that refuses connections costs no time: it gets calls as before.
	if next := p.after(a, gone, []string{a}, time.Millisecond); next != b || p.first() != a || p.probe(t.Context(), a) != nil {
		t.Fatalf("after a refused connection %q is asked, and then %s", next, p.first())
	}
	if next := p.after(a, gone, []string{a}, 2*time.Second); next != b {
		t.Fatalf("after a silent scheduler %q is asked, not the other one", next)
	}
	if first := p.first(); first != b {
		t.Errorf("the next call goes to %s, which was silent", first)
	}
	if next := p.after(b, notLeader, []string{b}, 0); next != a {
		t.Errorf("the standby names the silent one, but %q is asked", next)
	}
	if err := p.probe(t.Context(), a); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("a probe of a scheduler that hangs: %v", err)
	}
	if next := p.after(a, gone, []string{b, a}, probeTimeout); next != "" || p.first() != b {
		t.Errorf("after the probe %q is asked, and then %s", next, p.first())
	}

	// It goes on, and still leads.
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	_ = server.Listener.Close()
	server.Listener, server.Config.Protocols = hung, Protocols()
	server.Start()
	defer server.Close()
	for p.probe(t.Context(), a) != nil {
		t.Log("a busy machine: the probe took too long")
	}
	p.answered(a)
	if first := p.first(); first != a {
		t.Errorf("a scheduler that answers again is not asked, but %s", first)
	}

	// If all were silent, the current one is asked.
	p.after(a, gone, []string{a}, 2*time.Second)
	p.after(b, gone, []string{a, b}, 2*time.Second)
	if first := p.first(); first != a {
		t.Errorf("of silent schedulers, %s is asked first", first)
	}
}
