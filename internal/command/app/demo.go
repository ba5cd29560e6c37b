package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/internal/value/resource"
)

// act is a simulated user who keeps starting operations.
type act struct {
	user string
	// spec is one operation; every is the pause between the end of one and the start of the next.
	spec  string
	every time.Duration
}

// The resources that the nodes of a demonstration report together, unless the user sets others or the machine has more.
// Jobs use one core each, so that pools have something to share and a new operation gets the next free core.
var demoCluster = resource.Amounts{resource.CPU: 16_00, resource.UserSlots: 64}

// busy is a command that uses a little of a core for the given seconds and up to three more. Each second it counts to some
// number, which takes a shell a few microseconds a step, and sleeps. A cluster that reports ten times the cores of the
// machine must not heat it, and jobs that end one after the other admit a new operation at once.
func busy(steps, seconds int) string {
	return fmt.Sprintf("end=$(($(date +%%s)+%d+YT_JOB_COOKIE%%4)); while [ $(date +%%s) -lt $end ]; do i=0; while [ $i -lt %d ]; do i=$((i+1)); done; sleep 1; done",
		seconds, steps)
}

// acts are the demonstration: production in bursts, research all the time, people who try something, jobs that use less
// memory and CPU than they requested.
var acts = []act{
	{"robot-production", "{pool: production, title: 'nightly report', tasks: {map: {job_count: 60, command: %[1]q, cpu_limit: 1, memory_limit: 128MiB}}}", 45 * time.Second},
	{"robot-research", "{pool: research, title: 'training', tasks: {train: {job_count: 40, command: %[2]q, cpu_limit: 1, memory_limit: 256MiB}}}", time.Second},
	{"robot-batch", "{pool: batch, title: 'copy of yesterday', tasks: {copy: {job_count: 6, command: %[3]q, cpu_limit: 1, memory_limit: 128MiB}}}", 5 * time.Second},
	{"robot-batch", "{pool: batch, title: 'clean up', tasks: {clean: {job_count: 3, command: %[3]q, cpu_limit: 1, memory_limit: 128MiB}}}", 20 * time.Second},
	{"anna", "{pool: adhoc, title: 'asked for a core, uses little', job_cpu_monitor: {enable_cpu_reclaim: true, check_period: 500ms, min_cpu_limit: 0.1}, tasks: {idle: {job_count: 1, command: %[4]q, cpu_limit: 1, memory_limit: 512MiB}}}", 10 * time.Second},
	{"boris", "{pool: adhoc, title: 'memory that is asked for and not used', tasks: {t: {job_count: 8, command: %[3]q, cpu_limit: 1, memory_limit: 1GiB}}}", 15 * time.Second},
	{"vera", "{pool: adhoc, title: 'fails now and then', max_failed_job_count: 5, tasks: {t: {job_count: 4, command: %[5]q, cpu_limit: 1, memory_limit: 128MiB}}}", 20 * time.Second},
}

// demonstrate keeps the cluster busy until ctx is cancelled.
func demonstrate(ctx context.Context, s *server.Server, log *slog.Logger) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.Led():
	}
	commands := []any{busy(15_000, 4), busy(5_000, 3), "sleep $((1 + YT_JOB_COOKIE % 4))", "sleep 60", "sleep 2; [ $(($$ % 3)) -ne 0 ] || { echo 'bad luck' >&2; exit 1; }"}
	var people sync.WaitGroup
	for _, a := range acts {
		text := fmt.Sprintf(a.spec+"%.0[1]s%.0[2]s%.0[3]s%.0[4]s%.0[5]s", commands...)
		v, err := notation.ParseYAML("", []byte(text))
		if err != nil {
			return fmt.Errorf("demonstration of %s: %w", a.user, err)
		}
		spec, err := operation.Read(v, operation.ReadOptions{})
		if err != nil {
			return fmt.Errorf("demonstration of %s: %w", a.user, err)
		}
		people.Go(func() { a.play(ctx, s, spec, log) })
	}
	people.Wait()
	return nil
}

// play starts one operation after the other.
func (a *act) play(ctx context.Context, s *server.Server, spec *operation.Specification, log *slog.Logger) {
	for ctx.Err() == nil {
		id, err := s.StartOperation(ctx, server.Caller{User: a.user, Command: "start_operation"}, server.Start{Type: "vanilla", User: a.user, Spec: spec})
		if err != nil && ctx.Err() == nil && !errors.Is(err, server.ErrNotLeading) {
			log.Debug("the demonstration cannot start an operation", "user", a.user, "error", err)
		}
		for err == nil && rest(ctx, time.Second) {
			if _, lives := s.Operation(server.OperationKey{ID: id}); !lives {
				break
			}
		}
		rest(ctx, a.every)
	}
}

// rest waits, and reports whether to continue.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
