// Command weir-supervisor hosts the jobs of a node; see package jobproxy. Agents start it, people do not:
//
//	weir-supervisor INIT DIRECTORY    the path of weir-init, and the node's data directory
package main

import (
	"fmt"
	"os"

	"github.com/weirhq/weir/internal/node/jobproxy"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "weir-supervisor: agents start it, people do not")
		os.Exit(2)
	}
	os.Exit(jobproxy.Supervise(os.Args[2], []string{os.Args[1]}))
}
