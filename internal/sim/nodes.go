package sim

import (
	"fmt"
	"slices"

	"github.com/weirhq/weir/internal/sim/scenario"
	"github.com/weirhq/weir/internal/value/resource"
)

// node is a machine of the scenario.
type node struct {
	name  string
	group int32
	alive bool
	// resources are those of its group unless it was resized.
	resources resource.Amounts
	// reportPlanned says that there is an out-of-band heartbeat in the queue.
	reportPlanned bool
	// first is the slot of one of its jobs, -1 if it has none.
	first    int32
	running  int32
	usage    resource.Amounts
	finished []int32 // slots of jobs that are over and not reported
}

func (r *run) group(n *node) *scenario.NodeGroup { return &r.scenario.Nodes[n.group] }

func (r *run) makeNodes() {
	for g := range r.scenario.Nodes {
		group := &r.scenario.Nodes[g]
		for i := range group.Count {
			name := group.Name
			if !group.Single {
				name = fmt.Sprintf("%s-%d", group.Name, i+1)
			}
			r.nodes = append(r.nodes, node{name: name, group: int32(g), resources: group.Resources, first: -1})
		}
	}
}

// addNode makes a node known to the system.
func (r *run) addNode(id NodeID) error {
	n := &r.nodes[id]
	group := r.group(n)
	if err := r.apply(AddNode{Node: id, Name: n.name, Resources: n.resources, Tags: group.Tags}); err != nil {
		return err
	}
	if n.first >= 0 {
		r.fail("still counts job %d on node %s, which has come back empty", r.jobs.table[n.first].id, n.name)
	}
	n.alive = true
	r.books.capacity(r.now, n.resources, +1)
	return nil
}

// loseNode ends everything on a node. The system is told unless it has to find
// out by itself.
func (r *run) loseNode(id NodeID, silently bool) error {
	n := &r.nodes[id]
	n.alive = false
	r.books.capacity(r.now, n.resources, -1)
	for slot := n.first; slot >= 0; slot = r.jobs.table[slot].next {
		r.die(slot)
	}
	n.finished = n.finished[:0]
	if silently {
		return nil
	}
	if err := r.apply(RemoveNode{Node: id}); err != nil {
		return err
	}
	if n.first >= 0 {
		r.fail("does not stop job %d of node %s, which is gone", r.jobs.table[n.first].id, n.name)
	}
	return nil
}

// resizeNode changes what a node has.
func (r *run) resizeNode(id NodeID, resources resource.Amounts) error {
	n := &r.nodes[id]
	if err := r.apply(ResizeNode{Node: id, Resources: resources}); err != nil {
		return err
	}
	r.books.capacity(r.now, n.resources, -1)
	n.resources = resources
	r.books.capacity(r.now, n.resources, +1)
	return nil
}

// nodesOf returns the first nodes of a group that are alive or not.
func (r *run) nodesOf(group string, alive bool, count int) (ids []NodeID) {
	for i := range r.nodes {
		if len(ids) == count {
			break
		}
		if n := &r.nodes[i]; n.alive == alive && r.group(n).Name == group {
			ids = append(ids, NodeID(i))
		}
	}
	return ids
}

// planReport puts an out-of-band heartbeat of a node into the queue, one for all
// jobs that finish at this moment.
func (r *run) planReport(id NodeID) {
	if n := &r.nodes[id]; !n.reportPlanned {
		n.reportPlanned = true
		r.queue.push(r.now, kindOutOfBand, int32(id), 0)
	}
}

func (r *run) outOfBand(id NodeID) {
	n := &r.nodes[id]
	n.reportPlanned = false
	if n.alive && len(n.finished) > 0 {
		r.heartbeat(id)
	}
}

// heartbeat lets a node report what has finished, and does what it is told.
func (r *run) heartbeat(id NodeID) {
	r.work.Heartbeats++
	n := &r.nodes[id]
	r.out.reset()
	r.systemMoves()
	if len(n.finished) == 0 {
		r.system.Heartbeat(r.date(), id, nil, &r.out)
		if len(r.out.Started) > 0 || len(r.out.Stopped) > 0 || len(r.out.Operations) > 0 || len(r.out.Placed) > 0 {
			r.absorb()
		}
		return
	}
	finished := r.jobs.report[:0]
	for _, slot := range n.finished {
		j := &r.jobs.table[slot]
		finished = append(finished, Finished{Job: j.id, Aborted: j.state == jobAborted})
		r.settle(slot)
	}
	r.jobs.report = finished
	n.finished = n.finished[:0]
	r.system.Heartbeat(r.date(), id, finished, &r.out)
	r.absorb()
	r.settleClosing()
}

// forgetReport takes a job off the list of those to be reported.
func (n *node) forgetReport(slot int32) {
	if i := slices.Index(n.finished, slot); i >= 0 {
		n.finished = slices.Delete(n.finished, i, i+1)
	}
}
