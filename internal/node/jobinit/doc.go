// Package jobinit is the first process of a job: it makes the job's surroundings, runs the command in them as a user
// without privileges, waits for it, and records how it ended.
//
// One small program per job does this (Main). Its parent starts it with open files at fixed descriptors (Launch), notes
// its process id, and only then sends the Plan, so that a job whose parent died before it was recorded never starts. The
// init is no descendant's reaper of last resort and no server: after the start it sleeps in wait, and its parent may die
// and be replaced. For a successor it keeps the reading ends of the command's output (KeptStdout, KeptStderr) and writes
// the end of the command into a file that was opened before the start (ReadExit).
//
// Depending on the level, a job has its own process, mount, ipc, host name and control group namespaces, a root made of
// the machine's programs alone, its own user, no capabilities, no way to gain any, and a filter of system calls.
//
// The same program is also the first process of a pod, where somebody else has made the surroundings (Pod): it reaps,
// forwards signals, passes the output on and counts what the command used, without privileges.
//
// The package must stay small: every job pays for the memory of one init and for starting it. It imports x/sys and a few
// packages of the standard library, and neither fmt nor encoding packages.
package jobinit
