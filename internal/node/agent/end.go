package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/node/jobproxy"
)

// EndAll ends every job in a data directory and removes their files. It is for a node that leaves the cluster
// permanently: no agent must run on the directory.
func EndAll(ctx context.Context, root string, driver cgroup.Driver) error {
	dirs, err := jobproxy.Scan(root)
	if err != nil {
		return err
	}
	problems := make([]error, len(dirs))
	var workers sync.WaitGroup
	for i, dir := range dirs {
		workers.Go(func() {
			if connection, err := jobproxy.Attach(dir); err == nil {
				_, _ = connection.Do(jobproxy.Order{Command: jobproxy.Abort, Reason: jobproxy.OtherReason, Message: "the node stops"}, 5*time.Second)
				_ = connection.Close() // whatever the reply was, Remove waits for the end
			}
			problems[i] = jobproxy.Remove(ctx, dir, driver)
		})
	}
	workers.Wait()
	return errors.Join(problems...)
}
