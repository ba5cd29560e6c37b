// Package operation owns one operation: what the user requested ([Spec]), its
// state and history ([Life]), and which of its jobs wait, run and are done
// ([Controller]).
//
// # Specification
//
// Option tables read a document. The result has three separate parts: the
// specification as given, the resulting specification (every default filled
// in, under primary names), and the keys that no table knows.
//
// # Life
//
//	starting ──► waiting_for_agent ──► initializing ──► preparing ──► pending ──► materializing ──► running
//	                 │    ▲                                              ▲   │                        ▲  │
//	                 │    │        revive_initializing ──► reviving ─────┘   └─► reviving_jobs ───────┘  │
//	                 │    │                  ▲                          (revived with its jobs)          │
//	                 └────┼──────────────────┘ (revived)                                                 │
//	                      │                                                                              │
//	                  orphaned ◄── every state from waiting_for_agent to running                         │
//	                                                                                                     ▼
//	    every unfinished state ──► aborting ──► aborted                                             completing
//	    every unfinished state ──► failing ───► failed   ◄── (the commit failed) ───────────────────────┤
//	                                                                                                     ▼
//	                                                                                                 completed
//
// The table of transitions in state.go is authoritative; docs/operations.md
// shows it. Suspended is a flag in addition to the state.
//
// # Controller
//
// Each task has a group of equal jobs with the cookies 0..job_count-1. A cookie
// is in exactly one of three sets:
//
//	pending ── Schedule ──► running ── JobCompleted ──► done
//	   ▲                       │                          │
//	   └── failed, aborted ────┘                          │
//	   └── a gang restarts, completed jobs are restarted ─┘
//
// Pending cookies are a range that never ran and a bitmap of cookies that
// returned, so a million waiting jobs need only a few words; the resources
// that they need are kept as a sum. Tasks are ordered as in the
// specification, retries come before jobs that never ran, smaller cookies
// first.
//
// # Memory
//
// A job gets memory for the user's process and for its proxy. The amounts are
// learnt per task: each process has a digest of what ended jobs have used,
// and a quantile of it is the reserve of new jobs ([MemoryConfig], [Usage]).
// A job that was aborted because it used more than that gets more at its next
// start.
//
// The package is pure: time is an input, effects are the output, and nothing
// happens by itself. It imports document, resource, pooltree, digest and
// cpumonitor, and must not know about nodes (except the names of banned
// nodes), shares or other operations.
package operation
