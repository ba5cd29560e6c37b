//go:build linux

package faults

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"
)

// fault is one thing that goes wrong for a while.
type fault struct {
	kind  string   // what figures are kept by
	what  string   // what exactly
	hits  []string // the nodes that it concerns; all others are healthy
	begin func()
	end   func()
}

// kind is a kind of fault.
type kind struct {
	name string
	make func(c *campaign) *fault
	// alone means that it does not happen together with another one.
	alone bool
}

// kinds returns all kinds that make sense on this store.
func (c *campaign) kinds() []kind {
	list := []kind{
		{"the leader is killed", func(c *campaign) *fault { return c.killScheduler(c.leader()) }, false},
		{"the standby is killed", func(c *campaign) *fault { return c.killScheduler(c.other(c.leader())) }, false},
		{"the leader is stopped", func(c *campaign) *fault { return c.stopScheduler(c.leader()) }, false},
		{"the standby is stopped", func(c *campaign) *fault { return c.stopScheduler(c.other(c.leader())) }, false},
		{"an agent is killed", (*campaign).killAgent, false},
		{"an agent is stopped", (*campaign).stopAgent, false},
		{"cut: schedulers", func(c *campaign) *fault { return c.cutLink(c.schedulers[0].machine, c.schedulers[1].machine) }, false},
		{"cut: leader and node", func(c *campaign) *fault { return c.cutLink(c.leader().machine, c.anyNode()) }, false},
		{"cut: standby and node", func(c *campaign) *fault { return c.cutLink(c.other(c.leader()).machine, c.anyNode()) }, false},
		{"cut: leader and all", (*campaign).isolateLeader, false},
		{"the disk is full", (*campaign).fillDisk, true},
		{"the disk hangs", (*campaign).hangDisk, true},
		{"the disk is slow", (*campaign).slowDisk, true},
		{"everything is killed", (*campaign).killEverything, true},
		{"everything is restarted", (*campaign).restartEverything, true},
	}
	list = append(list, kind{"the store's clock is set", (*campaign).setDatabaseClock, true})
	if inEarnest() { // it takes a program of its own
		list = append(list, kind{"a scheduler's clock is set", (*campaign).setSchedulerClock, false})
	}
	if c.database == nil {
		return list
	}
	return append(list,
		kind{"the database is killed", (*campaign).killDatabase, true},
		kind{"the database is stopped", (*campaign).stopDatabase, true},
		kind{"cut: leader and database", func(c *campaign) *fault { return c.cutLink(c.leader().machine, c.database.machine) }, false},
		kind{"cut: standby and database", func(c *campaign) *fault { return c.cutLink(c.other(c.leader()).machine, c.database.machine) }, false},
		kind{"cut: node and database", func(c *campaign) *fault { return c.cutLink(c.anyNode(), c.database.machine) }, false},
	)
}

// deal returns the next kind of a shuffled deck, which is shuffled again when it is empty.
func (c *campaign) deal() kind {
	if len(c.deck) == 0 {
		c.deck = c.kinds()
		c.random.Shuffle(len(c.deck), func(i, j int) { c.deck[i], c.deck[j] = c.deck[j], c.deck[i] })
	}
	k := c.deck[0]
	c.deck = c.deck[1:]
	name, inner := k.name, k.make
	k.make = func(c *campaign) *fault {
		f := inner(c)
		f.kind = name
		return f
	}
	return k
}

// second deals a fault that may happen together with another one, if the next one may.
func (c *campaign) second(first *fault) *fault {
	alone := func(name string) bool {
		return slices.ContainsFunc(c.kinds(), func(k kind) bool { return k.name == name && k.alone })
	}
	if len(c.deck) == 0 || c.deck[0].alone || alone(first.kind) || c.deck[0].name == first.kind {
		return nil
	}
	return c.deal().make(c)
}

// anyNode draws the machine of a node.
func (c *campaign) anyNode() *machine { return c.machines[c.random.IntN(len(c.machines))] }

// killScheduler is kill -9 and a new start.
func (c *campaign) killScheduler(s *scheduler) *fault {
	return &fault{
		what: "killed " + s.machine.name,
		begin: func() {
			if s.running() {
				s.kill()
			}
		},
		end: func() {
			if !s.running() {
				s.start()
			}
		},
	}
}

// stopScheduler is SIGSTOP and SIGCONT.
func (c *campaign) stopScheduler(s *scheduler) *fault {
	var from time.Time
	return &fault{
		what: "stopped " + s.machine.name,
		begin: func() {
			if s.running() {
				s.signal(syscall.SIGSTOP)
				from = time.Now()
			}
		},
		end: func() {
			if s.running() {
				to := time.Now()
				s.signal(syscall.SIGCONT)
				c.witness.silent(s, from, to)
			}
		},
	}
}

// killAgent ends the agent of a node; its jobs go on.
func (c *campaign) killAgent() *fault {
	name := c.anyNode().name
	return &fault{
		what: "killed the agent of " + name, hits: []string{name},
		begin: func() { c.check(c.nodes.Kill(name)) },
		end:   func() { c.check(c.nodes.Restart(name, true)) },
	}
}

// stopAgent is SIGSTOP and SIGCONT for the agent of a node.
func (c *campaign) stopAgent() *fault {
	name := c.anyNode().name
	return &fault{
		what: "stopped the agent of " + name, hits: []string{name},
		begin: func() { c.check(c.nodes.Pause(name)) },
		end:   func() { c.check(c.nodes.Resume(name)) },
	}
}

func (c *campaign) check(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// cutLink cuts a link in both directions or in one.
func (c *campaign) cutLink(one, other *machine) *fault {
	both := []cut{{one, other}, {other, one}}
	between := "between " + one.name + " and " + other.name
	switch c.random.IntN(4) {
	case 0:
		both, between = both[:1], "from "+one.name+" to "+other.name
	case 1:
		both, between = both[1:], "from "+other.name+" to "+one.name
	}
	return c.cutAll("cut "+between, both)
}

// isolateLeader cuts a leader off from everybody, sometimes in one direction only.
func (c *campaign) isolateLeader() *fault {
	leader := c.leader().machine
	incoming, outgoing := true, true
	words := "cut off " + leader.name
	switch c.random.IntN(4) {
	case 0:
		outgoing, words = false, "cut off what "+leader.name+" hears"
	case 1:
		incoming, words = false, "cut off what "+leader.name+" says"
	}
	var list []cut
	for _, m := range c.network.machines {
		if m == leader {
			continue
		}
		if incoming {
			list = append(list, cut{m, leader})
		}
		if outgoing {
			list = append(list, cut{leader, m})
		}
	}
	f := c.cutAll(words, list)
	if c.database != nil {
		f.hits = nil // it loses the lead, and nodes go to the other one
	}
	return f
}

func (c *campaign) cutAll(what string, list []cut) *fault {
	f := &fault{
		what: what,
		begin: func() {
			for _, link := range list {
				c.network.cutLink(link.from, link.to)
			}
		},
		end: func() {
			for _, link := range list {
				c.network.heal(link.from, link.to)
			}
		},
	}
	for _, link := range list {
		for _, m := range []*machine{link.from, link.to} {
			if slices.Contains(c.machines, m) && !slices.Contains(f.hits, m.name) {
				f.hits = append(f.hits, m.name)
			}
		}
	}
	return f
}

// fillDisk takes all the room of the store. A database that gives up is started again.
func (c *campaign) fillDisk() *fault {
	return &fault{what: "filled the disk of the store", begin: c.disk.fillUp, end: func() {
		c.disk.makeRoom()
		c.reviveDatabase()
	}}
}

// reviveDatabase starts a database that has ended by itself, as its supervisor would.
func (c *campaign) reviveDatabase() {
	if c.database != nil && !c.database.running() {
		c.database.start()
	}
}

// hangDisk lets every write to the store wait.
func (c *campaign) hangDisk() *fault {
	return &fault{what: "let the disk of the store hang", begin: c.disk.freeze, end: func() {
		c.disk.thaw()
		c.reviveDatabase()
	}}
}

// slowDisk lets writes to the store through for a moment at a time.
func (c *campaign) slowDisk() *fault {
	ctx, stop := context.WithCancel(c.t.Context())
	var pulses sync.WaitGroup
	hung := time.Duration(50+c.random.IntN(250)) * time.Millisecond
	return &fault{
		what: fmt.Sprintf("made the disk of the store slow, %v for a write", hung),
		begin: func() {
			pulses.Go(func() {
				for ctx.Err() == nil {
					c.disk.freeze()
					pause(ctx, hung)
					c.disk.thaw()
					pause(ctx, 10*time.Millisecond)
				}
			})
		},
		end: func() {
			stop()
			pulses.Wait()
			c.reviveDatabase()
		},
	}
}

func (c *campaign) killDatabase() *fault {
	return &fault{what: "killed the database", begin: c.database.kill, end: c.database.start}
}

func (c *campaign) stopDatabase() *fault {
	return &fault{what: "stopped the database", begin: c.database.pause, end: c.database.resume}
}

// killEverything is a power failure.
func (c *campaign) killEverything() *fault {
	return &fault{
		what: "killed everything", hits: c.nodes.Names(),
		begin: func() {
			for _, s := range c.schedulers {
				s.kill()
			}
			if c.database != nil {
				c.database.kill()
			}
			for _, name := range c.nodes.Names() {
				c.check(c.nodes.Kill(name))
			}
		},
		end: c.startEverything,
	}
}

// restartEverything ends all processes in order and starts them again.
func (c *campaign) restartEverything() *fault {
	return &fault{
		what: "restarted everything", hits: c.nodes.Names(),
		begin: func() {
			for _, name := range c.nodes.Names() {
				c.check(c.nodes.Kill(name))
			}
			for _, s := range c.schedulers {
				s.signal(syscall.SIGTERM)
			}
			await(c.t, "the schedulers end when they are asked to", func() bool {
				return !c.schedulers[0].running() && !c.schedulers[1].running()
			})
		},
		end: c.startEverything,
	}
}

func (c *campaign) startEverything() {
	c.reviveDatabase()
	for _, s := range c.schedulers {
		s.start()
	}
	for _, name := range c.nodes.Names() {
		c.check(c.nodes.Restart(name, true))
	}
}
