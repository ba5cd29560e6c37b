// Package notify tells people and programs outside the cluster what has happened in it.
//
// The log of events is the outbox. An event is stored in the commit of what it tells, so no leader can carry out a change
// and lose its notification. Every target has a position in the log, which is stored too: the events before it were
// delivered, dropped, or do not concern the target. A leader that is killed between a delivery and the next position
// delivers again, under the same number, which receivers can compare.
//
// Administrators name targets in the configuration file: a webhook, or a command on the scheduler's machine. Users choose
// among these names and never choose an address.
//
// [Queue] decides what is sent, when and how often. It is pure: time comes in, messages come out. [Notifier] reads the log,
// sends and stores positions.
package notify
