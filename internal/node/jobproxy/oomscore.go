package jobproxy

import (
	"os"
	"strconv"
	"strings"

	"github.com/weirhq/weir/internal/node/cgroup"
)

// oomScores is whom the kernel has been told to kill first if memory runs out: those who use more than their reserves.
// That is for memory that is gone before the node has looked; where it looks in time it chooses by the same rule.
type oomScores struct {
	above     bool         // the user's processes have the score of those above their reserve
	unsettled bool         // the last pass changed somebody, so that a child born meanwhile may have been missed
	seen      cgroup.Usage // at the last pass that changed nobody
	refused   bool         // it has been said that the kernel does not let the proxy do this

	proxyAbove bool
	proxyScore string // the proxy's own before
}

// setOOMScores follows the last sample, and says whether the user's processes have come to the other side of their
// reserve. Above it every process has the score, also one that has set another one for itself; a pass is left out while
// nobody runs. Back below, those that have it get the score that they began with.
func (p *proxy) setOOMScores() (crossed bool) {
	score := p.job.Memory.OOMScoreAdj
	if score == 0 {
		return false
	}
	p.setOwnOOMScore(p.memory.proxyIsAbove(), score)
	s := &p.oomScores
	above := p.memory.userIsAbove()
	crossed = above != s.above
	s.above = above
	nobodyRan := p.glanced == s.seen && !p.glanced.Approximate
	if !crossed && !s.unsettled && (!above || nobodyRan) {
		return false
	}
	to, of := score, func(now int) bool { return now < score }
	if !above {
		to, of = cgroup.StartOOMScore, func(now int) bool { return now == score }
	}
	changed, err := p.container.SetOOMScore(to, of)
	p.oomScoreRefused(err)
	s.unsettled, s.seen = changed > 0, p.glanced
	return crossed
}

const ownOOMScore = "/proc/self/oom_score_adj"

// setOwnOOMScore does the same for the proxy, once whenever it comes to the other side.
func (p *proxy) setOwnOOMScore(above bool, score int) {
	s := &p.oomScores
	if above == s.proxyAbove {
		return
	}
	s.proxyAbove = above
	to := s.proxyScore
	if above {
		before, err := os.ReadFile(ownOOMScore)
		if err != nil {
			p.oomScoreRefused(err)
			return
		}
		s.proxyScore, to = strings.TrimSpace(string(before)), strconv.Itoa(score)
	}
	if to != "" {
		p.oomScoreRefused(os.WriteFile(ownOOMScore, []byte(to), 0))
	}
}

// oomScoreRefused says once what the kernel does not let the proxy do.
func (p *proxy) oomScoreRefused(err error) {
	if err != nil && !p.oomScores.refused {
		p.oomScores.refused = true
		p.warn("oom_score_adj_on_exceeded_memory_reserve: %v", err)
	}
}
