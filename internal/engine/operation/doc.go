// Package operation owns one operation: what the user asked for ([Spec]), where
// it is in its life ([Life]), and which of its jobs wait, run and are done
// ([Controller]).
//
// # Specification
//
// A document is read by option tables. Three things come out and are kept apart:
// the specification as it was given, the resulting one (every default filled in,
// under primary names), and keys that no table knows.
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
// The table of transitions in state.go is the law, and docs/operations.md shows
// it. Suspended is a flag beside the state.
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
// Pending cookies are a range that never ran and a bitmap of those that came
// back, so a million waiting jobs take a few words; what all of them need is kept
// as a sum. Tasks come in the order of the specification, retries before jobs that
// never ran, smaller cookies first.
//
// # Memory
//
// A job is given memory for the user's process and for its proxy. How much is
// learnt per task: each process has a digest of what ended jobs have used, of
// which a quantile is the reserve of new ones ([MemoryConfig], [Usage]). A job
// that was aborted because it took more than that gets more at its next start.
//
// The package is pure: time comes in, effects go out, nothing happens by itself.
// It imports document, resource, pooltree, digest and cpumonitor, and must not
// know of nodes (but for the names of those it avoids), shares or other
// operations.
package operation
