// Package server is the daemon around a core. It collects requests, applies them
// to the core on one goroutine, commits the resulting rows, and answers after the
// commit.
//
// # One owner
//
// A [Server] leads or stands by. While it leads it has a term, and the term's
// loop is the only goroutine that accesses the core. Requests are closures that
// the loop runs one after another; their changes are collected as rows.
//
//	requests ─► loop ─► core            rows and answers of many requests
//	              │                              │
//	              └──► batch ──► committer ──► store (one transaction, one fsync)
//	                                  │
//	                                  └──► answers are sent, readers see the change
//
// While a batch is being committed, the loop fills the next one. The server answers
// a request after the batch that was open when it ran is on disk, so it never
// acknowledges a change that a crash could lose.
//
// # Effects and the commits they wait for
//
// Requests change the core at once. Their visible effects wait in the open batch and
// are released in one place, when the batch is on disk (term.settle):
//
//	answer to a request             the batch that was open when it ran
//	start, interrupt, abort orders  the batch with the rows of the decision
//	acknowledgement of a result     the batch with the end of the job
//	records of operations           the batch with their rows
//	the index of operations         every batch, before any caller is answered
//
// Two effects do not wait, because a successor can reconstruct them: the figures of
// running jobs and nodes that readers see, and the answer to a heartbeat that reports
// no result and whose node has no pending orders. While the store is stalled, answers
// to heartbeats contain only what is durable. The session holds orders back
// ([nodeproto.Session.After]); nothing else writes to a node.
//
// # Transactions
//
// A request changes everything or nothing. [Server.Edit] takes the edits of pool trees
// and of the registry that one command makes, and commits them in one batch. Later edits
// see earlier ones. If an edit or the core refuses, the server undoes the draft of the
// registry, and nothing has changed.
//
// # Bad rows
//
// A row of pools, trees or tokens that cannot be read does not keep a server from
// leading: it is left out, stays in the store, and raises an alert.
//
// # Readers
//
// Readers do not wait for the loop. They have [Server.View], whose [core.Picture]
// is everything that the core knew after the last update. Every update publishes
// the next picture, which copies what has changed; live state, metrics, charts and
// events all read it. Beside it are the directories of operations, jobs and nodes,
// whose entries are immutable and replaced. [Server.ListOperations] answers most
// filters from an index of all operations, which learns of every commit before
// anybody hears of it. A standby reads what has changed in
// the store since it looked last.
//
// # What is stored of an operation
//
// The server stores the controller's snapshot whenever more than the end of a job has
// happened, and the ends of jobs as rows. A new leader restores the snapshot, replays
// the ends after it, and adopts the running jobs. Running jobs are rows too, written
// before their orders are sent, so a new leader knows what each node may run before the
// node reports. It schedules at once on nodes that have reported. What the other nodes
// may run is held back ([Server.HeldBack]) until they report or are given up. If the
// previous leader was an earlier version, which stored no running jobs, the new leader
// schedules nothing until the nodes have had their chance to report.
//
// # Losing the lead
//
// A server leads until the end of the last lease that the store confirmed, less a
// margin. It measures the lease on its own monotonic clock, from just before its request.
// After that it refuses all requests, including those of nodes, until the store confirms
// the lease again. After one lease period without confirmation it drops its core and
// stands by. [Server.Standing] returns the reason. Every commit carries the epoch of the
// lease, so the store refuses the commits of a leader that was paused and replaced. None
// of that leader's answers were sent: they waited for the commit, and an answer is sent
// only while the lease is valid.
//
// A standby takes the lease when it has seen it unchanged for its whole length, also by its
// own monotonic clock ([store.Store.Acquire]). Wall clocks decide nothing.
package server
