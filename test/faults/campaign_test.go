//go:build linux

package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
	"github.com/weirhq/weir/test/fakenode"
)

// The campaign does harm of all kinds to a cluster under load: two schedulers, their store and
// their nodes, each on a machine of its own. Kinds are dealt like cards, so that each comes as
// often as any other; everything else about a fault is drawn. Whatever happens, there must never
// be two leaders, nothing that was acknowledged may be lost, nothing may run twice and every job
// must end.
//
// WEIR_FAULTS is how many faults there are, WEIR_SEED says which. From 100 on, times are those of
// production, and free nodes must be given work within two seconds of a takeover.

func TestFaultsOnPostgres(t *testing.T) {
	t.Parallel()
	newCampaign(t, true).run()
}

func TestFaultsOnSQLite(t *testing.T) {
	t.Parallel()
	newCampaign(t, false).run()
}

// faultCount is how many faults a campaign has.
func faultCount() int {
	if testing.Short() {
		return 12
	}
	return number("WEIR_FAULTS", 300)
}

// inEarnest says that times are those of production and are judged.
func inEarnest() bool { return faultCount() >= 100 }

// startsWithin is how soon after a takeover each free node must be given work.
const startsWithin = 2 * time.Second

const (
	campaignNodes = 6
	campaignCores = 2 // of each node
)

// campaign is a cluster to which harm is done.
type campaign struct {
	*cluster
	random   *rand.Rand
	seed     uint64
	network  *network
	disk     *disk     // of the store
	database *database // nil: the store is a file that both schedulers have open
	machines []*machine
	witness  *witness
	deck     []kind // kinds that are still to be dealt
	figures  figures
}

// newCampaign starts everything.
func newCampaign(t *testing.T, onPostgres bool) *campaign {
	t.Helper()
	seed := uint64(number("WEIR_SEED", 1))
	c := &campaign{seed: seed, random: rand.New(rand.NewPCG(seed, 0)), witness: newWitness(t)}
	c.network = newNetwork(t)
	lease := 3 * time.Second
	s := settings{lease: lease, standby: 500 * time.Millisecond, update: time.Second, progress: time.Second, heart: time.Second}
	if !inEarnest() {
		s = settings{lease: time.Second, standby: 100 * time.Millisecond, update: time.Second, progress: 500 * time.Millisecond, heart: 500 * time.Millisecond}
	}
	c.disk = newDisk(t, 512)
	s.store = "sqlite:" + filepath.Join(c.disk.directory, "weir.db")
	if onPostgres {
		c.database = newDatabase(t, c.network.add("database"), c.disk)
		s.store = c.database.url
	}
	c.cluster = &cluster{t: t, directory: t.TempDir(), settings: s, url: s.store, tolerated: []string{
		"preemption",
		"disappeared_from_node", // an agent that is killed may miss an order; checkLedger knows if it began
	}}
	var addresses []string
	for _, name := range []string{"a", "b"} {
		directory := filepath.Join(c.directory, name)
		if err := os.MkdirAll(directory, 0o700); err != nil {
			t.Fatal(err)
		}
		m := c.network.add("scheduler " + name)
		c.schedulers = append(c.schedulers, newSchedulerAt(t, m, m.address+":7070", directory, s))
		addresses = append(addresses, m.address+":7070")
	}
	if inEarnest() {
		program, err := steppable()
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range c.schedulers {
			s.program, s.clock = program, filepath.Join(c.directory, fmt.Sprintf("clock-%d", i))
			s.setClock(0)
		}
	}
	for _, s := range c.schedulers {
		s.start()
	}
	token := c.makeToken()
	c.gateway = newGateway(t, c.schedulers, token)
	await(t, "all schedulers know the token", func() bool {
		for i := range c.schedulers {
			if _, err := c.gateway.once(t.Context(), i, get("//sys/pool_trees")); err != nil {
				return false
			}
		}
		return true
	})
	c.makePools()
	for i := range c.schedulers {
		c.must(createPool(probePool(i), ""))
	}
	c.startMachines(addresses, token)
	return c
}

// makeToken makes a token of root on the leader's machine.
func (c *campaign) makeToken() string {
	c.t.Helper()
	out, err := c.leader().machine.command(program, "token", "create", "root", "--description", "the campaign", "--addr", "http://127.0.0.1:7070").Output()
	if err != nil {
		c.t.Fatalf("the first token: %v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// startMachines starts the nodes, each on its machine.
func (c *campaign) startMachines(addresses []string, token string) {
	c.t.Helper()
	pace := nodeproto.DefaultSettings()
	pace.BackoffMin, pace.BackoffMax, pace.HeartbeatPeriod = 200*time.Millisecond, time.Second, c.settings.heart
	pace.CallTimeout = 10 * time.Second
	var callers []*nodeproto.Client
	for i := range campaignNodes {
		m := c.network.add(fmt.Sprintf("node-%05d", i))
		c.machines = append(c.machines, m)
		caller, err := nodeproto.NewClient(addresses, nil, token)
		if err != nil {
			c.t.Fatal(err)
		}
		caller.DialWith(m.dial)
		callers = append(callers, caller)
	}
	c.nodes = fakenode.New(fakenode.Config{
		Count:     campaignNodes,
		Resources: resource.Amounts{resource.UserSlots: 4 * campaignCores, resource.CPU: campaignCores * 100, resource.Memory: 32 << 30},
		Caller: func(i int) fakenode.Caller {
			return watched{Caller: callers[i], witness: c.witness, node: c.machines[i].name}
		},
		Script: func(node string, start nodeproto.Start) fakenode.Behaviour {
			c.witness.started(node)
			does := script(node, start)
			does.Duration /= 3 // so that nodes ask for work all the time
			return does
		},
		Seed: c.seed, Pace: pace,
	})
	c.t.Cleanup(func() {
		c.nodes.Close()
		for _, caller := range callers {
			caller.Close()
		}
	})
	c.awaitNodes(func(t fakenode.Totals) bool { return t.Registered == campaignNodes })
}

// run does harm until there were enough faults, then lets everything end and checks it.
func (c *campaign) run() {
	t := c.t
	t.Logf("WEIR_SEED=%d", c.seed)
	l := c.underLoadOf(1) // more than one starts more than the nodes can run
	endless, err := l.start(loadPool(4), "lesson", 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{}, 2*len(c.schedulers))
	for i, s := range c.schedulers {
		go func() { c.witness.sample(ctx, s); done <- struct{}{} }()
		go func() { c.witness.probe(ctx, c.gateway, i); done <- struct{}{} }()
	}
	await(t, "every node has work", func() bool { return c.recovered(time.Time{}) })
	stored := archive{}
	defer func() { c.figures.print(t, c.storeName(), c.seed) }()
	for count := 0; count < faultCount(); {
		if end, limited := t.Deadline(); limited && time.Until(end) < 2*patience {
			t.Errorf("there is no time for more than %d faults", count)
			break
		}
		count += c.harm(count)
		c.checkOperations(l, stored)
		c.checkAlerts()
		c.checkLogs()
		if t.Failed() {
			t.Fatalf("after %d faults, WEIR_SEED=%d", count, c.seed)
		}
		pause(t.Context(), time.Duration(c.random.Int64N(int64(c.settings.lease))))
	}
	c.finish(l, stored, endless)
	stop()
	for range cap(done) {
		<-done
	}
	totals := c.nodes.Totals()
	c.witness.mutex.Lock()
	defer c.witness.mutex.Unlock()
	t.Logf("%d operations, %d changes of pools and %d results were acknowledged, of %d jobs; %d answers of %d epochs",
		len(l.started), l.changes, totals.Acknowledged, totals.Started, c.witness.answers, len(c.witness.epochs))
	if inEarnest() {
		c.figures.judge(t, c.settings.lease)
	}
}

func (c *campaign) storeName() string {
	if c.database != nil {
		return "PostgreSQL"
	}
	return "SQLite"
}

// harm does one thing to the cluster, sometimes two at once, and waits until all is well again.
// It returns how many.
func (c *campaign) harm(number int) int {
	t := c.t
	faults := []*fault{c.deal().make(c)}
	if c.random.IntN(5) == 0 {
		if second := c.second(faults[0]); second != nil {
			faults = append(faults, second)
		}
	}
	hold := c.hold()
	from := time.Now()
	for _, f := range faults {
		f.begin()
	}
	<-time.After(hold)
	held := time.Since(from)
	for _, f := range slices.Backward(faults) {
		f.end()
	}
	healed := time.Now()
	var words []string
	for _, f := range faults {
		words = append(words, f.what)
	}
	what := strings.Join(words, ", and ")
	if !expected.Soon(func() bool { return c.recovered(healed) }) {
		t.Errorf("fault %d: %s for %v: %s", number+1, what, held, c.ailing(healed))
	}
	to := time.Now()
	s := c.measure(faults, interval{from, to}, healed)
	t.Logf("fault %d: %s for %v; no write for %v, no start for %v, all is well %v after its end",
		number+1, what, round(held), round(s.noWrite), round(slices.Max(append([]time.Duration{0}, s.noStart...))), round(to.Sub(healed)))
	c.figures.add(s)
	return len(faults)
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }

// hold draws how long a fault lasts: shorter than a lease, or longer.
func (c *campaign) hold() time.Duration {
	lease := float64(c.settings.lease)
	if c.random.IntN(2) == 0 {
		return time.Duration(lease * (0.1 + 0.8*c.random.Float64()))
	}
	return time.Duration(lease * (1.2 + 1.8*c.random.Float64()))
}

// recovered says that all is well after a time: a scheduler leads and the other one stands by,
// a write was acknowledged and every node was given work.
func (c *campaign) recovered(since time.Time) bool { return c.ailing(since) == "" }

// ailing says what is not well.
func (c *campaign) ailing(since time.Time) string {
	if !c.witness.wroteSince(since) {
		return "no write is acknowledged"
	}
	for _, name := range c.nodes.Names() {
		if !c.witness.startedSince(name, since) {
			return name + " is not given work"
		}
	}
	leads, standsBy := 0, 0
	for _, s := range c.schedulers {
		switch first, _, _ := strings.Cut(s.ready(), "\n"); {
		case first == "leading":
			leads++
		case strings.HasPrefix(first, "standing by; leader:"):
			standsBy++
		}
	}
	if leads != 1 || standsBy != 1 {
		return fmt.Sprintf("%d schedulers lead and %d know a leader", leads, standsBy)
	}
	return ""
}

// measure looks at how long users and nodes had to wait for each other.
func (c *campaign) measure(faults []*fault, within interval, healed time.Time) (s cost) {
	w := c.witness
	w.mutex.Lock()
	defer w.mutex.Unlock()
	s.kind = faults[0].kind
	if len(faults) > 1 {
		s.kind = "two at once"
	}
	s.noWrite = longestGap(w.writes, within)
	if first, found := firstAfter(w.writes, healed); found {
		s.untilWrite = first.Sub(healed)
	}
	hit := func(node string) bool {
		return slices.ContainsFunc(faults, func(f *fault) bool { return slices.Contains(f.hits, node) })
	}
	for _, name := range c.nodes.Names() {
		if hit(name) {
			continue
		}
		s.noStart = append(s.noStart, longestGap(w.starts[name], within))
		for i, to := range w.takeovers {
			if to.at.Before(within.from) || to.at.After(within.to) || i+1 < len(w.takeovers) && w.takeovers[i+1].at.Sub(to.at) < startsWithin {
				continue
			}
			if first, found := firstAfter(w.starts[name], to.at); found {
				s.untilStart = append(s.untilStart, first.Sub(to.at))
			}
		}
	}
	return s
}
