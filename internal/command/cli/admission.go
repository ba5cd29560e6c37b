package cli

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/value/document"
)

// admission holds the flags of commands that start operations.
type admission struct {
	ephemeral   bool
	waitForRoom bool
}

func (a *admission) addTo(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.ephemeral, "ephemeral-pool", false, "accept a pool that does not exist: it is created for the operation and removed after it")
	cmd.Flags().BoolVar(&a.waitForRoom, "wait-for-room", false, "if the pool has as many operations as it may have, wait until one ends")
}

// checkPool refuses a pool that does not exist if another pool has a similar name: the scheduler
// would create an ephemeral pool for a mistyped name. If no name is similar, it prints a note.
func (a *admission) checkPool(s *session, pool, tree string) error {
	if pool == "" || a.ephemeral {
		return nil
	}
	names, err := s.PoolNames(s.ctx, tree)
	if err != nil || slices.Contains(names, pool) {
		return nil // the scheduler returns its own error when the operation starts
	}
	if near, ok := document.Nearest(pool, names); ok {
		return usageErrorf("there is no pool %q, an ephemeral one would be created; did you mean %q? (--ephemeral-pool creates it)", pool, near)
	}
	fmt.Fprintf(s.errs, "weir: there is no pool %q: an ephemeral one is created\n", pool)
	return nil
}

// Pauses between attempts to start an operation in a full pool.
const (
	firstRoomPause   = time.Second
	longestRoomPause = 30 * time.Second
)

// start starts an operation. If the pool is full, it waits for room or explains how to.
func (a *admission) start(s *session, kind string, spec any) (id string, err error) {
	for pause, told := firstRoomPause, false; ; pause = min(2*pause, longestRoomPause) {
		id, err = start(s, kind, spec)
		switch {
		case !errors.Is(err, client.CodeTooManyOperations):
			return id, err
		case !a.waitForRoom:
			return "", &advised{err, roomAdvice(err)}
		case !told:
			told = true
			fmt.Fprintf(s.errs, "weir: waiting for room: %v\n", err)
		}
		select {
		case <-s.ctx.Done():
			return "", s.ctx.Err()
		case <-time.After(pause):
		}
	}
}

// roomAdvice says what to do about a full pool. The pool is the one that the error names: an
// ancestor of the operation's pool may be full.
func roomAdvice(err error) []string {
	name := "the pool"
	var refusal *client.Error
	if errors.As(err, &refusal) {
		if pool, ok := refusal.Attributes["pool"].(string); ok {
			name = fmt.Sprintf("pool %q", pool)
		}
	}
	return []string{
		"--wait-for-room waits until an operation ends; weir pools --operations shows those of each pool.",
		"An administrator can raise max_operation_count of " + name + ".",
	}
}
