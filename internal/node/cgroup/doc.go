// Package cgroup makes containers for jobs with the kernel's means: control groups, version 1, version 2 or both at
// once, and plain process limits where there are none.
//
// It owns: detecting what a machine offers and why not more (Detect), creating a container with limits, starting a
// process that is inside before its program starts (Start), changing the CPU guarantee while it runs, measuring CPU
// time and memory, detecting that the kernel killed a process for lack of memory, killing everything inside,
// removing the container, and listing the containers that an earlier incarnation of the node left.
//
// A Driver and its Containers keep no state outside the kernel, so any process may open a container by name: the
// job proxy that made it, or the agent that cleans up after a proxy that died.
//
// It knows nothing about jobs, operations or schedulers and must not import their rooms.
package cgroup
