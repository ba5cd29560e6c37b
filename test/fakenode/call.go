package fakenode

import (
	"context"
	"errors"
	"time"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// call is one request of a node.
type call struct {
	node      *node
	caller    Caller
	life      uint64 // life of the node; answers to an earlier life are dropped
	timeout   time.Duration
	uploads   []*nodev1.UploadRequest
	register  *nodev1.RegisterRequest
	heartbeat *nodev1.HeartbeatRequest

	loseRequest, loseResponse, double bool
}

// outcome is the result of a call.
type outcome struct {
	call
	welcome  *nodev1.RegisterResponse
	response *nodev1.HeartbeatResponse
	err      error
}

// call makes calls until the cluster closes.
func (c *Cluster) call() {
	for {
		select {
		case <-c.context.Done():
			return
		case call := <-c.work:
			o := call.make(c.context)
			select {
			case c.done <- o:
			case <-c.context.Done():
				return
			}
		}
	}
}

// make calls the scheduler. Chaos may drop the request or the answer.
func (a call) make(ctx context.Context) outcome {
	o := outcome{call: a}
	if a.loseRequest {
		o.err = ErrLost
		return o
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	for _, piece := range a.uploads {
		if _, o.err = a.caller.Upload(ctx, piece); o.err != nil {
			return o
		}
	}
	if a.double {
		_ = a.speak(ctx, &outcome{}) // a duplicate whose answer is dropped
	}
	o.err = a.speak(ctx, &o)
	if a.loseResponse {
		o.welcome, o.response, o.err = nil, nil, ErrLost
	}
	return o
}

func (a call) speak(ctx context.Context, into *outcome) (err error) {
	if a.register != nil {
		into.welcome, err = a.caller.Register(ctx, a.register)
	} else {
		into.response, err = a.caller.Heartbeat(ctx, a.heartbeat)
	}
	return err
}

// request makes a node's next call as soon as a caller is free.
func (c *Cluster) request(n *node) {
	if n.calling || n.queued {
		return
	}
	if c.free == 0 {
		n.queued = true
		c.waiting = append(c.waiting, n)
		return
	}
	c.free--
	n.calling = true
	c.work <- n.compose() // has room for all callers
}

// returned processes the outcome of a call.
func (c *Cluster) returned(o outcome) {
	n := o.node
	c.free++
	n.calling = false
	for c.free > 0 && len(c.waiting) > 0 {
		next := c.waiting[0]
		c.waiting = c.waiting[1:]
		next.queued = false
		if next.speaks() {
			c.request(next)
		}
	}
	now := c.clock.Now()
	if o.life != n.life || n.dead {
		n.uploadAgain(o.uploads)
		if n.speaks() {
			n.wake(now)
		}
		return
	}
	if n.paused {
		n.late = append(n.late, o)
		return
	}
	n.hear(now, o)
}

// compose builds the next call of a node.
func (n *node) compose() call {
	c := n.cluster
	a := call{
		node: n, caller: n.caller, life: n.life, timeout: n.session.Settings().CallTimeout,
		loseRequest:  n.cut || c.random.Float64() < c.config.Chaos.LoseRequest,
		loseResponse: n.muted || c.random.Float64() < c.config.Chaos.LoseResponse,
		double:       c.random.Float64() < c.config.Chaos.Double,
	}
	n.session.NodeChanged(n.status())
	if _, registered := n.session.Registered(); !registered {
		n.registered(false)
		a.register = n.session.Register()
	} else if request, err := n.session.Heartbeat(); err == nil {
		a.heartbeat = request
	}
	if a.heartbeat != nil && n.confirmed { // before that, the scheduler accepts no output from it
		a.uploads, n.uploads = n.uploads, nil
	}
	return a
}

// hear processes the outcome of a call and plans the next one.
func (n *node) hear(now time.Time, o outcome) {
	c := n.cluster
	totals := &c.ledger.totals
	totals.Uploads += len(o.uploads)
	random := c.random.Float64()
	n.failing = true
	if o.err != nil {
		totals.Failures++
		n.uploads = append(o.uploads, n.uploads...) // uploads are idempotent
		sequence := o.register.GetSequence() + o.heartbeat.GetSequence()
		n.session.Failed(sequence, o.err)
		n.wake(now.Add(n.afterError(o.err, random)))
		return
	}
	n.arrived(now, o.uploads)
	if o.welcome != nil {
		if err := n.session.Welcome(o.welcome); err != nil {
			totals.Failures++
			n.wake(now.Add(n.pace.Failed(0, random)))
			return
		}
		totals.Registrations++
		n.failing, n.confirmed = false, false
		n.registered(true)
		n.pace.Adopt(n.session.Settings())
		n.wake(now.Add(n.pace.Succeeded(nil, random)))
		return
	}
	totals.Heartbeats++
	if o.response.GetSchedulingSkipped() != nodev1.SkipReason_SKIP_REASON_NOT_SKIPPED {
		totals.Skipped++
	}
	orders, err := n.session.Receive(now, o.response)
	n.obey(now, orders)
	if err != nil {
		totals.Failures++
		n.wake(now.Add(n.pace.Failed(0, random)))
		return
	}
	n.failing, n.confirmed = false, true
	n.pace.Adopt(n.session.Settings())
	pause := n.pace.Succeeded(o.response, random)
	if n.session.Urgent() || o.heartbeat.GetMore() || len(n.uploads) > 0 {
		pause = 0
	}
	n.wake(now.Add(pause))
}

// afterError returns how long a node waits after an error: zero if it only has to register again.
func (n *node) afterError(err error, random float64) time.Duration {
	var (
		register *nodeproto.MustRegisterError
		stale    *nodeproto.StaleError
		refused  *nodeproto.RefusedError
	)
	switch {
	case errors.As(err, &register), errors.As(err, &stale):
		return 0
	case errors.As(err, &refused):
		n.cluster.ledger.totals.Refusals++
	}
	return n.pace.AfterError(err, random)
}
