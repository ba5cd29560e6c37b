package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/sim/distribution"
	"github.com/weirhq/weir/internal/value/resource"
)

// node is a machine.
type node struct {
	name  string
	group string
	tags  []string
	// resources are those of its group unless it was resized.
	resources resource.Amounts
	// reportPlanned reports whether an out-of-band heartbeat is in the queue.
	reportPlanned bool
	// first is the slot of one of its jobs, -1 if it has none.
	first    int32
	running  int32
	usage    resource.Amounts
	finished []int32 // slots of ended jobs that are not reported yet
}

// pulse is the part of a node that a heartbeat without news needs. It is separate
// because there are many of them.
type pulse struct {
	alive  bool
	news   bool // finished may not be empty
	closed bool // it gets no jobs
}

// makeNodes makes the nodes of the scenario.
func (r *run) makeNodes() {
	for g := range r.scenario.Nodes {
		group := &r.scenario.Nodes[g]
		for i := range group.Count {
			name := group.Name
			if !group.Single {
				name = fmt.Sprintf("%s-%d", group.Name, i+1)
			}
			r.pulses = append(r.pulses, pulse{})
			r.nodes = append(r.nodes, node{name: name, group: group.Name, tags: group.Tags, resources: group.Resources, first: -1})
		}
	}
}

// places returns when in the period each node reports: nodes that the core had
// at the start keep their time, others get a random one.
func (r *run) places(known int) []core.Beat {
	seed := distribution.Seed(r.scenario.Seed).Named("heartbeats")
	var places []core.Beat
	for i := range r.nodes {
		id := core.NodeID(i)
		if i < known {
			if r.pulses[i].alive {
				places = append(places, core.Beat{After: r.start.phase(id, r.scenario), Node: id})
			}
			continue
		}
		stream := seed.At(i).Stream()
		offset := stream.Float64() * float64(r.scenario.HeartbeatPeriod)
		places = append(places, core.Beat{After: time.Duration(offset).Truncate(time.Millisecond), Node: id})
	}
	return places
}

// addNode adds a node to the core.
func (r *run) addNode(id core.NodeID) error {
	n := &r.nodes[id]
	if err := r.apply(&core.NodeInput{Node: id, Name: n.name, Resources: n.resources, Tags: n.tags}); err != nil {
		return err
	}
	if n.first >= 0 {
		r.fail("still counts job %d on node %s, which has come back empty", r.jobs.table[n.first].id, n.name)
	}
	r.pulses[id].alive = true
	r.promises.nodesMove()
	r.books.room.enter(r.now, n.resources, 1)
	return nil
}

// loseNode ends everything on a node. The core is notified unless it has to
// detect the loss by itself.
func (r *run) loseNode(id core.NodeID, silently bool) error {
	n := &r.nodes[id]
	r.pulses[id].alive = false
	r.promises.nodesMove()
	r.books.room.exit(r.now, n.resources, 1)
	for slot := n.first; slot >= 0; slot = r.jobs.table[slot].next {
		r.die(slot)
	}
	n.finished = n.finished[:0]
	if silently {
		return nil
	}
	r.happens(&core.NodeLossInput{Node: id})
	if n.first >= 0 {
		r.fail("does not stop job %d of node %s, which is gone", r.jobs.table[n.first].id, n.name)
	}
	return nil
}

// resizeNode changes a node's resources.
func (r *run) resizeNode(id core.NodeID, resources resource.Amounts) error {
	n := &r.nodes[id]
	if err := r.apply(&core.NodeInput{Node: id, Name: n.name, Resources: resources, Tags: n.tags}); err != nil {
		return err
	}
	r.books.room.exit(r.now, n.resources, 1)
	n.resources = resources
	r.books.room.enter(r.now, n.resources, 1)
	return nil
}

// nodesOf returns the first nodes of a group that are alive, or that are not.
func (r *run) nodesOf(group string, alive bool, count int) (ids []core.NodeID) {
	for i := range r.nodes {
		if len(ids) == count {
			break
		}
		if r.pulses[i].alive == alive && r.nodes[i].group == group {
			ids = append(ids, core.NodeID(i))
		}
	}
	return ids
}

// planReport queues an out-of-band heartbeat of a node, one for all jobs that
// finish at this moment.
func (r *run) planReport(id core.NodeID) {
	if n := &r.nodes[id]; !n.reportPlanned {
		n.reportPlanned = true
		r.queue.push(r.now, kindOutOfBand, int32(id), 0)
	}
}

func (r *run) outOfBand(id core.NodeID) {
	n := &r.nodes[id]
	n.reportPlanned = false
	if r.pulses[id].alive && len(n.finished) > 0 {
		r.heartbeat(id)
	}
}

// heartbeat makes a node report what has finished, and carries out its orders.
func (r *run) heartbeat(id core.NodeID) {
	r.work.Heartbeats++
	finished := r.jobs.report[:0]
	if r.pulses[id].news {
		r.pulses[id].news = false
		n := &r.nodes[id]
		for _, slot := range n.finished {
			j := &r.jobs.table[slot]
			state := core.JobCompleted
			if j.state == jobAborted {
				state = core.JobAborted
			}
			finished = append(finished, core.Finished{Job: j.id, State: state})
			r.left(j.id)
			r.settle(slot)
		}
		n.finished = n.finished[:0]
	}
	r.jobs.report = finished
	if r.pulses[id].closed || r.now < r.closedUntil {
		r.reportOnly(id, finished)
		return
	}
	r.beat = core.HeartbeatInput{Node: id, Finished: finished}
	pools, views := r.poolsKnown, r.viewsKnown
	r.happens(&r.beat)
	if len(finished)+len(r.out.Started)+len(r.out.Stopped)+len(r.out.Operations) == 0 {
		r.poolsKnown, r.viewsKnown = pools, views // nothing that is observed has changed
	}
	if len(r.waiting) > 0 {
		r.releaseWaiting(id)
	}
	if len(finished) > 0 {
		r.settleClosing()
	}
}

// reportOnly makes a node that gets no jobs report what has finished.
func (r *run) reportOnly(id core.NodeID, finished []core.Finished) {
	if len(finished) > 0 {
		r.happens(&core.ReportInput{Finished: finished})
	}
	r.happens(&core.SeenInput{Node: id})
	if len(r.waiting) > 0 {
		r.releaseWaiting(id)
	}
	if len(finished) > 0 {
		r.settleClosing()
	}
}

// forgetReport removes a job from the list of jobs to report.
func (n *node) forgetReport(slot int32) {
	if i := slices.Index(n.finished, slot); i >= 0 {
		n.finished = slices.Delete(n.finished, i, i+1)
	}
}
