// Package agent is the node's side of the cluster: it registers, reports, starts and ends jobs through their proxies,
// accounts for the node's memory, and keeps results until the scheduler confirms that they are durable.
//
// One goroutine owns all state (loop). The other goroutines each wait for one thing (a call to the scheduler, a job's
// proxy, an upload) and post an event to the loop. State that must survive the agent is in the job directories, which
// the proxies own: a starting agent scans them, adopts the running jobs and reports those that have ended meanwhile.
// Stopping the agent does not end jobs.
//
//	data directory   incarnation   the number of the last life of the agent
//	                 jobs/ID       one directory for each job, see package jobproxy
//
// # Memory of the node
//
// Each job requests the memory it was given, and more as it grows (requested never falls). While the sum fits the
// node, a job above its reserve keeps running. When the sum does not fit, a job above its reserve is aborted with
// resource_overdraft: the job that grew, or another one, but never a job within its reserve.
package agent
