package operation

import (
	"math"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/value/digest"
	"github.com/weirhq/weir/internal/value/resource"
)

// memoryModel is the simple twin of reserves: it keeps all samples and computes
// everything from them on demand.
type memoryModel struct {
	spec    *Spec
	config  MemoryConfig
	samples map[processName][]float64
	retries map[cookieName]Retry
	given   map[cookieName]factors // of running jobs
	reports []report
}

type processName struct {
	task  int32
	proxy bool
}

// report is a job that ended with known usage.
type report struct {
	task  int32
	state EndState
	usage Usage
}

func newMemoryModel(spec *Spec) memoryModel {
	return memoryModel{
		spec: spec, config: *bareMemory, samples: map[processName][]float64{},
		retries: map[cookieName]Retry{}, given: map[cookieName]factors{},
	}
}

func (m *memoryModel) factor(name processName) float64 {
	o := &m.spec.Tasks[name.task].Value.Memory
	options, quantile := digest.Options{
		LowerBound: o.DigestLowerBound.Value(), UpperBound: 1, DefaultValue: o.DigestDefaultValue.Value(), Precision: m.config.UserPrecision,
	}, m.config.UserQuantile
	if name.proxy {
		options, quantile = digest.Options{LowerBound: 0.5, UpperBound: 2, DefaultValue: 1}, m.config.ProxyQuantile
	}
	d, err := digest.New(options)
	if err != nil {
		panic(err)
	}
	for _, x := range m.samples[name] {
		d.Add(x)
	}
	return d.Quantile(quantile)
}

func (m *memoryModel) next(name cookieName) factors {
	f := factors{user: m.factor(processName{name.task, false}), proxy: m.factor(processName{name.task, true})}
	if r := m.retries[name]; r.User.Status != NeverOverdrafted {
		f.user = r.User.Factor
	}
	if r := m.retries[name]; r.Proxy.Status != NeverOverdrafted {
		f.proxy = r.Proxy.Factor
	}
	return f
}

func (m *memoryModel) reserves(task int32, f factors) (user, proxy int64) {
	t := &m.spec.Tasks[task].Value
	user = int64(math.Floor(f.user * float64(t.MemoryLimit.Value()+m.config.ExecFootprint)))
	return max(user, t.TmpfsSize()), int64(math.Floor(f.proxy * float64(m.config.ProxyBase)))
}

func (m *memoryModel) total(task int32, f factors) int64 {
	user, proxy := m.reserves(task, f)
	return m.config.Footprint + user + proxy
}

// ended records the end of a job with its usage, nil if unknown.
func (m *memoryModel) ended(name cookieName, o Outcome, state EndState) {
	given := m.given[name]
	var u Usage
	if o.Usage != nil {
		u = *o.Usage
		m.reports = append(m.reports, report{name.task, state, u})
	}
	user := float64(u.UserMaxMemory) / float64(m.spec.Tasks[name.task].Value.MemoryLimit.Value()+m.config.ExecFootprint)
	proxy := float64(u.ProxyMaxMemory) / float64(m.config.ProxyBase+m.config.Footprint)
	hasProxy := m.config.ProxyBase > 0
	if o.State == EndAborted && o.Reason == AbortResourceOverdraft {
		userReserve, proxyReserve := m.reserves(name.task, given)
		userOver := u.UserMaxMemory+u.TmpfsMaxUsage > userReserve
		proxyOver := hasProxy && u.ProxyMaxMemory > proxyReserve
		if !proxyOver && !(userOver && given.user < 1) {
			switch user, proxy := given.user < 1, hasProxy && given.proxy < 2; {
			case user && proxy && proxyReserve-u.ProxyMaxMemory <= userReserve-u.UserMaxMemory-u.TmpfsMaxUsage, !user && proxy:
				proxyOver = true
			case user:
				userOver = true
			}
		}
		retry := m.retries[name]
		retry.Job = u.Job
		F, M := m.config.OverdraftFactor, m.config.UserMultiplier
		if userOver {
			if retry.User.Status == NeverOverdrafted && M > 0 {
				retry.User = Raise{OverdraftedOnce, min(given.user*M, 1)}
			} else {
				retry.User = Raise{OverdraftedMultipleTimes, 1}
			}
			user = F * max(user, given.user)
		}
		if proxyOver {
			if given.proxy < 2 {
				retry.Proxy = Raise{OverdraftedMultipleTimes, 2}
			} else {
				retry.Proxy = Raise{OverdraftedMultipleTimes, max(given.proxy, F*float64(u.ProxyMaxMemory)/float64(m.config.ProxyBase))}
			}
			proxy = F * max(proxy, given.proxy)
		}
		if userOver || proxyOver {
			m.retries[name] = retry
		}
	} else if o.State != EndCompleted && o.State != EndInterrupted {
		return
	}
	if u.UserMaxMemory > 0 {
		m.samples[processName{name.task, false}] = append(m.samples[processName{name.task, false}], user)
	}
	if u.ProxyMaxMemory > 0 && hasProxy {
		m.samples[processName{name.task, true}] = append(m.samples[processName{name.task, true}], proxy)
	}
}

func drawMemoryConfig(t *rapid.T) MemoryConfig {
	c := DefaultMemoryConfig()
	c.Footprint, c.ProxyBase, c.ExecFootprint = 7, 40, rapid.Int64Range(0, 3).Draw(t, "exec_footprint_memory")
	c.UserQuantile = rapid.SampledFrom([]float64{0.5, 0.95, 1}).Draw(t, "quantile")
	c.UserMultiplier = rapid.SampledFrom([]float64{0, 1, 1.5, 10}).Draw(t, "multiplier")
	return c
}

func drawUsage(t *rapid.T, spec *Spec, task int) *Usage {
	limit := spec.Tasks[task].Value.MemoryLimit.Value()
	return &Usage{
		Job: rapid.Uint64Range(1, 9).Draw(t, "number"), Duration: time.Duration(rapid.IntRange(0, 100).Draw(t, "seconds")) * time.Second,
		UserMaxMemory: rapid.Int64Range(0, limit).Draw(t, "user"), ProxyMaxMemory: rapid.Int64Range(0, 100).Draw(t, "proxy"),
		TmpfsMaxUsage: rapid.Int64Range(0, 1).Draw(t, "tmpfs used"),
	}
}

// ended reports the end of a job, with or without its usage, to the controller and
// to the model.
func (h *history) ended(job JobRef, o Outcome) (Effects, error) {
	name := cookieName{job.Task, job.Cookie}
	switch rapid.IntRange(0, 3).Draw(h.T, "known") {
	case 0: // the node measures nothing
		switch o.State {
		case EndCompleted:
			return h.c.JobCompleted(job, h.now)
		case EndInterrupted:
			return h.c.JobInterrupted(job, h.now)
		case EndFailed:
			return h.c.JobFailed(job, o.Failure, h.now)
		}
		return h.c.JobAborted(job, o.Reason, o.Started, h.now)
	case 1:
	default:
		o.Usage = drawUsage(h.T, h.m.spec, int(job.Task))
	}
	state := o.State
	if state == EndFailed && h.m.banned[o.Failure.Node] && h.m.spec.IgnoreFailuresAtBanned.Value() {
		state = EndAborted
	}
	h.m.memory.ended(name, o, state)
	return h.c.JobEnded(job, o, h.now)
}

// compareMemory checks groups, reserves of running jobs and statistics.
func (h *history) compareMemory() {
	h.Helper()
	for i, g := range h.c.Groups() {
		if want := h.m.offer(i); g.Resources != want {
			h.Fatalf("group %d says %v, want %v", i, g.Resources, want)
		}
	}
	for _, job := range h.running {
		name := cookieName{job.Task, job.Cookie}
		got, err := h.c.Reserve(job)
		f := h.m.memory.given[name]
		user, proxy := h.m.memory.reserves(job.Task, f)
		want := Reserve{
			UserFactor: f.user, ProxyFactor: f.proxy, User: user, Proxy: proxy, Footprint: h.m.memory.config.Footprint,
			Estimate: h.m.memory.config.ProxyBase, Predecessor: h.m.memory.retries[name].Job,
		}
		if err != nil || got != want {
			h.Fatalf("%+v has %+v (%v), want %+v", job, got, err, want)
		}
	}
	var sum Summary
	for _, r := range h.m.memory.reports {
		if r.state == EndAborted && r.usage.UserMaxMemory > 0 {
			v := r.usage.UserMaxMemory
			sum.add(Summary{Count: 1, Sum: v, Min: v, Max: v})
		}
	}
	row, _ := h.c.JobStatistics().Get("user_job/max_memory")
	if row.ByState[EndAborted] != sum {
		h.Fatalf("max_memory of aborted jobs is %+v, want %+v", row.ByState[EndAborted], sum)
	}
	least := resource.Amounts{}
	if h.c.Needed().Min(least) != least {
		h.Fatal("less than nothing is needed")
	}
}
