package client_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/command/app"
	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/fakenode"
)

// address is the address of the examples' scheduler.
var address string

// TestMain runs the tests and examples with a scheduler and two fake nodes of eight cores,
// which only pretend to run jobs.
func TestMain(m *testing.M) {
	code, err := withCluster(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withCluster(run func() int) (code int, err error) {
	directory, err := os.MkdirTemp("", "weir-client-*")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(directory)
	settings := config.Default().Scheduler
	settings.Listen, settings.DataDir = document.Some("127.0.0.1:0"), document.Some(directory)
	settings.TrustLoopback = document.Some(true)
	settings.Periods.FairShareUpdate = document.Some(20 * time.Millisecond)
	settings.Periods.OperationsUpdate = document.Some(20 * time.Millisecond)
	settings.Nodes.HeartbeatPeriod = document.Some(20 * time.Millisecond)
	settings.Leader.LeaseTTL = document.Some(time.Minute) // there is no other server, and the disk may be slow
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	scheduler, err := app.NewScheduler(ctx, &settings, "test", slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		return 0, err
	}
	done := make(chan error, 1)
	go func() { done <- scheduler.Run(ctx) }()
	<-scheduler.Server.Led()
	address = scheduler.Address
	if err := prepare(ctx); err != nil {
		return 0, err
	}
	const count = 2
	amounts := resource.Amounts{}
	amounts[resource.CPU], amounts[resource.Memory], amounts[resource.UserSlots] = resource.FromFloat(resource.CPU, 8), 16<<30, 8
	nodes := fakenode.New(fakenode.Config{
		Count: count, Resources: amounts, Script: play,
		Describe: func(i int) *nodev1.NodeDescription {
			name := "node-" + strconv.Itoa(i+1)
			return &nodev1.NodeDescription{Name: name, Address: name + ".example:7080", Resources: nodeproto.ToAmounts(amounts), SoftwareVersion: "test"}
		},
		Caller: func(int) fakenode.Caller { return fakenode.Direct(scheduler.Server.NodeService()) },
	})
	if err := nodes.Await(ctx, func(t fakenode.Totals) bool { return t.Registered == count }); err != nil {
		return 0, err
	}
	code = run()
	nodes.Close()
	cancel()
	return code, <-done
}

// prepare creates the default tree with one pool.
func prepare(ctx context.Context) error {
	c, err := client.New(client.Options{Address: address})
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.ApplyPools(ctx, client.PoolsFile{Tree: "default", Text: "{pools: {research: {}}}"}); err != nil {
		return err
	}
	return c.Set(ctx, "//sys/pool_trees/@default_tree", "default", client.WriteOptions{})
}

// play imitates the commands of the examples: echo, exit and sleep.
func play(_ string, start nodeproto.Start) (b fakenode.Behaviour) {
	command := start.Spec.GetCommand()
	if text, echoes := strings.CutPrefix(command, "echo "); echoes {
		b.Stderr = []byte(text + "\n")
	}
	if text, exits := strings.CutPrefix(command, "exit "); exits {
		number, _ := strconv.ParseInt(text, 10, 32)
		b.State, b.ExitCode = nodev1.JobState_JOB_STATE_FAILED, int32(number)
		b.Error = &nodev1.Error{Code: 1205, Message: "User job failed"}
	}
	if strings.HasPrefix(command, "sleep") {
		b.Duration = -1
	}
	return b
}
