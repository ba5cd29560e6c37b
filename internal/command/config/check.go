package config

import (
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Rules between settings.
const (
	RuleOrder    document.Rule = "order"    // one setting must not exceed another
	RuleTogether document.Rule = "together" // settings that need each other
	RuleEither   document.Rule = "either"   // settings that exclude each other
	RuleExposed  document.Rule = "exposed"  // a warning: others may intercept the traffic
	RuleSlow     document.Rule = "slow"     // a warning: the settings break a promise of the documents
)

// checker applies rules between settings and locates the settings that break them.
type checker struct {
	loaded             *Loaded
	problems, warnings document.Problems
}

// check applies every rule between settings.
func (l *Loaded) check() (problems, warnings document.Problems) {
	c := &checker{loaded: l}
	c.scheduler(&l.Config.Scheduler)
	c.node(&l.Config.Node)
	c.up(&l.Config.Up)
	return c.problems.Sorted(), c.warnings.Sorted()
}

// problem describes a problem of one setting.
func (c *checker) problem(setting string, rule document.Rule, format string, args ...any) document.Problem {
	origin := c.loaded.Origin(setting)
	return document.Problem{File: origin.Name, Position: origin.At, Path: setting, Rule: rule, Message: fmt.Sprintf(format, args...)}
}

func (c *checker) refuse(setting string, rule document.Rule, format string, args ...any) {
	c.problems = append(c.problems, c.problem(setting, rule, format, args...))
}

func (c *checker) warn(setting string, rule document.Rule, format string, args ...any) {
	c.warnings = append(c.warnings, c.problem(setting, rule, format, args...))
}

// given prefers, of two settings that break a rule, the one that the user set.
func (c *checker) given(a, b string) string {
	if c.loaded.Origin(a).From == FromDefault && c.loaded.Origin(b).From != FromDefault {
		return b
	}
	return a
}

// atMost refuses a small setting that is greater than a large one.
func (c *checker) atMost(small string, a int64, large string, b int64, show func(int64) string) {
	if a > b {
		c.refuse(c.given(small, large), RuleOrder, "%s (%s) must not exceed %s (%s)", path.Base(small), show(a), path.Base(large), show(b))
	}
}

func (c *checker) durations(small string, a opt[time.Duration], large string, b opt[time.Duration]) {
	if a.IsSet() && b.IsSet() {
		c.atMost(small, int64(a.Value()), large, int64(b.Value()), func(v int64) string { return document.FormatDuration(time.Duration(v)) })
	}
}

func (c *checker) numbers(small string, a opt[int], large string, b opt[int]) {
	if a.IsSet() && b.IsSet() {
		c.atMost(small, int64(a.Value()), large, int64(b.Value()), func(v int64) string { return fmt.Sprint(v) })
	}
}

// together refuses one of two settings without the other.
func (c *checker) together(a string, hasA bool, b string, hasB bool) {
	if hasA && !hasB {
		c.refuse(a, RuleTogether, "needs %s", b)
	}
	if hasB && !hasA {
		c.refuse(b, RuleTogether, "needs %s", a)
	}
}

// budgets applies the rules between settings of budgets.
func (c *checker) budgets(a *Accounting) {
	list := a.Budgets.Value()
	for i := range list {
		b := &list[i]
		path := fmt.Sprintf("scheduler/accounting/budgets/%d", i)
		if !b.Name.IsSet() {
			c.refuse(path+"/name", document.RuleMissing, "a budget needs a name")
		}
		_, of, ok := b.Limit()
		switch {
		case !ok:
			c.refuse(path, RuleEither, "needs one of cost, cpu, gpu and memory_gib")
		case of == resource.KindCount && len(a.Prices.Value().Periods.Value()) == 0:
			c.refuse(path+"/cost", RuleTogether, "needs accounting/prices")
		}
		if key, _, _ := strings.Cut(b.Label.Value(), "="); b.Label.IsSet() && !slices.Contains(a.Labels.Value(), key) {
			c.refuse(path+"/label", document.RuleUnknownValue, "%q is not one of accounting/labels", key)
		}
	}
	for _, name := range ledger.BudgetNames(list) {
		c.refuse("scheduler/accounting/budgets", document.RuleDuplicateKey, "two budgets are called %q", name)
	}
}

func (c *checker) scheduler(s *Scheduler) {
	c.notifications(&s.Notifications)
	c.budgets(&s.Accounting)
	pooltree.CheckTemplates(s.Templates.Value(), func(path string, rule document.Rule, message string) {
		c.refuse("scheduler/template_pool_tree_config_map/"+path, rule, "%s", message)
	})
	c.numbers("scheduler/soft_concurrent_heartbeat_limit", s.Overload.SoftHeartbeats,
		"scheduler/overload/max_queue_length", s.Overload.QueueLength)
	c.durations("scheduler/retention/stderr", s.Retention.Stderr, "scheduler/retention/jobs", s.Retention.Jobs)
	c.durations("scheduler/retention/jobs", s.Retention.Jobs, "scheduler/retention/operations", s.Retention.Operations)
	c.durations("scheduler/history/seconds", s.History.Seconds, "scheduler/history/minutes", s.History.Minutes)
	c.durations("scheduler/history/minutes", s.History.Minutes, "scheduler/history/hours", s.History.Hours)
	c.durations("scheduler/node_heartbeat_timeout", s.Nodes.HeartbeatTimeout,
		"scheduler/max_node_unseen_period_to_abort_allocations", s.Nodes.UnseenToAbort)
	if period, timeout := s.Nodes.HeartbeatPeriod.Value(), s.Nodes.HeartbeatTimeout.Value(); timeout < 2*period {
		c.refuse(c.given("scheduler/node_heartbeat_timeout", "scheduler/node_heartbeat_period"), RuleOrder,
			"node_heartbeat_timeout (%s) must be at least twice node_heartbeat_period (%s)",
			document.FormatDuration(timeout), document.FormatDuration(period))
	}
	c.leader(&s.Leader)
	c.serverTLS(s)
	if s.StorePasswordFile.IsSet() {
		switch store := s.Store.Value(); {
		case !s.Store.IsSet() || len(store) < 8 || store[:8] != "postgres":
			c.refuse("scheduler/store_password_file", RuleTogether, "needs a store that has a password")
		case hasPassword(store):
			c.refuse("scheduler/store_password_file", RuleEither, "the address of the store has a password already")
		}
	}
}

// takeover is the takeover time of a standby that the documents promise.
const takeover = 5 * time.Second

func (c *checker) leader(l *Leader) {
	ttl, renew, poll := l.LeaseTTL.Value(), l.RenewPeriod.Value(), l.StandbyPollPeriod.Value()
	if renew > ttl/3 {
		c.refuse(c.given("scheduler/leader/renew_period", "scheduler/leader/lease_ttl"), RuleOrder,
			"renew_period (%s) must be at most a third of lease_ttl (%s), or one slow commit costs the leadership",
			document.FormatDuration(renew), document.FormatDuration(ttl))
	}
	if ttl+poll > takeover {
		c.warn(c.given("scheduler/leader/lease_ttl", "scheduler/leader/standby_poll_period"), RuleSlow,
			"a standby takes over only after %s; %s is what is usually promised", document.FormatDuration(ttl+poll), document.FormatDuration(takeover))
	}
}

func (c *checker) serverTLS(s *Scheduler) {
	tls := s.TLS
	c.together("scheduler/tls/certificate", tls.Certificate.IsSet(), "scheduler/tls/key", tls.Key.IsSet())
	secure := tls.Certificate.IsSet() || tls.SelfSigned.Value()
	if tls.Certificate.IsSet() && tls.SelfSigned.Value() {
		c.refuse("scheduler/tls/self_signed", RuleEither, "excludes scheduler/tls/certificate")
	}
	if tls.ClientCA.IsSet() && !secure {
		c.refuse("scheduler/tls/client_ca", RuleTogether, "needs scheduler/tls/certificate or scheduler/tls/self_signed")
	}
	if !secure && !isLoopback(s.Listen.Value()) {
		c.warn("scheduler/listen", RuleExposed, "others on the network reach %s without TLS: tokens can be read on the way", s.Listen.Value())
	}
}

// isLoopback reports whether only this machine can reach an address.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (c *checker) node(n *Node) {
	c.together("node/tls/certificate", n.TLS.Certificate.IsSet(), "node/tls/key", n.TLS.Key.IsSet())
	if n.Token.IsSet() && n.TokenFile.IsSet() {
		c.refuse(c.given("node/token_file", "node/token"), RuleEither, "give node/token or node/token_file, not both")
	}
	if !n.TLS.Enabled.Value() {
		if n.TLS.CA.IsSet() {
			c.refuse("node/tls/ca", RuleTogether, "needs node/tls/enabled")
		}
		if n.TLS.Certificate.IsSet() {
			c.refuse("node/tls/certificate", RuleTogether, "needs node/tls/enabled")
		}
	}
	c.durations("node/heartbeat/min_backoff", n.Heartbeat.MinBackoff, "node/heartbeat/max_backoff", n.Heartbeat.MaxBackoff)
	c.durations("node/heartbeat/splay", n.Heartbeat.Splay, "node/heartbeat/period", n.Heartbeat.Period)
	if n.Heartbeat.Splay.IsSet() && !n.Heartbeat.Period.IsSet() {
		c.refuse("node/heartbeat/splay", RuleTogether, "needs node/heartbeat/period")
	}
	if n.Pprof.Value() && !n.Listen.IsSet() {
		c.refuse("node/pprof", RuleTogether, "needs node/listen")
	}
	c.durations("node/memory_watchdog_period", n.Memory.WatchdogPeriod, "node/memory_overdraft_timeout", n.Memory.MemoryOverdraftTimeout)
}

func (c *checker) up(u *Up) {
	agents := u.Agents.Value()
	if len(agents) > mostLocalNodes {
		c.refuse("up/agents", document.RuleOutOfRange, "at most %d nodes can be started, not %d", mostLocalNodes, len(agents))
	}
	if len(agents) > 0 && u.Nodes.IsSet() {
		c.refuse("up/nodes", RuleEither, "give up/nodes or up/agents, not both")
	}
	if u.Kubernetes.Value() {
		if len(agents) > 0 || u.Nodes.IsSet() {
			c.refuse(c.given("up/nodes", "up/agents"), RuleEither, "with up/kubernetes the cluster has the nodes; up/kwok adds pretended ones")
		}
	} else if u.Kwok.Value() > 0 {
		c.refuse("up/kwok", RuleTogether, "needs up/kubernetes")
	}
	seen := map[string]bool{}
	for i, agent := range agents {
		if name, ok := agent.Name.Get(); ok {
			if seen[name] {
				c.refuse("up/agents", document.RuleRepeated, "node %d: there is another node called %q", i, name)
			}
			seen[name] = true
		}
	}
}

// Require refuses a configuration in which a section lacks a setting that its process needs.
func (l *Loaded) Require(section string) error {
	var problems document.Problems
	missing := func(setting string) {
		s, _ := find(setting)
		message := fmt.Sprintf("must be given: in the file or by %s", s.Variable())
		if s.Flag() != "" {
			message = fmt.Sprintf("must be given: in the file, by %s or by --%s", s.Variable(), s.Flag())
		}
		problems = append(problems, document.Problem{Path: setting, Rule: document.RuleMissing, Message: message})
	}
	if section == NodeSection && len(l.Config.Node.Schedulers.Value()) == 0 {
		missing("node/schedulers")
	}
	return problems.Err()
}
