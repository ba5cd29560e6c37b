// Package cluster holds end-to-end tests: schedulers, agents and jobs as real processes, in real control groups, with
// real file systems in memory. Each test is named after the sentence of the documents, or of the promise, that it
// tests. There is no code here but tests, so nothing can import it.
//
// Most tests have the scheduler inside the test, where its state can be looked at, and agents as processes of their
// own (newCluster, startNode). Those that kill the scheduler have it as a process too (newRealCluster). The program is
// built once, plainly: what is built for finding races uses more memory than it is told to. Races are looked for in
// the tests of package app, which have everything in one process.
//
// After each test nothing may be left: no process, no control group, no mount, no directory of a job.
//
// make test runs the tests that are not long (-short), make faults all of them.
//
// Without root, or without control groups, the tests skip and say so; so do those of a cut network without network
// namespaces.
//
//	WEIR_FAULTS=20        how often each fault is made, instead of twice
//	WEIR_SEED=1           from which the moments of faults are drawn, instead of from the clock
//	WEIR_BINARY=bin/weir  a program to test, instead of building one
//	WEIR_LOGS=1           show what the daemons say, also when a test passes
package cluster
