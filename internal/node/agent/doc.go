// Package agent is the node's side of the cluster: it registers, reports, starts and ends jobs through their proxies,
// counts the memory of the node, and keeps results until the scheduler says that they are durable.
//
// One goroutine owns everything (loop); others wait for one thing each (a call to the scheduler, the proxy of a job,
// an upload) and tell the loop by an event. What must survive the agent is in directories of jobs, which are the
// proxies': an agent that begins looks at them, goes on with jobs that run and reports those that ended meanwhile.
// Ending the agent does not end jobs.
//
//	data directory   incarnation   the number of the last life of the agent
//	                 jobs/ID       one directory for each job, see package jobproxy
//
// # Memory of the node
//
// Each job asks for as much memory as it was given, and for more as it grows (requested never falls). While the sum
// fits the node a job above its reserve lives. When it does not, a job that uses more than it was given ends with
// resource_overdraft: the one that grows, or another one; never one within its reserve.
package agent
