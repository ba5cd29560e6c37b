package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/internal/value/resource"
)

// Up is a whole cluster on this machine: a scheduler with its store, and nodes that run real jobs, or a Kubernetes cluster
// instead of the nodes.
type Up struct {
	Scheduler *Scheduler
	Nodes     []*Node
	// Directory holds all state; a temporary one is removed at the end.
	Directory string
	// Ready, if set, is called when there are pools and nodes, so that operations can be started. An error ends the
	// cluster.
	Ready      func() error
	begun      chan error
	temporary  bool
	demo       bool
	kubernetes *upKubernetes // nil without Kubernetes
	log        *slog.Logger
}

// NewUp opens everything. Run starts it.
func NewUp(ctx context.Context, c *config.Config, version string, log *slog.Logger) (*Up, error) {
	u := &Up{Directory: c.Up.DataDir.Value(), demo: c.Up.Demo.Value(), log: log, begun: make(chan error, 1)}
	if u.Directory == "" {
		directory, err := os.MkdirTemp("", "weir-up-")
		if err != nil {
			return nil, err
		}
		u.Directory, u.temporary = directory, true
	}
	if err := u.open(ctx, c, version); err != nil {
		problems := []error{err}
		for _, n := range u.Nodes {
			problems = append(problems, n.driver.Close())
		}
		if u.Scheduler != nil {
			problems = append(problems, u.Scheduler.Close())
		}
		return nil, errors.Join(append(problems, u.clear())...)
	}
	return u, nil
}

func (u *Up) open(ctx context.Context, c *config.Config, version string) error {
	scheduler := c.Scheduler
	scheduler.Listen = document.Some(fmt.Sprintf("127.0.0.1:%d", c.Up.Port.Value()))
	scheduler.DataDir = document.Some(filepath.Join(u.Directory, "scheduler"))
	if c.Up.Kubernetes.Value() {
		if err := u.openKubernetes(ctx, c, version); err != nil {
			return err
		}
		inKubernetes(&scheduler)
	} else {
		scheduler.Nodes.HeartbeatPeriod = document.Some(localHeartbeat)
	}
	if scheduler.Journal.Keep.Value() == 0 {
		scheduler.Journal.Keep = document.Some(localJournal)
	}
	s, err := NewScheduler(ctx, &scheduler, version, u.log)
	if err != nil {
		return err
	}
	u.Scheduler = s
	detected, err := detectResources()
	if err != nil {
		return err
	}
	count := c.Up.NodeCount()
	if count > 0 {
		if detected[resource.GPU], err = localGPUs(ctx, &c.Node.GPUs, count); err != nil {
			return err
		}
	}
	var total resource.Amounts
	for i := range count {
		node := c.Node
		own := nodeOf(&c.Up, i, count, detected)
		node.Schedulers = document.Some([]string{s.Address})
		if !node.Token.IsSet() && !node.TokenFile.IsSet() {
			node.Token = document.Some(s.Key.Reveal()) // so that a user's first token does not lock it out
		}
		node.Name, node.Tags, node.Listen = own.Name, own.Tags, own.Address
		node.Resources = document.Some(resource.PartialOf(own.Resources.Value().OrZero()))
		node.DataDir = document.Some(filepath.Join(u.Directory, own.Name.Value()))
		n, err := NewNode(ctx, &node, version, u.log)
		if err != nil {
			return fmt.Errorf("node %s: %w", own.Name.Value(), err)
		}
		u.Nodes = append(u.Nodes, n)
		total = total.Add(own.Resources.Value().OrZero())
	}
	first := examplePools(total)
	if u.kubernetes != nil {
		first = u.kubernetes.pools()
	}
	u.Scheduler.onLead(func() error {
		u.begun <- u.beginPools(ctx, c.Up.Pools.Value(), first)
		return nil
	})
	return nil
}

// localGPUs is how many GPUs the nodes have together. Only fake ones can be on several nodes: a real one on two nodes
// would be given to two jobs.
func localGPUs(ctx context.Context, c *config.NodeGPUs, nodes int) (int64, error) {
	if count := c.Fake.Value(); count > 0 || nodes > 1 {
		return int64(count * nodes), nil
	}
	found, err := inventoryOf(ctx, c)
	if err != nil {
		return 0, err
	}
	return int64(len(found.Devices)), nil
}

// localHeartbeat is the heartbeat period of nodes on the same machine: short, because it is cheap.
const localHeartbeat = 200 * time.Millisecond

// localJournal is how long the journal of such a cluster is kept.
const localJournal = 24 * time.Hour

// nodeOf is the configuration of one node.
func nodeOf(up *config.Up, i, count int, detected resource.Amounts) config.Agent {
	own := config.Agent{Tags: document.Some(up.Tags.Value())}
	if agents := up.Agents.Value(); len(agents) > 0 {
		own = agents[i]
		own.Tags = document.Some(append(append([]string{}, up.Tags.Value()...), agents[i].Tags.Value()...))
	}
	if !own.Name.IsSet() {
		own.Name = document.Some(fmt.Sprintf("node-%d", i+1))
	}
	share := detected
	for k := range share {
		if up.Demo.Value() {
			share[k] = max(share[k], demoCluster[k])
		}
		share[k] /= int64(count)
	}
	resources := own.Resources.OrElse(up.Resources).Value().Or(share)
	own.Resources = document.Some(resource.PartialOf(resources))
	return own
}

// beginPools creates the pools of a cluster that has none yet: those of a file, else the first ones.
func (u *Up) beginPools(ctx context.Context, file, first string) error {
	if len(u.Scheduler.Server.Trees().List) > 0 {
		return nil
	}
	text := []byte(first)
	if file != "" {
		var err error
		if text, err = os.ReadFile(file); err != nil {
			return fmt.Errorf("pools: %w", err)
		}
	}
	v, err := notation.Parse(file, text)
	if err != nil {
		return err
	}
	tree, _, err := pooltree.FromValue(v, pooltree.Options{File: file})
	if err != nil {
		return err
	}
	return u.Scheduler.Server.EditTrees(ctx, server.Caller{User: "root", Command: "up"}, func(trees *server.Trees) (*server.Trees, error) {
		next := trees.Put("default", tree)
		next.Default = "default"
		return next, nil
	})
}

// examplePools is a tree that shows every kind of guarantee at work, whatever the size of the cluster.
func examplePools(total resource.Amounts) string {
	part := func(percent int64) string {
		var a resource.Amounts
		a[resource.CPU] = total[resource.CPU] * percent / 100
		return fmt.Sprintf("%g", a.Float(resource.CPU))
	}
	return fmt.Sprintf(`
# production is busy now and then: while it is idle it saves, and then it may take half of the cluster.
# research gets its quarter on average, whenever there is room.
# adhoc makes a pool for every user.
default_parent_pool: adhoc
pools:
  production:
    weight: 2
    integral_guarantees:
      guarantee_type: burst
      burst_guarantee_resources: {cpu: %s}
      resource_flow: {cpu: %s}
  research:
    integral_guarantees:
      guarantee_type: relaxed
      resource_flow: {cpu: %s}
  batch:
    mode: fifo
    min_share_resources: {cpu: %s}
    max_running_operation_count: 4
  adhoc:
    create_ephemeral_subpools: true
    max_running_operation_count: 20
    ephemeral_subpool_config: {max_running_operation_count: 4, max_operation_count: 20}
`, part(50), part(25), part(25), part(10))
}

// Run runs the cluster until ctx is cancelled, then ends its jobs and removes everything except a data directory
// that the user named.
func (u *Up) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	problems := make(chan error, len(u.Nodes)+4)
	start := func(run func(context.Context) error) {
		workers.Go(func() {
			if err := run(ctx); err != nil {
				problems <- err
				cancel(err)
			}
		})
	}
	for _, n := range u.Nodes {
		start(func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return nil
			case <-u.Scheduler.Server.Led(): // nodes cannot register earlier
				return n.Run(ctx)
			}
		})
	}
	if u.kubernetes != nil && u.kubernetes.pretender != nil {
		start(u.kubernetes.pretender.Run)
	}
	start(u.tellReady)
	if u.demo {
		start(func(ctx context.Context) error { return demonstrate(ctx, u.Scheduler.Server, u.log) })
	}
	start(u.Scheduler.Run)
	workers.Wait()
	close(problems)
	var all []error
	for err := range problems {
		all = append(all, err)
	}
	for _, n := range u.Nodes {
		all = append(all, n.End(ctx))
	}
	if u.kubernetes != nil && u.temporary {
		all = append(all, u.kubernetes.clear(ctx))
	}
	return errors.Join(append(all, u.clear())...)
}

// tellReady waits until operations can be started, and calls Ready.
func (u *Up) tellReady(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-u.begun:
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("pools: %w", err)
		}
	}
	for _, n := range u.Nodes {
		for !u.isRegistered(n) {
			if !rest(ctx, readyPoll) {
				return nil
			}
		}
	}
	for u.kubernetes != nil && !u.kubernetes.isRegistered(u.Scheduler) {
		if !rest(ctx, readyPoll) {
			return nil
		}
	}
	if u.Ready == nil {
		return nil
	}
	return u.Ready()
}

// readyPoll is the interval between checks whether a node has registered.
const readyPoll = 10 * time.Millisecond

func (u *Up) isRegistered(n *Node) bool {
	record, there := u.Scheduler.Server.Node(n.Name)
	return there && record.Online
}

func (u *Up) clear() error {
	if !u.temporary {
		return nil
	}
	return os.RemoveAll(u.Directory)
}
