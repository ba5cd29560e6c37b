package operation

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/weirhq/weir/internal/value/resource"
)

// Statistic is one figure of a job. Its path consists of words separated by
// slashes, such as user_job/max_memory.
type Statistic struct {
	Path  string `json:"path"`
	Value int64  `json:"value"`
}

// MaxStatisticPaths is the maximum number of different paths that a task
// keeps. Figures under further paths are dropped.
const MaxStatisticPaths = 1024

// maxStatistic bounds single figures and sums. A sum that reaches it does not
// grow further.
const maxStatistic = resource.Unlimited

// Summary aggregates a figure over several jobs.
type Summary struct {
	Count int64 `json:"count"`
	Sum   int64 `json:"sum"`
	Min   int64 `json:"min"`
	Max   int64 `json:"max"`
}

func (s *Summary) add(other Summary) {
	switch {
	case other.Count == 0:
		return
	case s.Count == 0:
		*s = other
		return
	}
	s.Count += other.Count
	s.Sum = min(max(s.Sum+other.Sum, -maxStatistic), maxStatistic)
	s.Min, s.Max = min(s.Min, other.Min), max(s.Max, other.Max)
}

// StatisticRow is a figure over all jobs of a task or an operation, by end
// state.
type StatisticRow struct {
	Path    string
	ByState [EndStateCount]Summary
}

// Total returns the figure over jobs in all states.
func (r *StatisticRow) Total() (all Summary) {
	for _, s := range r.ByState {
		all.add(s)
	}
	return all
}

// JobStatistics are rows ordered by path.
type JobStatistics []StatisticRow

func (s JobStatistics) find(path string) (at int, found bool) {
	return sort.Find(len(s), func(i int) int { return strings.Compare(path, s[i].Path) })
}

// Get returns the row of a path.
func (s JobStatistics) Get(path string) (StatisticRow, bool) {
	at, found := s.find(path)
	if !found {
		return StatisticRow{Path: path}, false
	}
	return s[at], true
}

// Max returns the greatest value under a path, over jobs in all end states.
func (s JobStatistics) Max(path string) int64 {
	row, _ := s.Get(path)
	return row.Total().Max
}

func (s *JobStatistics) row(path string) *StatisticRow {
	at, found := s.find(path)
	if !found {
		if len(*s) >= MaxStatisticPaths {
			return nil
		}
		*s = slices.Insert(*s, at, StatisticRow{Path: path})
	}
	return &(*s)[at]
}

func (s *JobStatistics) add(path string, state EndState, value int64) {
	if row := s.row(path); row != nil {
		value = min(max(value, -maxStatistic), maxStatistic)
		row.ByState[state].add(Summary{Count: 1, Sum: value, Min: value, Max: value})
	}
}

func (s *JobStatistics) merge(other JobStatistics) {
	for i := range other {
		if row := s.row(other[i].Path); row != nil {
			for state := range row.ByState {
				row.ByState[state].add(other[i].ByState[state])
			}
		}
	}
}

func (s JobStatistics) clone() JobStatistics { return slices.Clone(s) }

// TaskJobStatistics returns the figures of one task's ended jobs.
func (c *Controller) TaskJobStatistics(taskIndex int) JobStatistics {
	return c.tasks[taskIndex].memory.statistics.clone()
}

// JobStatistics returns the figures of all ended jobs.
func (c *Controller) JobStatistics() (all JobStatistics) {
	for i := range c.tasks {
		all.merge(c.tasks[i].memory.statistics)
	}
	return all
}

// Paths of figures that the controller uses or produces.
const (
	pathUserLimit   = "user_job/memory_limit"
	pathUserReserve = "user_job/memory_reserve"
	pathUserMax     = "user_job/max_memory"
	pathUserTmpfs   = "user_job/tmpfs_max_usage"
	pathSaved       = "user_job/cumulative_memory_saved"
)

func tmpfsPath(volume int) string {
	return "user_job/tmpfs_volumes/" + strconv.Itoa(volume) + "/max_size"
}

// figures is a list of statistics of one job.
type figures []Statistic

func (f *figures) add(path string, value int64) { *f = append(*f, Statistic{Path: path, Value: value}) }

// known adds a figure, unless it is zero, which means not measured.
func (f *figures) known(path string, value int64) {
	if value > 0 {
		f.add(path, value)
	}
}

// account adds the figures of one job to the statistics of its task.
func (r *reserves) account(limit int64, given factors, state EndState, u *Usage) {
	var room [48]Statistic
	list := figures(room[:0])
	reserve := r.user.reserveAt(given.user)
	list.add(pathUserLimit, limit)
	list.add(pathUserReserve, reserve)
	list.add("user_job/memory_reserve_factor_x10000", int64(part(reserve, limit)*10000))
	list.known(pathUserMax, u.UserMaxMemory)
	list.known(pathUserTmpfs, u.TmpfsMaxUsage)
	for i, size := range u.TmpfsVolumes {
		list.add(tmpfsPath(i), max(0, size))
	}
	list.known("user_job/cumulative_memory_mb_sec", u.UserMemoryTime)
	list.known("job_proxy/cumulative_memory_mb_sec", u.ProxyMemoryTime)
	list.known("job_proxy/max_memory", u.ProxyMaxMemory)
	proxyReserve := r.proxy.reserveAt(given.proxy)
	if r.proxy.memory > 0 {
		list.add("job_proxy/estimated_memory", r.proxy.memory)
		list.add("job_proxy/memory_reserve", proxyReserve)
		list.add("job_proxy/memory_reserve_factor_x10000", int64(given.proxy*10000))
	}
	if u.Duration > 0 {
		list.add("user_job/cumulative_memory_reserve", cumulative(reserve, u.Duration))
		list.known("user_job/cumulative_max_memory", cumulative(u.UserMaxMemory, u.Duration))
		list.add(pathSaved, cumulative(max(0, limit-reserve), u.Duration))
		list.known("job_proxy/cumulative_max_memory", cumulative(u.ProxyMaxMemory, u.Duration))
		if r.proxy.memory > 0 {
			list.add("job_proxy/cumulative_memory_reserve", cumulative(proxyReserve, u.Duration))
			list.add("job_proxy/cumulative_estimated_memory", cumulative(r.proxy.memory, u.Duration))
		}
	}
	if cpu := u.CPU; cpu != nil {
		list.add("job_proxy/smoothed_cpu_usage_x100", cpu.SmoothedUsageX100)
		list.add("job_proxy/preemptible_cpu_x100", cpu.PreemptibleX100)
		list.add("job_proxy/aggregated_smoothed_cpu_usage_x100", cpu.AggregatedSmoothedUsageX100)
		list.add("job_proxy/aggregated_max_cpu_usage_x100", cpu.AggregatedMaxUsageX100)
		list.add("job_proxy/aggregated_preemptible_cpu_x100", cpu.AggregatedPreemptibleX100)
		list.add("job_proxy/aggregated_preempted_cpu_x100", cpu.AggregatedPreemptedX100)
	}
	own := len(list)
	for _, s := range u.More {
		isOwn := slices.ContainsFunc(list[:own], func(o Statistic) bool { return o.Path == s.Path })
		if !isOwn && checkPath(s.Path) == nil {
			list = append(list, s)
		}
	}
	for _, s := range list {
		r.statistics.add(s.Path, state, s.Value)
	}
	r.overuse = max(r.overuse, u.UserMaxMemory+u.TmpfsMaxUsage-reserve)
}

const maxPathLength = 256

// checkPath returns an error if a statistic's path is not valid.
func checkPath(path string) error {
	if len(path) > maxPathLength {
		return fmt.Errorf("path of a statistic has %d bytes, more than %d", len(path), maxPathLength)
	}
	if slices.Contains(strings.Split(path, "/"), "") {
		return fmt.Errorf("path of a statistic %q must be words separated by slashes", path)
	}
	return nil
}
