// Package scheduling decides, inside one pool tree, which jobs start, wait or
// are preempted. It is a state machine without a clock: the caller reports
// pools, operations, nodes, heartbeats and the time, and applies the
// decisions it returns.
//
//	Update     computes fair shares, statuses, starvation, classes  (update.go)
//	Heartbeat  decides for one node, in stages                   (heartbeat.go)
//
//	regular      all operations, by satisfaction, into what is free
//	packing      one job that only packing kept waiting, if nothing has started
//	aggressive   aggressively starving operations, into what is free and what
//	             preemptible and aggressively preemptible allocations hold
//	normal       starving operations, into what is free and what preemptible
//	             allocations hold
//
// Elements, nodes and allocations have dense indices and are stored in flat
// slices. A decision touches one node and one path of the tree: the children
// of a pool are in a heap by satisfaction (by FIFO index in FIFO pools), and
// a pool is as satisfied as its least satisfied child, so a walk down the
// heads of the heaps finds the next operation to try.
//
// The package imports resource, nodefilter, pooltree and fairshare.
package scheduling
