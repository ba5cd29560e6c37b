// Command weir-pod is the first process of the pod of a job; see packages jobinit and podfiles. Pods start it, people do not:
//
//	weir-pod --pod [--result FILE] [--interruption-signal NAME] [--kill-after SECONDS] [--memory-limit BYTES] [--] COMMAND [ARGUMENT...]
//
// With --session it becomes a process beside the pod's command, and with --end-session it ends one:
//
//	weir-pod --session ID [--env NAME=VALUE]... [--] COMMAND [ARGUMENT...]
//	weir-pod --end-session ID
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/weirhq/weir/internal/node/jobinit"
	"github.com/weirhq/weir/internal/node/podfiles"
)

func main() {
	var mode string
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	switch mode {
	case jobinit.PodFlag:
		files, err := filesOf(os.Environ())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		os.Exit(jobinit.Pod(os.Args[2:], files))
	case jobinit.SessionFlag:
		os.Exit(jobinit.Session(os.Args[2:]))
	case jobinit.EndSessionFlag:
		os.Exit(jobinit.EndSession(os.Args[2:]))
	}
	fmt.Fprintln(os.Stderr, "weir-pod: pods of Weir's jobs start this program")
	os.Exit(2)
}

// filesOf returns what a pod does with files, by its environment.
func filesOf(environment []string) (files jobinit.PodFiles, err error) {
	var plan *podfiles.Plan
	for _, entry := range environment {
		text, found := strings.CutPrefix(entry, podfiles.Variable+"=")
		if !found {
			files.Environment = append(files.Environment, entry)
			continue
		}
		if plan, err = podfiles.Read(text); err != nil {
			return files, err
		}
	}
	if plan == nil {
		return files, nil
	}
	files.Prepare = func() error { return plan.Prepare(context.Background()) }
	files.Keep = func(completed, asked bool) string {
		if !plan.Keeps(completed, asked) {
			return ""
		}
		text, err := json.Marshal(plan.Keep(context.Background()))
		if err != nil {
			return ""
		}
		return string(text)
	}
	return files, nil
}
