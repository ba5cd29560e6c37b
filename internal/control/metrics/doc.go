// Package metrics shows a scheduler to Prometheus: pools with their shares by cause,
// trees, nodes, operations, jobs, the store, the API and the process itself.
//
// It owns the names of metrics ([Definitions]; docs/metrics.md lists them) and the
// page that has them. Everything comes from what the server publishes for readers
// and from its counters, so a scrape never waits for the server's loop, nor the loop
// for a scrape.
//
// The number of series is bounded. There are labels for trees, pools, resources and
// for names that the program itself has; there is none for an operation, a job, a
// node, a user or anything else that a request brings. Of pools the largest are shown
// one by one, see [Options.MaxPools], and the rest of each tree as one.
//
// It must not import the API or anything above it: the API is wrapped by
// [Metrics.Instrument] as any handler.
package metrics
