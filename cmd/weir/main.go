// Command weir is the one binary of the project: see `weir help`.
//
// It turns signals into a cancelled context, calls package cli and exits once;
// everything else belongs to the rooms below.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/weirhq/weir/internal/command/cli"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks the command to finish. A moment later the default
	// handling is back, so that another one ends a command that does not listen; not
	// at once, because some senders signal a process and its group.
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	return cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}
