package jobproxy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/internal/node/cgroup"
)

// statistics returns the job's figures so far, by path. Times are in milliseconds, as in the documents.
func (p *proxy) statistics(now time.Time) []Statistic {
	var all []Statistic
	add := func(path string, value int64) { all = append(all, Statistic{path, value}) }
	m, w := &p.job.Memory, p.memory
	duration := since(p.timings.ProxyStarted, now)

	add("time/total", duration.Milliseconds())
	if p.job.Image != nil {
		add("time/prepare_root_fs", time.Duration(p.job.Image.Preparation).Milliseconds())
	}
	if !p.timings.ExecStarted.IsZero() {
		end := now
		if !p.timings.ExecFinished.IsZero() {
			end = p.timings.ExecFinished
		}
		add("time/prepare", since(p.timings.ProxyStarted, p.timings.ExecStarted).Milliseconds())
		add("time/exec", since(p.timings.ExecStarted, end).Milliseconds())
	}
	add("user_job/cpu/user", p.used.UserTime.Milliseconds())
	add("user_job/cpu/system", p.used.SystemTime.Milliseconds())
	user, system := p.ownCPU()
	add("job_proxy/cpu/user", user.Milliseconds())
	add("job_proxy/cpu/system", system.Milliseconds())

	add("user_job/memory_limit", m.Limit)
	add("user_job/memory_reserve", m.UserReserve)
	if m.Limit > 0 {
		add("user_job/memory_reserve_factor_x10000", int64(float64(m.UserReserve)/float64(m.Limit)*10000))
	}
	add("user_job/max_memory", w.maxUser)
	add("user_job/cumulative_memory_mb_sec", int64(w.userTime/(1<<20)))
	add("user_job/cumulative_memory_reserve", cumulative(m.UserReserve, duration))
	add("user_job/cumulative_max_memory", cumulative(w.maxUser, duration))
	if len(w.maxVolumes) > 0 {
		add("user_job/tmpfs_max_usage", w.maxTmpfs)
		for i, most := range w.maxVolumes {
			add(fmt.Sprintf("user_job/tmpfs_volumes/%d/max_size", i), most)
		}
	}
	add("job_proxy/max_memory", w.maxProxy)
	add("job_proxy/cumulative_memory_mb_sec", int64(w.proxyTime/(1<<20)))
	add("job_proxy/cumulative_max_memory", cumulative(w.maxProxy, duration))
	if m.ProxyEstimate > 0 {
		add("job_proxy/estimated_memory", m.ProxyEstimate)
		add("job_proxy/memory_reserve", m.ProxyReserve)
		add("job_proxy/memory_reserve_factor_x10000", int64(math.Round(float64(m.ProxyReserve)/float64(m.ProxyEstimate)*10000)))
		add("job_proxy/cumulative_memory_reserve", cumulative(m.ProxyReserve, duration))
		add("job_proxy/cumulative_estimated_memory", cumulative(m.ProxyEstimate, duration))
	}
	if p.monitor != nil {
		s := p.monitor.Statistics()
		add("job_proxy/smoothed_cpu_usage_x100", s.SmoothedUsageX100)
		add("job_proxy/preemptible_cpu_x100", s.PreemptibleX100)
		add("job_proxy/aggregated_smoothed_cpu_usage_x100", s.AggregatedSmoothedUsageX100)
		add("job_proxy/aggregated_max_cpu_usage_x100", s.AggregatedMaxUsageX100)
		add("job_proxy/aggregated_preemptible_cpu_x100", s.AggregatedPreemptibleX100)
		add("job_proxy/aggregated_preempted_cpu_x100", s.AggregatedPreemptedX100)
	}
	slices.SortFunc(all, func(a, b Statistic) int { return cmp.Compare(a.Path, b.Path) })
	return all
}

// cumulative is bytes · seconds. The product with milliseconds does not fit an integer.
func cumulative(bytes int64, duration time.Duration) int64 {
	return int64(float64(bytes) * float64(duration.Milliseconds()) / 1000)
}

// ownCPU is the CPU time of the process that is there for this job: this one or, in a supervisor, the init.
func (p *proxy) ownCPU() (user, system time.Duration) {
	if p.hosted {
		if p.init == nil {
			return 0, 0
		}
		if user, system, err := cgroup.TimesOf(p.init.pid); err == nil {
			p.initUser, p.initSystem = user, system
		}
		return p.initUser, p.initSystem
	}
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) != nil {
		return 0, 0
	}
	return time.Duration(usage.Utime.Nano()), time.Duration(usage.Stime.Nano())
}

// newer keeps CPU times from falling: accounting without control groups forgets ended processes.
func newer(old, now cgroup.Usage) cgroup.Usage {
	if now.CPUTime < old.CPUTime {
		now.CPUTime, now.UserTime, now.SystemTime = old.CPUTime, old.UserTime, old.SystemTime
	}
	return now
}
