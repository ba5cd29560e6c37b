// Command reference is the reference program by itself: a test binary, built for finding races, uses more than it is told.
package main

import (
	"os"

	"github.com/weirhq/weir/internal/node/cgroup/reference"
)

func main() { os.Exit(reference.Main(os.Args[1:])) }
