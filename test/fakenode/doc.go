// Package fakenode provides nodes for tests: thousands in one process, which speak the real protocol of
// package nodeproto and run jobs by script. It keeps a ledger of every job that started, ended and was
// acknowledged, so that a test can check that nothing was lost and nothing ran twice.
//
// One goroutine owns all nodes; a fixed number of others make calls. Time comes from a Clock. The
// package imports nodeproto and resource, and must not know the real agent.
package fakenode
