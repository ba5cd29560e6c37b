// Package jobproxy is the process beside each job, and the agent's client for it.
//
// A job proxy prepares the sandbox of one job, starts the user's command in a container, feeds and stores its streams,
// measures and limits its usage, and records how it ended. It is not part of the agent, so that a restart of the agent
// does not end jobs: it is a process of its own (Main), or one of many in the node's supervisor (Supervise), which runs
// commands under inits and whose successor adopts them. Everything about a job is in one directory, named after the job:
//
//	job.json      the description, written by the agent (Launch)
//	lock          held with flock as long as the proxy lives; passed from the agent, so there is no moment without it
//	control.sock  where the proxy receives orders and reports changes (Attach)
//	state.json    what the proxy last knew, replaced atomically
//	result.json   how the job ended, written once, durable before the proxy reports it
//	stderr.N      kept pieces of stderr, N is the offset of the first byte; stdout.N likewise (ReadOutput)
//	proxy.log     the log of the proxy itself
//	exit          how the command ended, written by its init
//	root          where the init assembles the job's root; nothing outside the job sees it there
//	changes       what the job has changed in its image; removed with them
//	passwd, group the accounts that a job with an image sees
//	sandbox, tmp  the working directory of the command, and its TMPDIR; removed when the job has ended
//
// A restarting agent checks each directory (Scan): if the lock is held it attaches; if there is a result it reads it;
// otherwise the proxy has died, and Recover ends what it left and writes the result for it. With a supervisor the agent
// first makes sure that one runs (Supervisor), which adopts what it can. A job is never started twice: a directory is
// made for one start of one proxy.
//
// The package uses the containers of room cgroup, the inits of room jobinit and the decisions of room cpumonitor. It must not import anything from
// the scheduler's side, and only few packages altogether: each job pays for the memory of its proxy.
package jobproxy
