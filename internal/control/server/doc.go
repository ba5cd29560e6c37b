// Package server is the daemon around a core: it drains requests, lets one
// goroutine apply them to the core, makes durable what must be, and only then
// answers.
//
// # One owner
//
// A [Server] leads or stands by. While it leads there is a term, and the term's
// loop is the only goroutine that touches the core. Requests are closures that
// the loop runs one after the other; what they change is collected as rows.
//
//	requests ─► loop ─► core            rows and answers of many requests
//	              │                              │
//	              └──► batch ──► committer ──► store (one transaction, one fsync)
//	                                  │
//	                                  └──► answers leave, readers see the change
//
// While a batch is being committed the loop goes on and fills the next one. An
// answer leaves when the batch that was open when its request ran is on disk, so
// nothing is told that could be forgotten.
//
// # Effects and the commits they wait for
//
// Requests change the core at once; what others notice of it waits in the open batch
// and is released in one place, when the batch is on disk (term.settle):
//
//	answer to a request             the batch that was open when it ran
//	start, interrupt, abort orders  the batch with the rows of the decision
//	acknowledgement of a result     the batch with the end of the job
//	records of operations           the batch with their rows
//	the index of operations         every batch, before anybody is answered
//
// Two effects wait for nothing, because a successor finds them again: the figures of
// running jobs and nodes that readers see, and the answer to a heartbeat that reports
// no result and for whose node no order waits. While the store is stalled heartbeats
// are answered with what is durable, and with no word about the rest. Orders are held
// back by the session ([nodeproto.Session.After]); nothing else writes to a node.
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
// Its controller's snapshot whenever more happened than the end of a job, and
// the ends of jobs as rows. A new leader restores the snapshot, repeats the ends
// after it, and takes up the jobs that run. These are rows too, written before their
// orders leave, so a new leader knows what each node may run before the node reports. It
// schedules at once on nodes that have reported; what the others may run is held back
// ([Server.HeldBack]) until they report or are given up. Only where an earlier version led,
// which stored no running jobs, nothing is scheduled before the nodes had their chance.
//
// # Losing the lead
//
// A server leads until the end of the last lease that the store confirmed, counted
// by its own monotonic clock from before it asked, less a margin. Then it refuses
// everybody, nodes included, until the store has confirmed the lease again; after one
// lease period without a word it drops its core and stands by. [Server.Standing] says
// why. Every commit carries the epoch of the lease, so a leader that was paused and
// replaced is refused by the store. None of its answers left, because they waited for
// the commit, and an answer leaves only while the lease holds.
package server
