// Command proxy is a job proxy and nothing else, to measure what one takes.
package main

import (
	"os"

	"github.com/weirhq/weir/internal/node/jobproxy"
)

func main() { os.Exit(jobproxy.Main(os.Args[1])) }
