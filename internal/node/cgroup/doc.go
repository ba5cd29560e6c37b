// Package cgroup makes containers for jobs by the kernel's own means: control groups, version 1, version 2 or
// both at once, and plain process limits where there are none.
//
// It owns: finding out what a machine offers and why not more (Detect), creating a container with limits, starting
// a process that is inside before its program begins (Start), changing the CPU guarantee while it runs, measuring
// CPU time and memory, noticing that the kernel killed for lack of memory, ending everything inside, removing the
// container, and listing what an earlier life of the node left behind.
//
// A Driver and its Containers keep nothing outside the kernel, so any process may open a container by name: the job
// proxy that made it, or the agent that clears up after a proxy that died.
//
// It knows nothing of jobs, operations or schedulers and must not import their rooms.
package cgroup
