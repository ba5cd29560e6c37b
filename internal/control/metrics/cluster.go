package metrics

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/internal/control/notify"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/node/kube"
	"github.com/weirhq/weir/internal/sim/forecast"
	"github.com/weirhq/weir/internal/value/resource"
)

var descriptions = func() (list [metricCount]*prometheus.Desc) {
	for m := range list {
		d := &Definitions[m]
		list[m] = prometheus.NewDesc(d.Name, d.Help, d.Labels, nil)
	}
	return list
}()

// cluster collects all metrics except those of pools and requests.
type cluster struct {
	server   *server.Server
	version  string
	revision string
	trees    []poolTree // of the current scrape
	notifier *notify.Notifier
	kube     func() kube.Counts // nil without Kubernetes

	size     float64
	sizedAt  time.Time
	sized    bool
	patience time.Duration // how long to wait for the size of the store
}

func newCluster(s *server.Server, version string) *cluster {
	c := &cluster{server: s, version: version, patience: sizePatience}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				c.revision = setting.Value
			}
		}
	}
	return c
}

// sink receives series of metrics.
type sink chan<- prometheus.Metric

func (to sink) value(m metric, value float64, labels ...string) {
	kind := prometheus.GaugeValue
	if Definitions[m].Type == "counter" {
		kind = prometheus.CounterValue
	}
	to <- prometheus.MustNewConstMetric(descriptions[m], kind, value, labels...)
}

func (to sink) status(m metric, holds bool, labels ...string) {
	value := 0.0
	if holds {
		value = 1
	}
	to.value(m, value, labels...)
}

func (to sink) tallies(m metric, list []server.Tally) {
	for _, t := range list {
		to.value(m, float64(t.Count), t.Name)
	}
}

func (to sink) distribution(m metric, d server.Distribution, labels ...string) {
	buckets := make(map[float64]uint64, len(d.Bounds))
	for i, bound := range d.Bounds {
		buckets[bound.Seconds()] = d.Counts[i]
	}
	to <- prometheus.MustNewConstHistogram(descriptions[m], d.Count, d.Sum.Seconds(), buckets, labels...)
}

// Describe names what Collect collects.
func (c *cluster) Describe(to chan<- *prometheus.Desc) {
	for m := range metricCount {
		if m < poolInfo || m > poolShort && m < apiRequests {
			to <- descriptions[m]
		}
	}
}

// Collect reads what the server publishes.
func (c *cluster) Collect(channel chan<- prometheus.Metric) {
	to := sink(channel)
	c.collectProcess(to)
	c.collectTrees(to)
	c.collectNodes(to)
	c.collectWork(to)
	c.collectBudgets(to)
	c.collectTimes(to)
	c.collectStore(to)
}

// alertKinds are shown even when they are not raised, so that a rule on them
// always has a series.
var alertKinds = []server.AlertKind{
	server.AlertStore, server.AlertInvariants, server.AlertOverload, server.AlertNodesNoTree, server.AlertNodesRefused, server.AlertNodesUnwell,
	server.AlertRevival, server.AlertFeasibility, server.AlertHistory, server.AlertRetention, server.AlertPoolConfig, server.AlertDefaultTree,
	server.AlertDefaultParent, server.AlertTokens, server.AlertUnrecognized, server.AlertSettings, server.AlertOperationWait, server.AlertHeldBack, server.AlertFiles, server.AlertClock,
	server.AlertLoopback, server.AlertLedger, server.AlertLedgerDiffers, server.AlertForecasts, server.AlertBlobs, server.AlertBlobsApart, server.AlertKubernetes, server.AlertFigures, server.AlertJournal,
}

func (c *cluster) collectProcess(to sink) {
	s := c.server
	leader, leading, view := s.Leader(), s.Leading(), s.View()
	to.value(buildInfo, 1, c.version, c.revision, goVersion)
	to.status(leadingStatus, leading)
	to.status(leaderKnownStatus, leading || leader.Alive)
	to.value(leaderEpoch, float64(leader.Epoch))
	to.status(revivingStatus, leading && view.Reviving)
	jobs, until := 0, time.Time{}
	held := s.HeldBack()
	for i := range held {
		jobs += held[i].Jobs
		if held[i].Until.After(until) {
			until = held[i].Until
		}
	}
	to.value(heldBackNodes, float64(len(held)))
	to.value(heldBackJobs, float64(jobs))
	seconds := 0.0
	if !until.IsZero() {
		seconds = float64(until.UnixMilli()) / 1000
	}
	to.value(heldBackUntil, seconds)
	if !view.At.IsZero() {
		to.value(updatedTimestamp, float64(view.At.UnixMilli())/1000)
	}
	to.value(waitingRequests, float64(s.Counters().Waiting))
	up := map[server.AlertKind]bool{}
	for _, alert := range s.Alerts() {
		up[alert.Kind] = true
	}
	for _, kind := range alertKinds {
		to.status(alertStatus, up[kind], string(kind))
	}
	to.value(forecastSeconds, s.ForecastTime().Seconds())
	for _, t := range s.ForecastTallies() {
		to.value(forecastSettled, float64(t.Settled), t.Tree, t.Target.String())
		if t.Settled > 0 {
			to.value(forecastCoverage, t.Coverage(), t.Tree, t.Target.String())
		}
		for m := range forecast.MethodCount {
			if t.Scored[m] > 0 {
				to.value(forecastLoss, t.Loss[m], t.Tree, t.Target.String(), m.String())
			}
		}
	}
	c.collectKube(to)
	if c.notifier == nil {
		return
	}
	for _, state := range c.notifier.States() {
		to.value(notifications, float64(state.Delivered), state.Target, "delivered")
		to.value(notifications, float64(state.Failed), state.Target, "failed")
		to.value(notifications, float64(state.Dropped), state.Target, "dropped")
		to.value(notificationsWaiting, float64(state.Waiting), state.Target)
	}
}

func (c *cluster) collectKube(to sink) {
	if c.kube == nil {
		return
	}
	f := c.kube()
	for _, w := range f.Writes {
		to.value(kubeWrites, float64(w.Count), w.Verb, w.Code)
	}
	for _, of := range []struct {
		metric metric
		list   []kube.ResultCount
	}{{kubeBinds, f.Binds}, {kubeEvictions, f.Evictions}, {kubeResizes, f.Resizes}} {
		for _, c := range of.list {
			to.value(of.metric, float64(c.Count), c.Result)
		}
	}
	to.distribution(kubeBindSeconds, server.Distribution(f.BindTimes))
	for _, w := range f.Waits {
		to.distribution(kubePodWait, server.Distribution(w.Times), w.Tree, w.Pool)
	}
	for _, p := range f.Standing.Pending {
		to.value(kubePendingPods, float64(p.Count), p.Tree, p.Pool, p.Reason)
	}
	to.value(kubeClasses, float64(f.Standing.Classes))
	to.value(kubeWriteRate, f.Rate)
	for _, w := range f.Watches {
		to.value(kubeWatchAge, w.Age.Seconds(), w.Resource)
	}
	for _, g := range c.server.GangAssemblies() {
		to.distribution(kubeGangAssembly, g.Distribution, g.Result)
	}
	to.value(kubeMetricsAge, f.Standing.FiguresAge.Seconds())
}

func (c *cluster) collectTrees(to sink) {
	for i := range c.trees {
		t := &c.trees[i]
		name := t.name
		root := t.pools[0]
		var guaranteed resource.Amounts
		var starving, aggressively float64
		for at, p := range t.pools {
			if t.parents[at] == 0 && t.promises != nil {
				guaranteed = guaranteed.Add(t.promises.pools[p.Name].strong)
			}
			switch p.Starvation {
			case scheduling.Starving:
				starving++
			case scheduling.AggressivelyStarving:
				aggressively++
			}
		}
		for _, k := range resource.Kinds {
			if t.total[k] <= 0 {
				continue
			}
			to.value(treeResources, t.total.Float(k), name, k.String())
			to.value(treeUsage, root.Usage.Float(k), name, k.String())
			to.value(treeDemand, root.Demand.Float(k), name, k.String())
			to.value(treeGuaranteed, guaranteed.Float(k), name, k.String())
		}
		to.value(treePools, float64(len(t.pools)-1), name)
		to.value(treeStarvingPools, starving, name, scheduling.Starving.String())
		to.value(treeStarvingPools, aggressively, name, scheduling.AggressivelyStarving.String())
		to.value(treeRunningJobs, float64(root.RunningJobs), name)
		to.value(treePendingJobs, float64(root.WaitingJobs), name)
	}
}

// nodeState returns the first state that applies to a node.
func nodeState(n *server.Node) string {
	switch {
	case n.RegistrationError != "":
		return "refused"
	case !n.Online:
		return "offline"
	case n.Banned:
		return "banned"
	case n.Status.Draining:
		return "draining"
	case n.TakesNoJobs() || n.Status.JobsDisabled:
		return "jobs_disabled"
	}
	return "online"
}

var nodeStates = [...]string{"online", "offline", "banned", "draining", "jobs_disabled", "refused"}

// isolationNumber orders how far nodes isolate jobs.
func isolationNumber(i *server.Isolation) float64 {
	switch {
	case i.Level == "full" && i.RunAs != "agent":
		return 3
	case i.Level == "full":
		return 2
	case i.Level == "shared_files":
		return 1
	}
	return 0
}

func (c *cluster) collectNodes(to sink) {
	type place struct{ tree, state string }
	counts := map[place]int{}
	trees := []string{""}
	for i := range c.trees {
		trees = append(trees, c.trees[i].name)
	}
	known := make(map[string]bool, len(trees))
	for _, tree := range trees {
		known[tree] = true
	}
	for _, n := range c.server.Nodes() {
		tree := n.Tree
		if !known[tree] {
			tree = "" // it has just been removed
		}
		counts[place{tree, nodeState(n)}]++
		if n.Isolation != nil {
			to.value(isolationLevel, isolationNumber(n.Isolation), n.Name)
		}
		for _, g := range n.Status.GPUs {
			if g.Utilization >= 0 {
				to.value(gpuUtilization, float64(g.Utilization)/100, n.Name, g.ID)
			}
			to.value(gpuMemory, float64(g.Memory), n.Name, g.ID)
			to.value(gpuMemoryUsed, float64(g.MemoryInUse), n.Name, g.ID)
			to.status(gpuUsable, g.Fault == "", n.Name, g.ID)
		}
	}
	for _, tree := range trees {
		for _, state := range nodeStates {
			to.value(nodesByState, float64(counts[place{tree, state}]), tree, state)
		}
	}
}

func (c *cluster) collectWork(to sink) {
	var states [operation.Aborted + 1]int
	for _, o := range c.server.Operations() {
		states[o.State]++
	}
	for state := operation.Starting; state <= operation.Aborted; state++ {
		if !state.IsFinished() {
			to.value(operationsByState, float64(states[state]), state.String())
		}
	}
	counters, measures := c.server.Counters(), c.server.Measures()
	to.value(operationsStarted, float64(counters.OperationsStarted))
	to.tallies(operationsEnded, measures.OperationsEnded)
	to.tallies(jobsStarted, measures.JobsStarted)
	to.value(jobsEnded, float64(counters.JobsCompleted), "completed")
	to.value(jobsEnded, float64(counters.JobsFailed), "failed")
	to.value(jobsEnded, float64(counters.JobsAborted), "aborted")
	to.value(jobsEnded, float64(counters.JobsInterrupted), "interrupted")
	to.tallies(jobsAborted, measures.JobsAborted)
	to.value(jobsAdopted, float64(counters.Adopted))
	to.distribution(jobStartLatency, measures.JobStartLatency)
	to.tallies(preemptions, measures.Preemptions)
	to.value(preemptionCycles, float64(c.server.Counters().PreemptionCycles))
	for i := range c.trees {
		t := &c.trees[i]
		saved := c.server.SavedAmounts(t.name)
		for _, k := range [...]resource.Kind{resource.CPU, resource.Memory} {
			to.value(savedAmounts, saved[k].Seconds()/float64(k.Scale()), t.name, k.String())
		}
		lost := c.server.PreemptionLosses(t.name)
		for rule := range ledger.RuleCount {
			for _, k := range resource.Kinds {
				if t.total[k] > 0 {
					to.value(preemptionLost, lost[rule][k].Seconds()/float64(k.Scale()), t.name, k.String(), rule.String())
				}
			}
		}
	}
}

func (c *cluster) collectBudgets(to sink) {
	states := c.server.BudgetParts()
	for i := range states {
		to.value(budgetSpent, states[i].Part(), states[i].Name.Value())
	}
}

func (c *cluster) collectTimes(to sink) {
	measures := c.server.Measures()
	to.distribution(heartbeatLatency, measures.HeartbeatLatency)
	to.distribution(heartbeatProcessing, measures.HeartbeatProcessing)
	to.tallies(heartbeatsSkipped, measures.HeartbeatsSkipped)
	to.distribution(updateDuration, measures.UpdateDuration)
	for _, stage := range measures.UpdateStages {
		to.value(updateStages, time.Duration(stage.Count).Seconds(), stage.Name)
	}
	to.distribution(storeCommitLatency, measures.CommitLatency)
	to.value(storeCommitRetries, float64(measures.CommitRetries))
}

// The size of the store is queried rarely, and with a short timeout.
const (
	sizePeriod   = time.Minute
	sizePatience = 500 * time.Millisecond
)

func (c *cluster) collectStore(to sink) {
	counters := c.server.Counters()
	to.value(storeInfo, 1, c.server.Store().Engine())
	to.value(storeCommits, float64(counters.Commits))
	to.value(storeRows, float64(counters.Rows))
	written := c.server.Recorder().Counters()
	to.value(journalBytes, float64(written.Bytes))
	to.value(journalSegments, float64(written.Segments))
	to.value(journalGaps, float64(written.Gaps))
	if now := time.Now(); now.Sub(c.sizedAt) >= sizePeriod {
		ctx, cancel := context.WithTimeout(context.Background(), c.patience)
		defer cancel()
		size, err := c.server.Store().Size(ctx)
		c.size, c.sized, c.sizedAt = float64(size), err == nil, now
	}
	if c.sized {
		to.value(storeSize, c.size)
	}
}
