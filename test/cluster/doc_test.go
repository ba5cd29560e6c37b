// Package cluster holds end-to-end tests: schedulers, agents and jobs as real processes, in real
// control groups, with real file systems in memory. Each test is named after the sentence of the
// documents, or the guarantee, that it tests. The package contains only tests, so nothing can import
// it.
//
// In most tests the scheduler runs in the test's process, where tests can inspect its state, and agents
// run in their own processes (newCluster, startNode). Tests that kill the scheduler run it as a process
// too (newRealCluster). The program is built once, without the race detector, whose builds use more
// memory than they are asked to. The tests of package app, which run everything in one process, find
// races.
//
// After each test nothing may be left: no process, no control group, no mount, no directory of a job.
//
// make test runs the short tests (-short), make faults all of them.
//
// Without root or control groups the tests skip and report it. Tests that cut the network also skip
// without network namespaces.
//
//	WEIR_FAULTS=20        how often each fault is injected, instead of twice
//	WEIR_SEED=1           the seed for the moments of faults, instead of the clock
//	WEIR_BINARY=bin/weir  the program to test, instead of building one
//	WEIR_LOGS=1           show the daemons' logs even when a test passes
package cluster
