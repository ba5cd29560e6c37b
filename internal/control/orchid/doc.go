// Package orchid shows live state: pools, operations, jobs and nodes as the
// scheduler sees them now, below //sys/scheduler/orchid, //sys/operations and the
// orchids of nodes and agents.
//
// All readers share one picture of the core until the next update ([Current]).
// Operations and jobs that have ended come from the store and look the same
// ([OperationView], [JobView]). It changes nothing.
package orchid
