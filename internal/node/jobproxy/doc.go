// Package jobproxy is the process beside each job, and the agent's client for it.
//
// A job proxy prepares the sandbox of one job, starts the user's command in a container, feeds and stores its streams,
// measures and limits its usage, and records how it ended. It is a separate process so that a restart of the agent does
// not end jobs. Everything about a job is in one directory, named after the job:
//
//	job.json      the description, written by the agent (Launch)
//	lock          held with flock as long as the proxy lives; passed from the agent, so there is no moment without it
//	control.sock  where the proxy receives orders and reports changes (Attach)
//	state.json    what the proxy last knew, replaced atomically
//	result.json   how the job ended, written once, durable before the proxy reports it
//	stderr.N      kept pieces of stderr, N is the offset of the first byte; stdout.N likewise (ReadOutput)
//	proxy.log     the log of the proxy itself
//	sandbox, tmp  the working directory of the command, and its TMPDIR; removed when the job has ended
//
// A restarting agent checks each directory (Scan): if the lock is held it attaches; if there is a result it reads it;
// otherwise the proxy has died, and Recover ends what it left and writes the result for it. A job is never started
// twice: a directory is made for one start of one proxy.
//
// The package uses the containers of room cgroup and the decisions of room cpumonitor. It must not import anything from
// the scheduler's side, and only few packages altogether: each job pays for the memory of its proxy.
package jobproxy
