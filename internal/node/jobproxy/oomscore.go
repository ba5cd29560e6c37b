package jobproxy

import (
	"os"
	"strconv"
	"strings"

	"github.com/weirhq/weir/internal/node/cgroup"
)

// oomScores tracks which processes the kernel should kill first if memory runs out: those that use more than their
// reserves. It covers memory that is gone before the node has sampled it; a node that samples in time chooses by the
// same rule.
type oomScores struct {
	above     bool         // the user's processes have the score of those above their reserve
	unsettled bool         // the last pass changed a process, so it might have missed a child forked meanwhile
	seen      cgroup.Usage // at the last pass that changed no process
	refused   bool         // the refusal by the kernel has been logged

	proxyAbove bool
	proxyScore string // the proxy's previous score
}

// setOOMScores follows the last sample, and reports whether the user's processes have crossed their reserve. Above it
// every process gets the score, even one that has set its own; a pass is skipped while no process runs. Below it again,
// processes with that score get back the one they started with.
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

// ownOOMScore is the file of the proxy's score. In a supervisor only the init is there for this job alone.
func (p *proxy) ownOOMScore() string {
	if p.hosted {
		return "/proc/" + strconv.Itoa(p.init.pid) + "/oom_score_adj"
	}
	return "/proc/self/oom_score_adj"
}

// setOwnOOMScore does the same for the proxy, once per crossing.
func (p *proxy) setOwnOOMScore(above bool, score int) {
	s := &p.oomScores
	if above == s.proxyAbove {
		return
	}
	s.proxyAbove = above
	to := s.proxyScore
	if above {
		before, err := os.ReadFile(p.ownOOMScore())
		if err != nil {
			p.oomScoreRefused(err)
			return
		}
		s.proxyScore, to = strings.TrimSpace(string(before)), strconv.Itoa(score)
	}
	if to != "" {
		p.oomScoreRefused(os.WriteFile(p.ownOOMScore(), []byte(to), 0))
	}
}

// oomScoreRefused logs once what the kernel does not let the proxy do.
func (p *proxy) oomScoreRefused(err error) {
	if err != nil && !p.oomScores.refused {
		p.oomScores.refused = true
		p.warn("oom_score_adj_on_exceeded_memory_reserve: %v", err)
	}
}
