// Command weir-init is the first process of a job; see package jobinit. Supervisors start it, people do not. With --pod it
// is the first process of a pod:
//
//	weir-init --pod [--result FILE] [--interruption-signal NAME] [--] COMMAND [ARGUMENT...]
//
// With --session it becomes a process beside the pod's command, and with --end-session it ends one:
//
//	weir-init --session ID [--env NAME=VALUE]... [--] COMMAND [ARGUMENT...]
//	weir-init --end-session ID
package main

import (
	"os"

	"github.com/weirhq/weir/internal/node/jobinit"
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case jobinit.PodFlag:
			os.Exit(jobinit.Pod(os.Args[2:]))
		case jobinit.SessionFlag:
			os.Exit(jobinit.Session(os.Args[2:]))
		case jobinit.EndSessionFlag:
			os.Exit(jobinit.EndSession(os.Args[2:]))
		}
	}
	os.Exit(jobinit.Main())
}
