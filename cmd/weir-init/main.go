// Command weir-init is the first process of a job; see package jobinit. Supervisors start it, people do not. With --pod it
// is the first process of a pod:
//
//	weir-init --pod [--result FILE] [--interruption-signal NAME] [--] COMMAND [ARGUMENT...]
package main

import (
	"os"

	"github.com/weirhq/weir/internal/node/jobinit"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == jobinit.PodFlag {
		os.Exit(jobinit.Pod(os.Args[2:]))
	}
	os.Exit(jobinit.Main())
}
