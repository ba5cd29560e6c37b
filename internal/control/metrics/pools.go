package metrics

import (
	"cmp"
	"slices"

	dto "github.com/prometheus/client_model/go"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/resource"
)

// Others is the name under which pools that are not shown one by one are summed up.
// No pool can have this name.
const Others = "<others>"

// causes are the values of the label cause, in the order of [fairshare.Split].
var causes = [...]string{"strong", "integral", "weight_proportional", "total"}

// partialMetrics are amounts that exist only for configured resources.
var partialMetrics = [...]metric{poolStrong, poolBurst, poolFlow, poolLimit}

// figures are all numbers of a pool, or the sums over several pools.
type figures struct {
	shares                      [len(causes)]resource.Shares
	usage, demand               resource.Amounts
	effective                   resource.Amounts
	partial                     [len(partialMetrics)]resource.Partial
	configured, integral        bool
	volume, capacity            float64
	starvation                  float64
	operations, running         int
	runningJobs, pendingJobs    int64
	preempted, preemptedOthers  uint64
	promised                    bool // it has a guarantee
	due                         float64
	short                       [ledger.CauseCount]float64
	parentName, mode, guarantee string // for the info
}

// poolTree is a tree with the necessary parts of its configuration.
type poolTree struct {
	name     string
	total    resource.Amounts
	pools    []*core.Pool   // parents before their children
	parents  []int32        // for each pool, the index of its parent; -1 for the root
	config   *pooltree.Tree // nil if it has just been removed
	promises *promises
	shown    []int32 // indexes in pools of those that are shown, in their order
	hidden   []int32 // indexes of those summed up: the topmost pools that are not shown
}

// poolTreeOf lists the pools of a tree.
func poolTreeOf(tree *core.Tree) poolTree {
	t := poolTree{
		name: tree.Name, total: tree.Total,
		pools: make([]*core.Pool, 0, tree.PoolCount()), parents: make([]int32, 0, tree.PoolCount()),
	}
	places := make([]int32, tree.Slots())
	for p := range tree.Pools() {
		places[p.Slot] = int32(len(t.pools))
		parent := int32(-1)
		if p.Parent >= 0 {
			parent = places[p.Parent]
		}
		t.pools, t.parents = append(t.pools, p), append(t.parents, parent)
	}
	return t
}

// treeKey identifies what a tree shows; while it does not change, neither do the
// series and their labels.
type treeKey struct {
	name      string
	config    *pooltree.Tree
	resources [resource.KindCount]bool
	others    bool
	pools     []shownPool
}

type shownPool struct{ name, parent string }

func (k *treeKey) equal(other *treeKey) bool {
	return k.name == other.name && k.config == other.config && k.resources == other.resources && k.others == other.others &&
		slices.Equal(k.pools, other.pools)
}

// poolBoard holds the families of all pools. It rebuilds them when other pools are
// shown; otherwise it only writes values.
type poolBoard struct {
	keys     []treeKey
	families [poolShort + 1]*dto.MetricFamily
	values   [poolShort + 1][]*float64
	cursor   [poolShort + 1]int
	building bool
	resource [resource.KindCount]*dto.LabelPair
	cause    [len(causes)]*dto.LabelPair
	shortBy  [ledger.CauseCount]*dto.LabelPair
}

func pair(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }

// refresh brings all families up to date.
func (b *poolBoard) refresh(s *server.Server, trees []poolTree) {
	keys := make([]treeKey, len(trees))
	for i := range trees {
		keys[i] = trees[i].key()
	}
	b.building = b.keys == nil || !slices.EqualFunc(b.keys, keys, func(x, y treeKey) bool { return x.equal(&y) })
	if b.building {
		b.reset(keys)
	}
	clear(b.cursor[:])
	for i := range trees {
		t := &trees[i]
		tree := pair("tree", t.name)
		var sum figures
		for _, at := range t.shown {
			f := t.figuresOf(s, at)
			b.put(tree, t.pools[at].Name, &f, &keys[i].resources)
		}
		if len(t.hidden) == 0 {
			continue
		}
		for _, at := range t.hidden {
			f := t.figuresOf(s, at)
			sum.add(&f)
		}
		sum.addPreemptions(s, t)
		b.put(tree, Others, &sum, &keys[i].resources)
	}
}

func (t *poolTree) key() treeKey {
	k := treeKey{name: t.name, config: t.config, others: len(t.hidden) > 0, pools: make([]shownPool, len(t.shown))}
	for i, at := range t.shown {
		k.pools[i] = shownPool{t.pools[at].Name, t.parentOf(at)}
	}
	for kind, amount := range t.total {
		k.resources[kind] = amount > 0
	}
	return k
}

func (b *poolBoard) reset(keys []treeKey) {
	b.keys = keys
	for m := poolInfo; m <= poolShort; m++ {
		b.families[m] = m.family()
		b.values[m] = nil
	}
	for _, k := range resource.Kinds {
		b.resource[k] = pair("resource", k.String())
	}
	for i, cause := range causes {
		b.cause[i] = pair("cause", cause)
	}
	for cause := range ledger.CauseCount {
		b.shortBy[cause] = pair("cause", cause.String())
	}
}

// set writes the value of the next series of a metric. Labels are in the order of
// their names; they are read only when the series is created.
func (b *poolBoard) set(m metric, value float64, labels ...*dto.LabelPair) {
	if b.building {
		b.make(m, value, slices.Clone(labels))
		return
	}
	*b.values[m][b.cursor[m]] = value
	b.cursor[m]++
}

func (b *poolBoard) make(m metric, value float64, labels []*dto.LabelPair) {
	series := &dto.Metric{Label: labels}
	if b.families[m].GetType() == dto.MetricType_COUNTER {
		series.Counter = &dto.Counter{Value: &value}
	} else {
		series.Gauge = &dto.Gauge{Value: &value}
	}
	b.families[m].Metric = append(b.families[m].Metric, series)
	b.values[m] = append(b.values[m], &value)
}

// put writes all series of a pool. Which series exist depends only on the key of its
// tree.
func (b *poolBoard) put(tree *dto.LabelPair, name string, f *figures, resources *[resource.KindCount]bool) {
	var pool *dto.LabelPair
	switch {
	case b.building && name != Others:
		pool = pair("pool", name)
		b.set(poolInfo, 1, pair("integral", f.guarantee), pair("mode", f.mode), pair("parent", f.parentName), pool, tree)
	case b.building:
		pool = pair("pool", name)
	case name != Others:
		b.set(poolInfo, 1)
	}
	for _, k := range resource.Kinds {
		if !resources[k] {
			continue
		}
		for i := range f.shares {
			b.set(poolFairShare, f.shares[i][k], b.cause[i], pool, b.resource[k], tree)
		}
		b.set(poolUsage, f.usage.Float(k), pool, b.resource[k], tree)
		b.set(poolDemand, f.demand.Float(k), pool, b.resource[k], tree)
		if f.configured {
			b.set(poolEffectiveStrong, f.effective.Float(k), pool, b.resource[k], tree)
		}
		for i, m := range partialMetrics {
			if amount, given := f.partial[i].Get(k); given {
				b.set(m, unitsOf(k, amount), pool, b.resource[k], tree)
			}
		}
	}
	if f.integral {
		b.set(poolVolume, f.volume, pool, tree)
		b.set(poolVolumeCapacity, f.capacity, pool, tree)
	}
	b.set(poolStarvation, f.starvation, pool, tree)
	b.set(poolOperations, float64(f.operations), pool, tree)
	b.set(poolRunningOperations, float64(f.running), pool, tree)
	b.set(poolRunningJobs, float64(f.runningJobs), pool, tree)
	b.set(poolPendingJobs, float64(f.pendingJobs), pool, tree)
	b.set(poolSuffered, float64(f.preempted), pool, tree)
	b.set(poolCaused, float64(f.preemptedOthers), pool, tree)
	if f.promised {
		b.set(poolDue, f.due, pool, tree)
		for cause, seconds := range f.short {
			b.set(poolShort, seconds, b.shortBy[cause], pool, tree)
		}
	}
}

func unitsOf(k resource.Kind, amount int64) float64 {
	var a resource.Amounts
	a[k] = amount
	return a.Float(k)
}

// figuresOf reads the numbers of a pool. Everything that decides which series exist
// comes from the configuration, not from the view, which may be older.
func (t *poolTree) figuresOf(s *server.Server, at int32) figures {
	p := t.pools[at]
	f := figures{
		shares: [...]resource.Shares{p.Share.Strong, p.Share.Integral, p.Share.WeightProportional, p.Share.Total},
		usage:  p.Usage, demand: p.Demand, volume: p.VolumeRatio, starvation: float64(p.Starvation),
		operations: p.Operations, running: p.RunningOperations, runningJobs: int64(p.RunningJobs), pendingJobs: int64(p.WaitingJobs),
	}
	f.preempted, f.preemptedOthers = s.PoolPreemptions(t.name, p.Name)
	f.parentName = t.parentOf(at)
	pool, configured := t.configOf(p)
	if !configured {
		f.mode, f.guarantee = "ephemeral", pooltree.NoIntegral.String()
		return f
	}
	own := pool.Config()
	f.configured, f.integral = true, own.Integral.Type.Value() != pooltree.NoIntegral
	f.mode, f.guarantee = own.Mode.Value().String(), own.Integral.Type.Value().String()
	f.partial = [...]resource.Partial{
		own.StrongGuarantee.Value(), own.Integral.Burst.Value(), own.Integral.ResourceFlow.Value(), own.ResourceLimits.Value(),
	}
	promised := t.promises.pools[p.Name]
	f.effective, f.capacity = promised.strong, promised.capacity
	f.promised = !own.StrongGuarantee.Value().IsTrivial() || own.Integral.Type.Value() == pooltree.Burst
	f.due, f.short, _ = s.GuaranteeSeconds(t.name, p.Name)
	return f
}

// parentOf returns the name of a pool's parent, empty for the root.
func (t *poolTree) parentOf(at int32) string {
	if parent := t.parents[at]; parent >= 0 {
		return t.pools[parent].Name
	}
	return ""
}

// configOf returns the configuration of a pool; the root and ephemeral pools have
// none.
func (t *poolTree) configOf(p *core.Pool) (*pooltree.Pool, bool) {
	if t.config == nil || p.Parent < 0 {
		return nil, false
	}
	return t.config.Pool(p.Name)
}

// add adds other to f. It leaves out what only single pools have.
func (f *figures) add(other *figures) {
	for i := range f.shares {
		f.shares[i] = f.shares[i].Add(other.shares[i])
	}
	f.usage, f.demand = f.usage.Add(other.usage), f.demand.Add(other.demand)
	f.effective, f.configured = f.effective.Add(other.effective), true
	f.promised = true
	f.due += other.due
	for cause, seconds := range other.short {
		f.short[cause] += seconds
	}
	f.starvation = max(f.starvation, other.starvation)
	f.operations += other.operations
	f.running += other.running
	f.runningJobs += other.runningJobs
	f.pendingJobs += other.pendingJobs
}

// addPreemptions adds the preemptions of all pools that are not shown: unlike other
// numbers, a pool's preemptions do not include those of the pools below it.
func (f *figures) addPreemptions(s *server.Server, t *poolTree) {
	next := 0
	for at := range t.pools {
		if next < len(t.shown) && t.shown[next] == int32(at) {
			next++
			continue
		}
		suffered, caused := s.PoolPreemptions(t.name, t.pools[at].Name)
		f.preempted += suffered
		f.preemptedOthers += caused
	}
}

// candidate is a pool that may be shown.
type candidate struct {
	tree, at int32
	size     float64
}

// choose decides which pools are shown: all, or as many as the limit allows of those
// with the largest usage or guarantee, as fractions of their trees. A pool is shown
// together with its parents. Roots are always shown.
func choose(trees []poolTree, limit int) {
	var all []candidate
	for i := range trees {
		all = append(all, trees[i].candidates(int32(i))...)
	}
	if len(all) > limit {
		slices.SortFunc(all, func(x, y candidate) int {
			return cmp.Or(cmp.Compare(y.size, x.size), cmp.Compare(x.tree, y.tree), cmp.Compare(x.at, y.at))
		})
		all = all[:max(limit, 0)]
	}
	shown := make([][]bool, len(trees))
	for i := range trees {
		shown[i] = make([]bool, len(trees[i].pools))
	}
	for _, c := range all {
		shown[c.tree][c.at] = true
	}
	for i := range trees {
		t := &trees[i]
		for at := range t.pools {
			parent := t.parents[at]
			switch {
			case parent < 0 || shown[i][at]:
				shown[i][at] = true
				t.shown = append(t.shown, int32(at))
			case shown[i][parent]:
				t.hidden = append(t.hidden, int32(at))
			}
		}
	}
}

// candidates returns the pools of a tree except its root. A pool counts as at least
// as large as its largest child, so that parents are chosen before their children.
func (t *poolTree) candidates(tree int32) []candidate {
	sizes := make([]float64, len(t.pools))
	list := make([]candidate, 0, len(sizes))
	for at := len(sizes) - 1; at >= 0; at-- {
		p := t.pools[at]
		size := max(sizes[at], p.Usage.Share(t.total).Largest())
		if t.promises != nil {
			size = max(size, t.promises.pools[p.Name].strong.Share(t.total).Largest())
		}
		sizes[at] = size
		parent := t.parents[at]
		if parent < 0 {
			continue
		}
		sizes[parent] = max(sizes[parent], size)
		list = append(list, candidate{tree, int32(at), size})
	}
	return list
}
