package feasibility

import (
	"math"
	"slices"

	"github.com/weirhq/weir/internal/value/resource"
)

// model is the input with all derived values that the checks need. It is
// rebuilt for every size of the cluster.
type model struct {
	total   resource.Amounts
	pools   []Pool
	options Options

	// The rest is indexed by pool.

	children [][]int // of pool i at i+1; of the root at 0
	strong   []resource.Amounts
	limits   []resource.Amounts
	// flow and burst are fractions of every resource of the cluster; zero for
	// pools without an integral guarantee.
	flow, burst []float64
	// multiplier is what a relaxed pool can reach within limits, in units of
	// its flow.
	multiplier []float64
}

func newModel(total resource.Amounts, pools []Pool, options Options) *model {
	n := len(pools)
	m := &model{
		total: total, pools: pools, options: options,
		children: make([][]int, n+1),
		strong:   make([]resource.Amounts, n), limits: make([]resource.Amounts, n),
		flow: make([]float64, n), burst: make([]float64, n), multiplier: make([]float64, n),
	}
	for i, pool := range pools {
		m.children[pool.Parent+1] = append(m.children[pool.Parent+1], i)
		m.limits[i] = pool.Limits.OrUnlimited()
		if pool.MaxShareRatio > 0 {
			m.limits[i] = m.limits[i].Min(m.limitsOf(pool.Parent).Min(total).Times(pool.MaxShareRatio))
		}
		if pool.Type != NoIntegral {
			m.flow[i] = max(pool.Flow.Share(total).Largest(), 0)
		}
		if pool.Type == Burst {
			m.burst[i] = max(pool.Burst.Share(total).Largest(), 0)
		}
	}
	m.inferStrong(Root)
	for i := range pools {
		m.inferStrong(i)
	}
	for i, pool := range pools {
		if pool.Type == Relaxed {
			m.multiplier[i] = m.reachable(i)
		}
	}
	return m
}

func (m *model) childrenOf(pool int) []int { return m.children[pool+1] }

func (m *model) strongOf(pool int) resource.Amounts {
	if pool == Root {
		return m.total
	}
	return m.strong[pool]
}

func (m *model) limitsOf(pool int) resource.Amounts {
	if pool == Root {
		return m.total
	}
	return m.limits[pool]
}

func (m *model) name(pool int) string {
	if pool == Root {
		return ""
	}
	return m.pools[pool].Name
}

// inferStrong completes the guarantees of a pool's children: an omitted
// resource gets the child's part of the parent's guarantee in the main
// resource, scaled down, except at the root, to what the written guarantees
// leave.
func (m *model) inferStrong(parent int) {
	children, main := m.childrenOf(parent), m.options.MainResource
	parentStrong := m.strongOf(parent)
	var explicit resource.Amounts
	for _, c := range children {
		m.strong[c] = m.pools[c].Strong.OrZero()
		explicit = explicit.Add(m.strong[c])
	}
	for _, k := range resource.Kinds {
		if k == main || parentStrong[main] <= 0 {
			continue
		}
		implicit := func(c int) float64 {
			if m.pools[c].Strong.Has(k) {
				return 0
			}
			return float64(parentStrong[k]) * (float64(m.strong[c][main]) / float64(parentStrong[main]))
		}
		sum := 0.0
		for _, c := range children {
			sum += implicit(c)
		}
		factor := 1.0
		if residual := float64(max(parentStrong[k]-explicit[k], 0)); parent != Root && sum > residual {
			factor = residual / sum
		}
		for _, c := range children {
			if !m.pools[c].Strong.Has(k) {
				m.strong[c][k] = toStorage(k, implicit(c)*factor)
			}
		}
	}
}

// toStorage rounds cpu to its storage unit and truncates others.
func toStorage(k resource.Kind, v float64) int64 {
	if k == resource.CPU {
		return int64(math.Round(v))
	}
	return int64(v)
}

// reachable is the multiplier of a relaxed pool, or less if limits of the pool
// or of an ancestor leave less. Limits that do not even leave the flow are
// reported elsewhere; here they are ignored.
func (m *model) reachable(pool int) float64 {
	multiplier := m.pools[pool].RelaxedMultiplier
	if multiplier == 0 {
		multiplier = m.options.RelaxedMultiplier
	}
	if m.flow[pool] <= 0 {
		return multiplier
	}
	for p := pool; p != Root; p = m.pools[p].Parent {
		if !m.isLimited(p) {
			continue
		}
		headroom, _ := m.headroom(p)
		if reach := headroom / m.flow[pool]; reach >= 1-tolerance {
			multiplier = min(multiplier, reach)
		}
	}
	return multiplier
}

// headroom is the share of every resource that the limits of a pool leave above
// its strong guarantee, and the resource that decides. At the root it is what
// the cluster has above all strong guarantees.
func (m *model) headroom(at int) (share float64, scarce resource.Kind) {
	strong := m.strongAt(at)
	share, scarce = math.Inf(1), m.options.MainResource
	for _, k := range m.kindsByInterest() {
		if m.total[k] <= 0 {
			continue
		}
		left := (float64(min(m.limitsOf(at)[k], m.total[k])) - float64(strong[k])) / float64(m.total[k])
		if left < share-tolerance {
			share, scarce = left, k
		}
	}
	if math.IsInf(share, 1) {
		share = 0
	}
	return share, scarce
}

// strongAt is what strong guarantees use of a place's resources.
func (m *model) strongAt(at int) (sum resource.Amounts) {
	if at != Root {
		return m.strong[at]
	}
	for _, c := range m.childrenOf(Root) {
		sum = sum.Add(m.strong[c])
	}
	return sum
}

// kindsByInterest lists the main resource first, so that it is named when
// several are equally short.
func (m *model) kindsByInterest() []resource.Kind {
	kinds := make([]resource.Kind, 0, resource.KindCount)
	kinds = append(kinds, m.options.MainResource)
	for _, k := range resource.Kinds {
		if k != m.options.MainResource {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// claim is what a pool claims of a place's resources.
type claim struct {
	pool        int
	strong      resource.Amounts
	flow, burst float64
}

// claims lists, in the order of pools, everything that is promised from a
// place's resources: for the root the strong guarantees of its children, for a
// pool its own; and all integral guarantees below.
func (m *model) claims(at int) []claim {
	var list []claim
	for _, i := range m.subtree(at) {
		c := claim{pool: i, flow: m.flow[i], burst: m.burst[i]}
		if i == at || at == Root && m.pools[i].Parent == Root {
			c.strong = m.strong[i]
		}
		if !c.strong.IsZero() || c.flow > 0 || c.burst > 0 {
			list = append(list, c)
		}
	}
	return list
}

// subtree lists a pool and everything below it in ascending order.
func (m *model) subtree(at int) []int {
	if at == Root {
		return upTo(len(m.pools))
	}
	list := []int{at}
	for i := 0; i < len(list); i++ {
		list = append(list, m.childrenOf(list[i])...)
	}
	slices.Sort(list)
	return list
}

// amount is the fraction ratio of a resource of the cluster.
func (m *model) amount(k resource.Kind, ratio float64) int64 {
	return int64(math.Round(float64(m.total[k]) * ratio))
}
