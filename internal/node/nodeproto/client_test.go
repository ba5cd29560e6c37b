package nodeproto

import (
	"errors"
	"testing"
	"time"

	"connectrpc.com/connect"
)

// A scheduler that hangs is not asked again while the standby, which still names it, is about to lead.
func TestAClientAsksTheStandbyUntilItLeads(t *testing.T) {
	c, err := NewClient([]string{"a:1", "b:1"}, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	p := c.pool
	gone := connect.NewError(connect.CodeUnavailable, errors.New("the connection is lost"))
	notLeader := &NotLeaderError{Leader: "a:1"}
	start := time.Now()
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

	if first := p.first(at(0)); first != "a:1" {
		t.Fatalf("the first call goes to %s", first)
	}
	if next := p.after("a:1", gone, []string{"a:1"}, at(0), at(2)); next != "b:1" {
		t.Fatalf("after a silent scheduler %q is asked, not the other one", next)
	}
	for _, seconds := range []float64{2, 2.5, 3, 4.9} {
		if seconds > 2 {
			if first := p.first(at(seconds)); first != "b:1" {
				t.Errorf("after %v s the call goes to %s, which was silent", seconds, first)
			}
		}
		if next := p.after("b:1", notLeader, []string{"b:1"}, at(seconds), at(seconds)); next != "" {
			t.Errorf("after %v s the standby's hint leads to %s, which was silent", seconds, next)
		}
	}
	if next := p.after("b:1", notLeader, []string{"b:1"}, at(5), at(5)); next != "a:1" {
		t.Errorf("later the hint leads to %q", next)
	}
	p.answered("a:1")
	if first := p.first(at(5.1)); first != "a:1" {
		t.Errorf("a scheduler that answers again is not asked, but %s", first)
	}

	// One that refuses connections costs no time, so it is asked each time.
	p.after("a:1", gone, []string{"a:1"}, at(6), at(6.01))
	if next := p.after("b:1", notLeader, []string{"b:1"}, at(6.1), at(6.1)); next != "a:1" {
		t.Errorf("the hint to a scheduler that is being restarted leads to %q", next)
	}

	// If all are silent, the current one is asked.
	p.after("a:1", gone, []string{"a:1"}, at(7), at(9))
	p.after("b:1", gone, []string{"a:1", "b:1"}, at(9), at(11))
	if first := p.first(at(11)); first != "a:1" {
		t.Errorf("of silent schedulers, %s is asked first", first)
	}
}
