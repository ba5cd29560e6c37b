// Package why explains what jobs wait for, by one ranked list of blockers for
// operations, jobs, pools and the cluster.
//
// A kind is the waiting jobs of one task in one tree. A round is one update and one
// heartbeat of every open node, in the order of their numbers, on a fork of the
// core. A kind starts now if a round starts a job of it; otherwise it has at least
// one blocker: a condition of its start that is false, with the amounts that show
// it. The two exclude each other.
//
//	Look               runs one round, which all later questions share
//	Scene.Operation    the kinds of an operation, with their blockers
//	Scene.Pool         what a pool demands and does not have, by first blocker
//	Scene.Job          a running job: its place, and what may preempt it
//	Scene.Advise       the least changes that let an operation start jobs
//
// The deciding code itself answers: conditions come from core.ExplainOperation,
// starts from core.Apply. The package knows no names of operations, only their
// numbers; texts take a function that names them.
package why
