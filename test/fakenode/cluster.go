package fakenode

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/resource"
)

// Config configures a cluster.
type Config struct {
	// Count is the number of nodes.
	Count int
	// Describe returns the description of a node; nil means names like node-00042 with Resources.
	Describe  func(index int) *nodev1.NodeDescription
	Resources resource.Amounts
	Tags      []string
	// Caller returns the caller through which a node calls the scheduler.
	Caller func(index int) Caller
	// Script decides how jobs behave; nil means that they complete at once.
	Script Script
	// Clock is the source of time; nil means the machine's.
	Clock Clock
	// Seed makes splay, backoff and chaos repeatable.
	Seed uint64
	// Calls is the number of concurrent calls; zero means 64.
	Calls int
	// Stagger is the period over which the first registrations are spread.
	Stagger time.Duration
	// Pace applies to nodes that are not registered yet; zero fields mean the defaults.
	Pace nodeproto.Settings
	// Chaos disturbs the network.
	Chaos Chaos
}

// Chaos holds the probabilities of disturbing a call, each from 0 to 1.
type Chaos struct {
	LoseRequest  float64 // the scheduler does not receive it
	LoseResponse float64 // the node does not receive the answer
	Double       float64 // the scheduler receives it twice
}

// Cluster is a set of nodes that run until Close.
type Cluster struct {
	config  Config
	clock   Clock
	nodes   []*node
	byName  map[string]*node
	random  *rand.Rand
	events  eventQueue
	turn    uint64 // orders events of the same time
	ledger  ledger
	waiters []*waiter
	waiting []*node // need a caller

	free     int // idle callers
	work     chan call
	done     chan outcome
	commands chan func()
	stop     context.CancelFunc
	context  context.Context
	group    sync.WaitGroup
}

// waiter waits until a condition holds.
type waiter struct {
	holds func(Totals) bool
	met   chan struct{}
}

// ErrLost is the error of a call that chaos or a cut has dropped.
var ErrLost = errors.New("the message is lost")

// ErrClosed is returned by methods of a closed cluster.
var ErrClosed = errors.New("the cluster is closed")

// New starts a cluster.
func New(config Config) *Cluster {
	if config.Clock == nil {
		config.Clock = RealClock{}
	}
	if config.Calls <= 0 {
		config.Calls = 64
	}
	if config.Script == nil {
		config.Script = Steady(0)
	}
	if config.Pace == (nodeproto.Settings{}) {
		config.Pace = nodeproto.DefaultSettings()
	}
	c := &Cluster{
		config: config, clock: config.Clock, byName: map[string]*node{},
		random: rand.New(rand.NewPCG(config.Seed, 1)),
		ledger: ledger{entries: map[uint64]*Entry{}},
		free:   config.Calls,
		work:   make(chan call, config.Calls), done: make(chan outcome, config.Calls), commands: make(chan func()),
	}
	c.context, c.stop = context.WithCancel(context.Background())
	now := c.clock.Now()
	for i := range config.Count {
		n := &node{cluster: c, index: i, description: c.describe(i), caller: config.Caller(i), jobs: map[uint64]*job{}}
		n.name = n.description.GetName()
		c.nodes = append(c.nodes, n)
		c.byName[n.name] = n
		n.begin(now)
		n.wake(now.Add(time.Duration(c.random.Float64() * float64(config.Stagger))))
	}
	for range config.Calls {
		c.group.Go(c.call)
	}
	c.group.Go(c.loop)
	return c
}

func (c *Cluster) describe(index int) *nodev1.NodeDescription {
	if c.config.Describe != nil {
		return c.config.Describe(index)
	}
	return &nodev1.NodeDescription{
		Isolation: &nodev1.Isolation{Level: "full", RunAs: "job"},
		Name:      fmt.Sprintf("node-%05d", index), Resources: nodeproto.ToAmounts(c.config.Resources), Tags: c.config.Tags,
		SoftwareVersion: "fake", Cgroups: "none",
	}
}

// Close stops all nodes and waits until all goroutines have ended.
func (c *Cluster) Close() {
	c.stop()
	c.group.Wait()
}

// event happens to a node, or to one of its jobs, at a time.
type event struct {
	at   time.Time
	turn uint64
	node *node
	job  *job   // nil: the node makes a call
	plan uint64 // an event of an outdated plan is ignored
}

type eventQueue []event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	if !q[i].at.Equal(q[j].at) {
		return q[i].at.Before(q[j].at)
	}
	return q[i].turn < q[j].turn
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push is for package heap.
func (q *eventQueue) Push(x any) { *q = append(*q, x.(event)) }

// Pop is for package heap.
func (q *eventQueue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

func (c *Cluster) schedule(e event) {
	c.turn++
	e.turn = c.turn
	heap.Push(&c.events, e)
}

// loop owns all nodes.
func (c *Cluster) loop() {
	for {
		now := c.clock.Now()
		for len(c.events) > 0 && !c.events[0].at.After(now) {
			e := heap.Pop(&c.events).(event)
			e.node.happen(now, e)
		}
		c.release()

		var fired <-chan time.Time
		stop := func() {}
		if len(c.events) > 0 {
			fired, stop = c.clock.Timer(c.events[0].at.Sub(now))
		}
		select {
		case <-c.context.Done():
			stop()
			return
		case command := <-c.commands:
			command()
		case o := <-c.done:
			c.returned(o)
		case <-fired:
		}
		stop()
	}
}

// release wakes the waiters whose conditions hold.
func (c *Cluster) release() {
	if len(c.waiters) == 0 {
		return
	}
	kept := c.waiters[:0]
	for _, w := range c.waiters {
		if w.holds(c.ledger.totals) {
			close(w.met)
		} else {
			kept = append(kept, w)
		}
	}
	c.waiters = kept
}

// do runs a function in the goroutine that owns the nodes.
func (c *Cluster) do(function func()) error {
	finished := make(chan struct{})
	select {
	case c.commands <- func() { function(); close(finished) }:
		<-finished
		return nil
	case <-c.context.Done():
		return ErrClosed
	}
}

// Await waits until a condition on the totals holds. It evaluates the condition after every change, so
// it must be cheap.
func (c *Cluster) Await(ctx context.Context, holds func(Totals) bool) error {
	w := &waiter{holds: holds, met: make(chan struct{})}
	if err := c.do(func() { c.waiters = append(c.waiters, w) }); err != nil {
		return err
	}
	select {
	case <-w.met:
		return nil
	case <-c.context.Done():
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("%w; totals %+v", ctx.Err(), c.Totals())
	}
}

// Totals returns the current counts; after Close, the final ones.
func (c *Cluster) Totals() (totals Totals) {
	if c.do(func() { totals = c.ledger.totals }) != nil {
		c.group.Wait()
		totals = c.ledger.totals
	}
	return totals
}

// Ledger returns everything that happened to every job, in the order of job numbers; after Close, the
// final state.
func (c *Cluster) Ledger() (entries []Entry) {
	if c.do(func() { entries = c.ledger.all() }) != nil {
		c.group.Wait()
		entries = c.ledger.all()
	}
	return entries
}

// RunningOn returns the jobs of a node that have not ended, in order.
func (c *Cluster) RunningOn(name string) (numbers []uint64, err error) {
	err = c.with(name, func(n *node) {
		for _, number := range n.session.Jobs() {
			if _, result := n.session.Job(number); result == nil {
				numbers = append(numbers, number)
			}
		}
	})
	return numbers, err
}

// with runs a function on a node in the goroutine that owns it.
func (c *Cluster) with(name string, function func(*node)) error {
	found := false
	err := c.do(func() {
		if n := c.byName[name]; n != nil {
			found = true
			function(n)
		}
	})
	if err == nil && !found {
		err = fmt.Errorf("there is no node %q", name)
	}
	return err
}

// Names returns the names of all nodes, by index.
func (c *Cluster) Names() []string {
	names := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		names[i] = n.name // never changes
	}
	return names
}

// Pause stops the agent of a node, as SIGSTOP would; its jobs continue.
func (c *Cluster) Pause(name string) error {
	return c.with(name, func(n *node) { n.paused = true })
}

// Resume undoes Pause.
func (c *Cluster) Resume(name string) error {
	return c.with(name, func(n *node) {
		n.paused = false
		n.catchUp(c.clock.Now())
		for _, o := range n.late {
			if o.life == n.life {
				n.hear(c.clock.Now(), o)
			}
		}
		n.late = nil
	})
}

// Cut disconnects a node from the schedulers: they do not receive what it sends.
func (c *Cluster) Cut(name string) error { return c.with(name, func(n *node) { n.cut = true }) }

// Mute drops the answers to a node; schedulers still receive what it sends.
func (c *Cluster) Mute(name string) error { return c.with(name, func(n *node) { n.muted = true }) }

// Heal undoes Cut and Mute; the node calls again as planned.
func (c *Cluster) Heal(name string) error {
	return c.with(name, func(n *node) { n.cut, n.muted = false, false })
}

// HealNow undoes Cut and Mute and makes the node call at once.
func (c *Cluster) HealNow(name string) error {
	return c.with(name, func(n *node) {
		n.cut, n.muted = false, false
		n.wake(c.clock.Now())
	})
}

// Drain makes a node report that it accepts no new jobs, or that it does again.
func (c *Cluster) Drain(name string, draining bool) error {
	return c.with(name, func(n *node) { n.draining = draining })
}

// Restart starts a new incarnation of a node. If keep is set, its jobs have continued; otherwise they
// are lost with its disk.
func (c *Cluster) Restart(name string, keep bool) error {
	return c.with(name, func(n *node) { n.restart(c.clock.Now(), keep) })
}

// Kill stops the agent of a node until Restart; its jobs continue.
func (c *Cluster) Kill(name string) error {
	return c.with(name, func(n *node) {
		n.dead = true
		n.leave()
	})
}

// Finish ends a job as its script would.
func (c *Cluster) Finish(name string, number uint64) error {
	return c.with(name, func(n *node) {
		if j := n.jobs[number]; j != nil && !j.over {
			n.end(c.clock.Now(), j, j.naturalEnd())
			n.wake(c.clock.Now())
		}
	})
}
