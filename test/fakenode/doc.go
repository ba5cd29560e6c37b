// Package fakenode is nodes for tests: thousands in one process, which speak the protocol of
// package nodeproto for real and run jobs by script. It keeps a ledger of every job that was
// begun, ended and acknowledged, so that a test can check that nothing was lost and nothing
// ran twice.
//
// One goroutine owns all nodes; a fixed number of others make calls. Time comes from a Clock.
// It imports nodeproto and resource, and must know nothing of the real agent.
package fakenode
