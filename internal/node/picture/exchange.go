package picture

import (
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// exchange is how a virtual node speaks with the scheduler.
type exchange struct {
	pace   nodeproto.Pace
	status *nodev1.NodeStatus // as last told to the session
	// request is the number of the request that awaits an answer, zero if there is none. The scheduler may hold the
	// answer of one that waits; a node that has something to report gives it up.
	request uint64
	waits   bool
	next    time.Time // when the next request is due
	last    time.Time // when the last one was sent
	dirty   bool      // there is something to report before that
	failed  bool      // the last request failed: reports wait for the next one
}

// Call is a request to send to the scheduler. It replaces the node's previous one.
type Call struct {
	Node      string
	Register  *nodev1.RegisterRequest // or
	Heartbeat *nodev1.HeartbeatRequest
	Timeout   time.Duration
}

// calling reports whether a request awaits an answer.
func (e *exchange) calling() bool { return e.request != 0 }

// tell passes the state of the node on. It reports whether it is news.
func (e *exchange) tell(session *nodeproto.NodeSession, status *nodev1.NodeStatus) bool {
	if e.status != nil && proto.Equal(e.status, status) {
		return false
	}
	e.status, e.dirty = status, true
	session.NodeChanged(status)
	return true
}

// hurry makes a node report soon.
func (p *Picture) hurry(now time.Time, n *node) {
	n.exchange.dirty = true
	if n.exchange.next.After(now) && !n.exchange.failed {
		n.exchange.next = now
	}
	p.hot[n.name] = true
}

// call sends a node's next request if one is due. It reports whether the node needs another look soon.
func (p *Picture) call(now time.Time, n *node) (again bool) {
	e := &n.exchange
	if e.calling() && !e.waits {
		return false
	}
	_, registered := n.session.Registered()
	urgent := registered && !e.failed && (e.dirty || n.session.Urgent())
	switch {
	case urgent && now.Before(e.last.Add(changePause)):
		return true
	case urgent:
	case e.calling():
		return false
	case now.Before(e.next):
		return e.next.Sub(now) < TickPeriod
	}
	e.last, e.dirty, e.waits = now, false, false
	c := Call{Node: n.name, Timeout: n.session.Settings().CallTimeout}
	if !registered {
		c.Register = n.session.Register()
		e.request = c.Register.GetSequence()
	} else {
		request, err := n.session.Heartbeat()
		if err != nil {
			return true // it has just lost its session, and registers next
		}
		request.HoldUs = nodeproto.Micros(e.pace.Hold(p.options.Random()))
		e.waits = len(request.GetReport().GetResults()) == 0 && !request.GetMore()
		c.Heartbeat, e.request = request, request.GetSequence()
	}
	p.effects.Calls = append(p.effects.Calls, c)
	return false
}

// awaits returns the node that awaits the answer to a request, nil if it has given the request up.
func (p *Picture) awaits(name string, sequence uint64) *node {
	n := p.nodes[name]
	if n == nil || n.session == nil || n.exchange.request != sequence {
		return nil
	}
	n.exchange.request, n.exchange.waits = 0, false
	p.hot[name] = true
	return n
}

// Registered processes the answer to a registration.
func (p *Picture) Registered(now time.Time, request *nodev1.RegisterRequest, response *nodev1.RegisterResponse, err error) {
	n := p.awaits(request.GetNode().GetName(), request.GetSequence())
	if n == nil {
		return
	}
	if err == nil {
		err = n.session.Welcome(response)
	}
	if err != nil {
		p.unanswered(now, n, request.GetSequence(), err)
		return
	}
	p.answered(now, n, nil)
}

// Reported processes the answer to a heartbeat.
func (p *Picture) Reported(now time.Time, request *nodev1.HeartbeatRequest, response *nodev1.HeartbeatResponse, err error) {
	n := p.awaits(request.GetNodeName(), request.GetSequence())
	if n == nil {
		return
	}
	var orders nodeproto.Orders
	if err == nil {
		orders, err = n.session.Receive(now, response)
	}
	if err != nil {
		p.unanswered(now, n, request.GetSequence(), err)
		return
	}
	p.answered(now, n, response)
	p.carryOut(now, n, &orders)
}

func (p *Picture) answered(now time.Time, n *node, response *nodev1.HeartbeatResponse) {
	e := &n.exchange
	e.failed = false
	e.pace.Adopt(n.session.Settings())
	e.next = now.Add(e.pace.Succeeded(response, p.options.Random()))
}

// unanswered records that a request failed. The next one follows after a pause, or at once if the scheduler wants a
// registration.
func (p *Picture) unanswered(now time.Time, n *node, sequence uint64, err error) {
	e := &n.exchange
	n.session.Failed(sequence, err)
	var register *nodeproto.MustRegisterError
	if errors.As(err, &register) {
		e.failed, e.next = false, now
		return
	}
	e.failed = true
	e.next = now.Add(e.pace.AfterError(err, p.options.Random()))
	var refusal *nodeproto.RefusedError
	if errors.As(err, &refusal) {
		p.note("the scheduler refuses node %s: %v", n.name, err)
	}
}
