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

// Config is what a cluster is made of.
type Config struct {
	// Count is how many nodes there are.
	Count int
	// Describe returns the description of a node; nil means names like node-00042 and
	// Resources.
	Describe  func(index int) *nodev1.NodeDescription
	Resources resource.Amounts
	Tags      []string
	// Caller returns how a node reaches the scheduler.
	Caller func(index int) Caller
	// Script says what jobs do; nil means that they complete at once.
	Script Script
	// Clock is the machine's if nil.
	Clock Clock
	// Seed makes splay, backoff and chaos repeatable.
	Seed uint64
	// Calls is how many calls there are at once; 64 if zero.
	Calls int
	// Stagger spreads the first registrations over so long.
	Stagger time.Duration
	// Pace holds for nodes that are not registered yet; zero fields take the defaults.
	Pace nodeproto.Settings
	// Chaos makes the network worse.
	Chaos Chaos
}

// Chaos is the share of calls to which something happens, each from 0 to 1.
type Chaos struct {
	LoseRequest  float64 // the scheduler does not hear it
	LoseResponse float64 // the node does not hear the answer
	Double       float64 // the scheduler hears it twice
}

// Cluster is nodes that run until Close.
type Cluster struct {
	config  Config
	clock   Clock
	nodes   []*node
	byName  map[string]*node
	random  *rand.Rand
	events  eventQueue
	turn    uint64 // orders events of one time
	ledger  ledger
	waiters []*waiter
	waiting []*node // want to call and have no caller

	free     int // callers that do nothing
	work     chan call
	done     chan outcome
	commands chan func()
	stop     context.CancelFunc
	context  context.Context
	group    sync.WaitGroup
}

// waiter is somebody who waits until a condition holds.
type waiter struct {
	holds func(Totals) bool
	met   chan struct{}
}

// ErrLost is what a node sees of a call that chaos or a cut has swallowed.
var ErrLost = errors.New("the message is lost")

// ErrClosed is the answer of a cluster that was closed.
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
		Name: fmt.Sprintf("node-%05d", index), Resources: nodeproto.ToAmounts(c.config.Resources), Tags: c.config.Tags,
		SoftwareVersion: "fake", Cgroups: "none",
	}
}

// Close stops all nodes and waits until nothing of them is left.
func (c *Cluster) Close() {
	c.stop()
	c.group.Wait()
}

// event is something that happens to a node, or to one of its jobs, at a time.
type event struct {
	at   time.Time
	turn uint64
	node *node
	job  *job   // nil: the node is to speak
	plan uint64 // an event of a plan that was changed since does not happen
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

// release lets go those whose condition holds.
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

// Await waits until a condition on the totals holds. The condition must be quick; it is asked
// after every change.
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

// Totals returns the counts of now; those of the end after Close.
func (c *Cluster) Totals() (totals Totals) {
	if c.do(func() { totals = c.ledger.totals }) != nil {
		c.group.Wait()
		totals = c.ledger.totals
	}
	return totals
}

// Ledger returns everything that happened to every job, in the order of job numbers; as it was
// at the end after Close.
func (c *Cluster) Ledger() (entries []Entry) {
	if c.do(func() { entries = c.ledger.all() }) != nil {
		c.group.Wait()
		entries = c.ledger.all()
	}
	return entries
}

// RunningOn returns the jobs of a node that are not over, in order.
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

// with does something with a node in the goroutine that owns it.
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

// Pause stops the agent of a node, as SIGSTOP would; its jobs go on.
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

// Cut separates a node from the schedulers: what it sends does not arrive.
func (c *Cluster) Cut(name string) error { return c.with(name, func(n *node) { n.cut = true }) }

// Mute lets what a node sends arrive, but no answer come back.
func (c *Cluster) Mute(name string) error { return c.with(name, func(n *node) { n.muted = true }) }

// Heal undoes Cut and Mute; the node speaks at its next turn.
func (c *Cluster) Heal(name string) error {
	return c.with(name, func(n *node) { n.cut, n.muted = false, false })
}

// HealNow undoes Cut and Mute and lets the node speak at once.
func (c *Cluster) HealNow(name string) error {
	return c.with(name, func(n *node) {
		n.cut, n.muted = false, false
		n.wake(c.clock.Now())
	})
}

// Drain lets a node say that it takes no new jobs, or that it does again.
func (c *Cluster) Drain(name string, draining bool) error {
	return c.with(name, func(n *node) { n.draining = draining })
}

// Restart gives a node a new incarnation. Its jobs have gone on if keep is set; otherwise they
// are lost with its disk.
func (c *Cluster) Restart(name string, keep bool) error {
	return c.with(name, func(n *node) { n.restart(c.clock.Now(), keep) })
}

// Kill ends the agent of a node until Restart; its jobs go on.
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
