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

	"github.com/weirhq/weir/internal/cli"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks the command to finish; once it has arrived the
	// default handling is back, so that a second one ends a command that does not listen.
	context.AfterFunc(ctx, stop)
	return cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}
