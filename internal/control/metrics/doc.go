// Package metrics exports a scheduler's metrics to Prometheus: pools with their
// shares by cause, trees, nodes, operations, jobs, the store, the API and the process
// itself.
//
// It owns the names of metrics ([Definitions]; docs/metrics.md lists them) and the
// page that shows them. All values come from what the server publishes for readers
// and from its counters, so a scrape never waits for the server's loop, nor the loop
// for a scrape.
//
// The number of series is bounded. There are labels for trees, pools, resources and
// names that the program itself defines. There are none for operations, jobs, nodes,
// users or anything else that a request contains. The largest pools are shown one by
// one, see [Options.MaxPools]; the rest of each tree is summed up as one.
//
// It must not import the API or anything above it: [Metrics.Instrument] wraps the API
// like any handler.
package metrics
