package operation

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/value/digest"
	"github.com/weirhq/weir/internal/value/resource"
)

// MemorySnapshot is what a task has learnt about the memory of its jobs.
type MemorySnapshot struct {
	User  *digest.Snapshot `json:"user_job_digest,omitempty"`
	Proxy *digest.Snapshot `json:"job_proxy_digest,omitempty"`
	// Retries are jobs with separate factors for their next start, Started are
	// running jobs whose factors differ from the initial ones; by cookie.
	Retries    []RetrySnapshot     `json:"retries,omitempty"`
	Started    []StartedSnapshot   `json:"started,omitempty"`
	Overuse    int64               `json:"overuse,omitempty"`
	Statistics []StatisticSnapshot `json:"statistics,omitempty"`
}

// RetrySnapshot is the retry of one job.
type RetrySnapshot struct {
	Cookie int32 `json:"cookie"`
	Retry
}

// StartedSnapshot is the memory that a running job was given.
type StartedSnapshot struct {
	Cookie      int32   `json:"cookie"`
	UserFactor  float64 `json:"user_job_factor"`
	ProxyFactor float64 `json:"job_proxy_factor"`
}

// StatisticSnapshot is a row of statistics without the states in which no job
// ended.
type StatisticSnapshot struct {
	Path  string               `json:"path"`
	Ended map[EndState]Summary `json:"ended"`
}

// snapshot returns the learnt state, or nil if nothing has been learnt.
func (r *reserves) snapshot() *MemorySnapshot {
	if r.user.digest.Count()+r.proxy.digest.Count() == 0 && len(r.retries)+len(r.started)+len(r.statistics) == 0 {
		return nil
	}
	s := &MemorySnapshot{User: digestSnapshot(&r.user.digest), Proxy: digestSnapshot(&r.proxy.digest), Overuse: r.overuse}
	for _, cookie := range slices.Sorted(maps.Keys(r.retries)) {
		s.Retries = append(s.Retries, RetrySnapshot{Cookie: cookie, Retry: r.retries[cookie]})
	}
	for _, cookie := range slices.Sorted(maps.Keys(r.started)) {
		f := r.started[cookie]
		s.Started = append(s.Started, StartedSnapshot{Cookie: cookie, UserFactor: f.user, ProxyFactor: f.proxy})
	}
	for i := range r.statistics {
		row := StatisticSnapshot{Path: r.statistics[i].Path, Ended: map[EndState]Summary{}}
		for state, summary := range r.statistics[i].ByState {
			if summary.Count > 0 {
				row.Ended[EndState(state)] = summary
			}
		}
		s.Statistics = append(s.Statistics, row)
	}
	return s
}

func digestSnapshot(d *digest.Digest) *digest.Snapshot {
	if d.Count() == 0 {
		return nil
	}
	s := d.Snapshot()
	return &s
}

// restoreMemory restores what a snapshot has learnt. It must run before the
// sets of jobs are restored, because they depend on which jobs are retries.
func (t *task) restoreMemory(s *MemorySnapshot, next int32, config *MemoryConfig) error {
	if s == nil {
		return nil
	}
	r := &t.memory
	if err := r.user.restoreDigest(s.User); err != nil {
		return err
	}
	if err := r.proxy.restoreDigest(s.Proxy); err != nil {
		return err
	}
	r.follow(config)
	t.base[resource.Memory] = r.total()
	for i := range s.Retries {
		retry := &s.Retries[i]
		if retry.Cookie < 0 || retry.Cookie >= next {
			return fmt.Errorf("a retry of job %d", retry.Cookie)
		}
		if err := retry.check(); err != nil {
			return fmt.Errorf("retry of job %d: %w", retry.Cookie, err)
		}
		r.addRetry(retry.Cookie, retry.Retry)
	}
	for _, started := range s.Started {
		f := factors{user: started.UserFactor, proxy: started.ProxyFactor}
		if started.Cookie < 0 || started.Cookie >= t.count || !f.areValid() {
			return fmt.Errorf("memory of job %d", started.Cookie)
		}
		r.remember(started.Cookie, f)
	}
	r.overuse = s.Overuse
	return r.statistics.restore(s.Statistics)
}

func (p *process) restoreDigest(s *digest.Snapshot) error {
	if s == nil {
		return nil
	}
	d, err := digest.Restore(*s)
	if err != nil {
		return err
	}
	p.digest = d
	return nil
}

func (r *Retry) check() error {
	if r.User.Status == NeverOverdrafted && r.Proxy.Status == NeverOverdrafted {
		return fmt.Errorf("none of its processes has overdrafted")
	}
	for _, raise := range []Raise{r.User, r.Proxy} {
		if raise.Status >= overdraftStatusCount || raise.Status != NeverOverdrafted && !isFactor(raise.Factor) {
			return fmt.Errorf("status %v with factor %v", raise.Status, raise.Factor)
		}
	}
	return nil
}

func isFactor(f float64) bool { return f > 0 && f <= math.MaxFloat32 }

func (f factors) areValid() bool { return isFactor(f.user) && isFactor(f.proxy) }

func (s *JobStatistics) restore(rows []StatisticSnapshot) error {
	if len(rows) > MaxStatisticPaths {
		return fmt.Errorf("%d statistics, more than %d", len(rows), MaxStatisticPaths)
	}
	for i := range rows {
		row := StatisticRow{Path: rows[i].Path}
		if err := checkPath(row.Path); err != nil {
			return err
		}
		if i > 0 && strings.Compare(rows[i-1].Path, row.Path) >= 0 {
			return fmt.Errorf("statistic %s after %s", row.Path, rows[i-1].Path)
		}
		for state := range EndStateCount {
			summary := rows[i].Ended[state]
			if summary.Count < 0 || max(summary.Sum, summary.Max) > maxStatistic || min(summary.Sum, summary.Min) < -maxStatistic {
				return fmt.Errorf("statistic %s has %+v", row.Path, summary)
			}
			row.ByState[state] = summary
		}
		*s = append(*s, row)
	}
	return nil
}
