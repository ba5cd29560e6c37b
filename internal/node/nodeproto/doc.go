// Package nodeproto owns the protocol between the scheduler and its nodes: the wire format
// (package nodev1), the transport of both ends (connect over HTTP/2, with TLS or without), who
// may speak (tokens, client certificates), and the two state machines that make an unreliable
// exchange of messages reliable: [Session] at the scheduler, [NodeSession] at the node. The
// state machines are pure: no clock, goroutine, lock or I/O; their owners serialise calls.
//
// It imports resource and must know neither the core nor the agent.
//
// # What is promised
//
// Nodes own their jobs. The scheduler may die and be replaced at any moment, messages may be
// lost, doubled, delayed and overtake each other, and still:
//
//   - a result is handed to the scheduler's upper layer once per session, and the node keeps it
//     until the scheduler confirms that it is durable;
//   - an order is carried out at most once, and a job number is started at most once;
//   - when messages get through again, both ends have the same picture.
//
// # Names of things
//
// An incarnation is one life of the agent's process. Its number is greater than those of all
// earlier incarnations of the node: the larger of the wall clock in nanoseconds and the last
// number kept on disk plus one ([NextIncarnation]).
//
// An epoch is one term of a leading scheduler; it comes with the lease and grows. A session is
// (epoch, number): what one leader and one incarnation have exchanged since a registration.
// Session numbers are not reused within an epoch.
//
// A sequence number counts requests of an incarnation, registrations and heartbeats alike. A
// node has at most one request in flight. When it abandons one, the next has a higher number.
//
// A job number is never reused, by any leader. A leader that does not store a start before
// ordering it must therefore draw numbers that its successors cannot draw; [JobNumber] puts the
// epoch into the high bits.
//
// # Registration
//
// Register carries the whole picture: every job with its identity, every result that is not
// acknowledged. The leader answers with the id of a new session and its settings, or refuses
// ([RefusedError]). The picture counts only from the first heartbeat of the new session on,
// because that heartbeat proves that the registration was the node's last word and no copy
// delayed in the network. Until then nothing may be concluded from it and nothing ordered.
//
// A registration is refused as stale if a request of the same incarnation with the same or a
// higher sequence number has been seen, and as an old incarnation's if a later one has been
// seen ([Session.Admits]).
// A node refuses a session of an epoch below one that it has seen: that leader was replaced.
//
// A node registers when it starts, when the scheduler requires it ([MustRegisterError]), and
// when its description changes. Orders of the old session become void at that moment on both
// ends: the node accepts no more responses of that session. A job that the scheduler ordered and
// that the new picture does not show was never started, and never will be. Such a job has ended
// (disappeared_from_node); its number is not ordered again.
//
// # Reports
//
// The report of a heartbeat is full or a delta. A delta has each item that changed since it was
// last confirmed, with its whole present value, never a difference, so applying one twice does
// no harm. An item is confirmed when the response to a request that carried it arrives. If a
// response is lost, the next delta carries the item again. The first heartbeat of a session is a
// delta to the registration, or full. A full report follows when the scheduler requests it
// (need_full), which it does when it cannot interpret a delta.
//
// The scheduler accepts a report only if its sequence number is higher than all it has seen. An
// equal one is a copy of the last: it changes nothing and is answered again. A lower one is
// answered with [StaleError], which the node no longer awaits.
//
// # Orders, and how a lost response is healed
//
// Orders of a session are numbered from 1 without gaps, in the order in which they are to be
// carried out. The scheduler remembers every order until the node has acknowledged it:
//
//	response   orders = all that are not acknowledged, oldest first (a limit may cut the end)
//	request    orders_seen = n: orders 1…n have been received, and the report shows their effect
//
// The next response repeats the orders of a lost one. The node skips orders up to n, so it
// carries out each order once. It accepts a response only if it answers the request in flight,
// in the present session; it drops a delayed one whole, because the next one repeats it.
//
// The scheduler forgets an order when orders_seen covers it. If the report does not show a job
// whose start is covered, the job is lost ([Report.Lost]).
//
// Before its next heartbeat the node makes durable what a restart of the agent must not forget:
// the identity of each started job before its process starts, that an interrupted job is
// interrupted, and which results are acknowledged. A job that was not made durable has not
// started.
//
// Orders are also idempotent by job number: a start of a job that the node has, an interrupt of
// an interrupted job, and an abort or an interrupt of a job that has ended or is unknown change
// nothing. A job that the node cannot start ends in a result like any other (aborted, with the
// reason). A start and an abort of one job in one response end in a result without a process.
//
// An order that no response has carried yet can be withdrawn ([Session.Abort] of a job whose
// start is still queued does so and reports that the job is over).
//
// # Results
//
// A finished job is reported by its result, once per session (again if the response to it was
// lost). The scheduler's upper layer receives it once per session in [Report.Finished], makes it
// durable, and only then calls [Session.Acknowledge]. The acknowledgement is an order like the
// others; on receiving it the node forgets the job, and once it is covered the session does. If
// the scheduler dies in between, the next session's registration brings the result again, and
// the upper layer, which finds it in its store, acknowledges it without a second effect.
//
// Output above the inline limit is sent by Upload before the result that refers to it.
//
// # Streams
//
// A caller who wants to see the output of a running job, or to run a shell in it, waits at the
// scheduler. An order of its own kind asks the node to connect, and the node answers with one
// Stream call: so nodes need no open port. The order is as reliable as others, but nothing depends
// on it: a caller that has gone is not found, and the stream ends. Streams end with the term of
// the leader and with the incarnation of the node.
//
// # Pace
//
// A node reports every period with a random splay; at once when a job finishes, when orders or
// results did not fit into a message (more), and when free resources come to dominate
// min_spare_resources; and with exponential backoff after an error or a skipped scheduling
// ([Pace]). A heartbeat with hold_us may wait at the scheduler: the response comes when there is an
// order, or when hold_us has passed, and the node then sends the next one. So orders need not wait
// for the node's next period, and an idle node costs one request per period as before. A node that
// has a result to report abandons a held heartbeat. The scheduler never holds a heartbeat that
// carries a result. While no scheduler says that it leads, it asks them all again at least once a
// period. Overload sheds the scheduling part first (scheduling_skipped), never
// acknowledgements.
//
// # Errors
//
// Details of errors are messages, and both ends see them as Go errors: [NotLeaderError] (ask
// this address), [MustRegisterError], [StaleError], [RefusedError]. [Client] follows the leader
// by itself. After any other error the request may or may not have been applied.
package nodeproto
