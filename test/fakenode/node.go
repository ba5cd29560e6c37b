package fakenode

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// node is one node; it belongs to the loop.
type node struct {
	cluster     *Cluster
	index       int
	name        string
	description *nodev1.NodeDescription
	caller      Caller
	session     *nodeproto.NodeSession
	pace        nodeproto.Pace
	life        uint64 // number of the incarnation
	incarnation uint64
	jobs        map[uint64]*job
	uploads     []*nodev1.UploadRequest

	plan      uint64    // of the next call
	calling   bool      // a call is under way
	queued    bool      // waits for a caller
	inTouch   bool      // counted as registered
	confirmed bool      // a heartbeat of the session was answered
	failing   bool      // the last call failed: wait, whatever happens
	late      []outcome // arrived while the agent was paused

	paused, dead, cut, muted, draining bool
}

// begin starts an incarnation.
func (n *node) begin(now time.Time) {
	n.incarnation = nodeproto.NextIncarnation(now, n.incarnation)
	n.life++
	var restored []nodeproto.RestoredJob
	if n.session != nil {
		for _, number := range n.session.Jobs() {
			status, result := n.session.Job(number)
			restored = append(restored, nodeproto.RestoredJob{Status: status, Result: result})
		}
	}
	n.session = nodeproto.NewNodeSession(n.description, n.incarnation, restored)
	pieces := n.uploads
	n.uploads, n.confirmed = nil, false
	n.uploadAgain(pieces)
	n.pace = nodeproto.Pace{}
	n.pace.Adopt(n.cluster.config.Pace)
}

// uploadAgain uploads pieces that jobs wait for again, in this incarnation.
func (n *node) uploadAgain(pieces []*nodev1.UploadRequest) {
	for _, piece := range pieces {
		if j := n.jobs[piece.GetJob()]; j == nil || j.result == nil {
			continue
		}
		own := proto.CloneOf(piece)
		own.Incarnation = n.incarnation
		n.uploads = append(n.uploads, own)
	}
}

// restart ends an incarnation and starts the next one.
func (n *node) restart(now time.Time, keep bool) {
	n.dead = false
	n.leave()
	if !keep {
		for _, number := range n.session.Jobs() {
			n.cluster.ledger.wiped(number)
		}
		clear(n.jobs)
		n.uploads, n.session = nil, nil
	}
	n.begin(now)
	n.catchUp(now)
}

// registered counts whether the node has a session.
func (n *node) registered(is bool) {
	if is != n.inTouch {
		n.inTouch = is
		if is {
			n.cluster.ledger.totals.Registered++
		} else {
			n.cluster.ledger.totals.Registered--
		}
	}
}

func (n *node) leave() { n.registered(false) }

func (n *node) speaks() bool { return !n.paused && !n.dead }

// wake replaces the plan for the next call.
func (n *node) wake(at time.Time) {
	n.plan++
	n.cluster.schedule(event{at: at, node: n, plan: n.plan})
}

// catchUp makes everything happen that was due while the agent did not run.
func (n *node) catchUp(now time.Time) {
	numbers := make([]uint64, 0, len(n.jobs))
	for number := range n.jobs {
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	for _, number := range numbers {
		if j := n.jobs[number]; !j.over {
			n.follow(now, j)
		}
	}
	n.wake(now)
}

// happen handles a due event. While the agent does not run it does nothing; the agent catches up later.
func (n *node) happen(now time.Time, e event) {
	switch {
	case !n.speaks():
	case e.job == nil && e.plan == n.plan:
		n.cluster.request(n)
	case e.job != nil && e.plan == e.job.plan && n.jobs[e.job.identity.GetNumber()] == e.job:
		n.follow(now, e.job)
	}
}

// obey carries out orders.
func (n *node) obey(now time.Time, orders nodeproto.Orders) {
	l := &n.cluster.ledger
	for _, start := range orders.Start {
		j := &job{identity: start.Identity, behaviour: n.cluster.config.Script(n.name, start), accepted: now}
		n.jobs[start.Identity.GetNumber()] = j
		l.started(now, n.name, start.Identity)
		n.follow(now, j)
	}
	for _, result := range orders.Ended {
		n.jobs[result.GetNumber()] = &job{identity: result.GetIdentity(), over: true}
		l.finished(now, n.name, result.GetIdentity(), result)
	}
	for _, order := range orders.Interrupt {
		j := n.jobs[order.GetNumber()]
		if j == nil || j.over {
			continue
		}
		l.totals.Interrupted++
		l.entries[order.GetNumber()].Interrupted = true
		after := j.behaviour.InterruptDelay
		state, reason := nodev1.JobState_JOB_STATE_INTERRUPTED, ""
		if timeout := nodeproto.Duration(order.GetTimeoutUs()); j.behaviour.IgnoreInterrupt || timeout > 0 && after > timeout {
			if timeout <= 0 {
				continue // it has no deadline
			}
			after = timeout
			state, reason = nodev1.JobState_JOB_STATE_ABORTED, or(order.GetAbortReason(), "interruption_timeout")
		}
		j.stop = stop{at: now.Add(after), state: state, reason: reason}
		n.follow(now, j)
	}
	for _, order := range orders.Abort {
		j := n.jobs[order.GetNumber()]
		if j == nil || j.over {
			continue
		}
		l.totals.Aborted++
		l.entries[order.GetNumber()].Aborted = true
		j.stop = stop{at: now.Add(j.behaviour.AbortDelay), state: nodev1.JobState_JOB_STATE_ABORTED, reason: or(order.GetAbortReason(), "other")}
		n.follow(now, j)
	}
	for _, number := range orders.Acknowledged {
		delete(n.jobs, number)
		l.acknowledged(now, number)
	}
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
