// Command weir-init is the first process of a job; see package jobinit. Supervisors start it, people do not.
package main

import (
	"os"

	"github.com/weirhq/weir/internal/node/jobinit"
)

func main() { os.Exit(jobinit.Main()) }
