// Package ledger keeps the books of guarantees: what each pool was promised, what it
// asked for, what was due, what it got, and why it got less. [Preemptions] are the books
// of preemptions: who lost what to whom, and whether it went in circles. [Usage] has what
// pools, users and labels used.
//
// A [Claim] states what a pool may claim as of an update. [Claim.Split] divides what
// is due and was not got by cause; the parts sum to it exactly. A [Book] integrates
// claims over time into sums by hour, day and month of UTC. Usage changes whenever jobs start and
// end, everything else at updates only. Sums are amounts × microseconds in 128-bit
// integers, so nothing is rounded and the order of changes does not matter.
//
// The owner of a book stores the rows that [Book.Flush] returns, all in one commit
// with the time of the flush. A book that [Restore] makes of them continues where the flush ended:
// nothing that was flushed is lost or counted twice. It accounts the time without a
// leader as [SchedulerAway].
//
// The package has no clock and stores nothing.
package ledger
