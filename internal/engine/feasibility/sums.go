package feasibility

import (
	"math"
	"slices"

	"github.com/weirhq/weir/internal/value/resource"
)

// findings returns all findings about the promises.
func (m *model) findings() []Finding {
	return append(m.broken(false), m.remarks()...)
}

// broken returns the promises that cannot be kept, and also guarantees that are
// completed above limits, which are warnings. With quick it stops after the
// first place where something is broken and searches for no conflicts.
func (m *model) broken(quick bool) []Finding {
	found := m.missing()
	if quick && hasBroken(found) {
		return found
	}
	for at := Root; at < len(m.pools); at++ {
		if at != Root {
			found = append(found, m.childrenOverParent(at, quick)...)
		}
		if at == Root || m.isLimited(at) {
			found = append(found, m.overCapacity(at, quick)...)
		}
		if quick && hasBroken(found) {
			return found
		}
	}
	return found
}

// isLimited reports whether limits leave a pool less than the cluster has.
func (m *model) isLimited(pool int) bool { return !m.limits[pool].Dominates(m.total) }

// missing reports promises of resources that the cluster lacks completely. As
// shares they would count as nothing, and pass every other check.
func (m *model) missing() (found []Finding) {
	for _, pool := range m.pools {
		promised := pool.Strong.OrZero()
		if pool.Type != NoIntegral {
			promised = promised.Max(pool.Flow)
		}
		if pool.Type == Burst {
			promised = promised.Max(pool.Burst)
		}
		for _, k := range m.kindsByInterest() {
			if promised[k] > 0 && m.total[k] <= 0 {
				found = append(found, Finding{Code: ResourceMissing, Severity: Broken, Pool: pool.Name, Resource: k, Required: promised[k]})
			}
		}
	}
	return found
}

// childrenOverParent compares the strong guarantees of a pool's children with
// its own, written and completed ones.
func (m *model) childrenOverParent(parent int, quick bool) []Finding {
	var claims []claim
	for _, c := range m.childrenOf(parent) {
		claims = append(claims, claim{pool: c, strong: m.strong[c]})
	}
	finding, over := m.compare(claims, m.strong[parent], claim.strongOnly, quick)
	if !over {
		return nil
	}
	finding.Code, finding.Pool = StrongOverParent, m.name(parent)
	return []Finding{finding}
}

// overCapacity compares what is promised at a place with what it has: strong
// guarantees first, then these with flows and these with bursts, then the curves
// of relaxed pools. A later check adds nothing where an earlier one fails.
func (m *model) overCapacity(at int, quick bool) []Finding {
	codes := [3]Code{StrongOverCluster, FlowOverCluster, BurstOverCluster}
	if at != Root {
		codes = [3]Code{LimitsBelowStrong, LimitsBelowFlow, LimitsBelowBurst}
	}
	claims, capacity := m.claims(at), m.limitsOf(at)
	for k := range capacity {
		if at != Root && capacity[k] >= m.total[k] {
			capacity[k] = resource.Unlimited // the cluster is what limits it
		}
	}
	var found []Finding
	if f, over := m.compare(claims, capacity, claim.strongOnly, quick); over {
		f.Code, f.Pool = codes[0], m.name(at)
		if at == Root || m.isWritten(at, f) {
			return []Finding{f}
		}
		f.Severity = Warning
		found = append(found, f)
	}
	for i, part := range []func(claim) claim{claim.withFlow, claim.withBurst} {
		if !slices.ContainsFunc(claims, func(c claim) bool { return part(c).ratio() > 0 }) {
			continue
		}
		if f, over := m.compare(claims, capacity, part, quick); over {
			f.Code, f.Pool = codes[i+1], m.name(at)
			found = append(found, f)
		}
	}
	if !hasBroken(found) {
		found = append(found, m.starvation(at, claims, quick)...)
	}
	return found
}

// isWritten reports whether any of the short resources is in the pool's
// guarantee as it was written.
func (m *model) isWritten(pool int, f Finding) bool {
	written := m.pools[pool].Strong.Has(f.Resource)
	for _, k := range f.Others {
		written = written || m.pools[pool].Strong.Has(k)
	}
	return written
}

// The parts of a claim that are added up in one check.

func (c claim) strongOnly() claim { return claim{pool: c.pool, strong: c.strong} }
func (c claim) withFlow() claim   { return claim{pool: c.pool, strong: c.strong, flow: c.flow} }
func (c claim) withBurst() claim  { return claim{pool: c.pool, strong: c.strong, burst: c.burst} }

// ratio is the fraction of every resource that a part of a claim needs besides
// the strong guarantee.
func (c claim) ratio() float64 { return c.flow + c.burst }

// compare sums up what claims need and reports the resource that exceeds
// capacity by the largest factor.
func (m *model) compare(claims []claim, capacity resource.Amounts, part func(claim) claim, quick bool) (Finding, bool) {
	finding := Finding{Severity: Broken}
	worst, over := 0.0, false
	for _, k := range m.kindsByInterest() {
		if m.total[k] <= 0 {
			continue
		}
		var strong int64
		ratio := 0.0
		for _, c := range claims {
			p := part(c)
			strong, ratio = saturatingAdd(strong, p.strong[k]), ratio+p.ratio()
		}
		if !m.exceeds(k, strong, ratio, capacity[k], len(claims)) {
			continue
		}
		required := m.required(k, strong, ratio, capacity[k])
		factor := float64(required) / max(float64(capacity[k]), 0.5)
		if !over || factor > worst*(1+tolerance) {
			if over {
				finding.Others = append(finding.Others, finding.Resource)
			}
			worst = factor
			finding.Resource, finding.Required, finding.Available = k, required, capacity[k]
		} else {
			finding.Others = append(finding.Others, k)
		}
		over = true
	}
	if over && !quick {
		conflict := m.largestClaims(claims, finding.Resource, finding.Available, part)
		finding.Conflict, finding.Smallest = m.present(conflict, finding.Resource), true
		var strong int64
		ratio := 0.0
		for _, c := range conflict {
			strong, ratio = saturatingAdd(strong, c.strong[finding.Resource]), ratio+c.ratio()
		}
		finding.ConflictRequired = m.required(finding.Resource, strong, ratio, finding.Available)
	}
	return finding, over
}

// exceeds compares exactly where only strong guarantees are added. Completed
// guarantees in cpu are rounded, so each may be half a unit too large.
func (m *model) exceeds(k resource.Kind, strong int64, ratio float64, capacity int64, claims int) bool {
	if k == resource.CPU && m.options.MainResource != resource.CPU {
		strong -= int64(claims)
	}
	if ratio == 0 {
		return strong > capacity
	}
	return float64(strong)+ratio*float64(m.total[k]) > float64(capacity)*(1+tolerance)
}

// required is the least whole amount that claims fit into, if they do not fit
// into capacity. Parts of a unit are rounded up, and only after summing: claims
// that exceed capacity by half a user slot need one more of them.
func (m *model) required(k resource.Kind, strong int64, ratio float64, capacity int64) int64 {
	exact := ratio * float64(m.total[k])
	whole := math.Round(exact)
	if exact-whole > tolerance*max(1, exact) {
		whole++
	}
	return max(saturatingAdd(strong, int64(min(whole, math.MaxInt64/2))), capacity+1)
}

// largestClaims returns the fewest claims that alone exceed capacity.
func (m *model) largestClaims(claims []claim, k resource.Kind, capacity int64, part func(claim) claim) []claim {
	amounts := make([]float64, len(claims))
	for i, c := range claims {
		p := part(c)
		amounts[i] = float64(p.strong[k]) + p.ratio()*float64(m.total[k])
	}
	members := largestFirst(amounts, func(sum float64) bool {
		return sum > float64(capacity)*(1+tolerance)
	})
	chosen := make([]claim, len(members))
	for i, member := range members {
		chosen[i] = part(claims[member])
	}
	return chosen
}

// present writes claims in amounts of one resource.
func (m *model) present(claims []claim, k resource.Kind) []Claim {
	list := make([]Claim, len(claims))
	for i, c := range claims {
		list[i] = Claim{Pool: m.name(c.pool), Strong: c.strong[k], Flow: m.amount(k, c.flow), Burst: m.amount(k, c.burst)}
	}
	return list
}

// remarks returns warnings and notes about single pools.
func (m *model) remarks() (found []Finding) {
	main := m.options.MainResource
	for i, pool := range m.pools {
		switch pool.Type {
		case Burst:
			if m.burst[i] < m.flow[i]*(1-tolerance) {
				found = append(found, Finding{Code: BurstBelowFlow, Severity: Warning, Pool: pool.Name, Resource: main,
					Required: m.amount(main, m.flow[i]), Available: m.amount(main, m.burst[i])})
			}
		case Relaxed:
			wanted := pool.RelaxedMultiplier
			if wanted == 0 {
				wanted = m.options.RelaxedMultiplier
			}
			f := Finding{Pool: pool.Name, Resource: main, Required: m.amount(main, wanted*m.flow[i])}
			if m.multiplier[i] < wanted*(1-tolerance) && wanted*m.flow[i] <= 1+tolerance {
				f.Code, f.Severity, f.Available = MultiplierOverLimits, Warning, m.amount(main, m.multiplier[i]*m.flow[i])
				found = append(found, f)
			} else if wanted*m.flow[i] > 1+tolerance {
				f.Code, f.Severity, f.Available = MultiplierOverCluster, Note, m.total[main]
				found = append(found, f)
			}
		}
	}
	return found
}
