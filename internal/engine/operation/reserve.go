package operation

import (
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/weirhq/weir/internal/value/digest"
	"github.com/weirhq/weir/internal/value/resource"
)

// A job gets memory for two processes, the user's and its proxy:
//
//	footprint + proxy estimate × proxy factor + memory_limit × user factor
//
// Each factor is a quantile of the digest of what jobs of the task have used.
// A job's reserve is fixed when it starts. A job that was aborted because it
// used more than its reserve gets a separate factor for its next start.

// reserves is how much memory the jobs of a task get.
//
// Invariants: retries are of cookies that have run; started has the factors
// of running jobs that differ from the initial ones, and of jobs that have
// been disowned; both are empty and factors are the initial ones unless
// varied is set.
type reserves struct {
	varied      bool
	user, proxy process
	footprint   int64
	retries     map[int32]Retry
	started     map[int32]factors
	// overuse is the most by which a job has exceeded the reserve of its user's
	// process.
	overuse    int64
	statistics JobStatistics
}

// process is one of the two processes of every job of a task.
type process struct {
	digest digest.Digest
	// memory is the amount for a factor of one: the user's limit, or the
	// estimate for the proxy. It is zero for a proxy that is not counted.
	memory int64
	// A reserve is never less than tmpfs, and never more than most.
	tmpfs, most int64
	upper       float64 // the greatest factor that the digest returns
	initial     float64 // the factor before the first sample
	factor      float64 // the factor of the next job
	reserve     int64   // computed from factor
	own         int32   // pending retries that have a separate factor
	// capped reports that no job gets more than upper: the user's process would
	// fail before it used more.
	capped bool
}

// factors are the inputs from which the reserves of one job are computed.
type factors struct{ user, proxy float64 }

// OverdraftStatus is how often a job has used more memory than it was given.
type OverdraftStatus uint8

const (
	NeverOverdrafted OverdraftStatus = iota
	OverdraftedOnce
	OverdraftedMultipleTimes

	overdraftStatusCount
)

var overdraftStatusNames = [overdraftStatusCount]string{"none", "once", "multiple_times"}

// String returns the name of the status.
func (s OverdraftStatus) String() string {
	return nameOf(overdraftStatusNames[:], s, "OverdraftStatus")
}

// MarshalText returns the name.
func (s OverdraftStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the name.
func (s *OverdraftStatus) UnmarshalText(text []byte) (err error) {
	*s, err = valueOf[OverdraftStatus](overdraftStatusNames[:], text, "overdraft status")
	return err
}

// Raise is the factor of one process for the next start of a job.
type Raise struct {
	Status OverdraftStatus `json:"status"`
	Factor float64         `json:"factor"`
}

// Retry is a job that was aborted because it used more memory than it was
// given. A Raise without a status leaves the factor to the digest.
type Retry struct {
	// Job is the number of the aborted job; see Usage.
	Job   uint64 `json:"job,omitempty"`
	User  Raise  `json:"user_job,omitzero"`
	Proxy Raise  `json:"job_proxy,omitzero"`
}

// Reserve is the memory of a job, fixed when it starts. Job.Resources has the
// sum of its parts.
type Reserve struct {
	UserFactor  float64 `json:"user_job_factor"`
	ProxyFactor float64 `json:"job_proxy_factor"`
	User        int64   `json:"user_job"`
	// Proxy does not include Footprint.
	Proxy     int64 `json:"job_proxy"`
	Footprint int64 `json:"footprint"`
	// Estimate is the estimate of the proxy's memory.
	Estimate int64 `json:"job_proxy_estimate"`
	// Predecessor is the job that was aborted for overdraft and that this job
	// retries; zero if there is none.
	Predecessor uint64 `json:"predecessor,omitempty"`
}

// newReserves returns the reserves of a task; most is the greatest reserve of
// a proxy.
func newReserves(t *Task, config *MemoryConfig, most int64) reserves {
	limit := t.MemoryLimit.Value() + config.ExecFootprint
	bounds := &t.Memory.ProxyDigest
	r := reserves{
		footprint: config.Footprint,
		user: newProcess(limit, digest.Options{
			LowerBound: t.Memory.DigestLowerBound.Value(), UpperBound: 1,
			DefaultValue: t.Memory.DigestDefaultValue.Value(), Precision: config.UserPrecision,
		}),
		proxy: newProcess(t.estimateProxy(config), digest.Options{
			LowerBound: bounds.LowerBound.Value(), UpperBound: bounds.UpperBound.Value(),
			DefaultValue: bounds.DefaultValue.Value(), Precision: bounds.RelativePrecision.Value(),
		}),
	}
	r.user.tmpfs, r.user.most, r.user.capped, r.proxy.most = t.TmpfsSize(), limit, true, most
	r.follow(config)
	return r
}

func newProcess(memory int64, options digest.Options) process {
	d := newDigest(options)
	first := d.Options().DefaultValue
	return process{digest: d, memory: memory, upper: d.Options().UpperBound, initial: first, factor: first}
}

// newDigest makes a digest from options that were each validated when they
// were read, but come from different places and might not fit together.
func newDigest(o digest.Options) digest.Digest {
	o.UpperBound = max(o.UpperBound, o.LowerBound)
	o.DefaultValue = min(max(o.DefaultValue, o.LowerBound), o.UpperBound)
	if least := math.Expm1(math.Log(o.UpperBound/o.LowerBound) / (digest.MaxBuckets - 1)); least > o.Precision {
		o.Precision = least
	}
	d, err := digest.New(o)
	if err != nil {
		d, err = digest.New(digest.Options{LowerBound: 0.5, UpperBound: 2, DefaultValue: 1})
	}
	if err != nil {
		panic("operation: " + err.Error()) // constants
	}
	return d
}

// reserveAt returns the reserve for a factor.
func (p *process) reserveAt(factor float64) int64 {
	reserve := factor * float64(p.memory)
	if !(reserve < float64(p.most)) {
		return p.most
	}
	return max(int64(reserve), p.tmpfs)
}

// follow reads the factor from the digest and returns by how much the reserve
// has changed.
func (p *process) follow(quantile float64) (change int64) {
	before := p.reserve
	p.factor = p.digest.Quantile(quantile)
	p.reserve = p.reserveAt(p.factor)
	return p.reserve - before
}

// follow reads the factors of new jobs from the digests and returns by how
// much their reserves have changed.
func (r *reserves) follow(config *MemoryConfig) (user, proxy int64) {
	user, proxy = r.user.follow(config.UserQuantile), r.proxy.follow(config.ProxyQuantile)
	if r.user.factor != r.user.initial || r.proxy.factor != r.proxy.initial {
		r.varied = true
	}
	return user, proxy
}

// sample adds what a job has used, as a fraction of the amount for a factor
// of one.
func (p *process) sample(part float64) {
	if p.memory > 0 {
		p.digest.Add(part)
	}
}

// raise returns the factor for the next start of a job in which this process
// used more than it was given by the previous factor.
func (p *process) raise(before Raise, given float64, used int64, multiplier, overdraftFactor float64) Raise {
	switch {
	case before.Status == NeverOverdrafted && multiplier > 0:
		return Raise{Status: OverdraftedOnce, Factor: min(given*multiplier, p.upper)}
	case given < p.upper || p.capped:
		return Raise{Status: OverdraftedMultipleTimes, Factor: p.upper}
	}
	// The estimate is wrong by more than the digest can correct. Without more
	// than the upper bound the job would be aborted on every full node, again
	// and again.
	return Raise{Status: OverdraftedMultipleTimes, Factor: max(given, overdraftFactor*float64(used)/float64(p.memory))}
}

// total returns what the next job needs that has no separate factors.
func (r *reserves) total() int64 { return r.footprint + r.proxy.reserve + r.user.reserve }

// totalOf returns what a job with these factors needs.
func (r *reserves) totalOf(f factors) int64 {
	return r.footprint + r.proxy.reserveAt(f.proxy) + r.user.reserveAt(f.user)
}

// next returns the factors of the next start of a job.
func (r *reserves) next(cookie int32) factors {
	f := factors{user: r.user.factor, proxy: r.proxy.factor}
	if own, ok := r.retries[cookie]; ok {
		if own.User.Status != NeverOverdrafted {
			f.user = own.User.Factor
		}
		if own.Proxy.Status != NeverOverdrafted {
			f.proxy = own.Proxy.Factor
		}
	}
	return f
}

// isRetry reports whether a job has separate factors for its next start.
func (r *reserves) isRetry(cookie int32) bool {
	if !r.varied {
		return false
	}
	_, ok := r.retries[cookie]
	return ok
}

// begin records the factors of a job that starts. While factors do not vary
// there is nothing to record.
func (r *reserves) begin(cookie int32) { r.remember(cookie, r.next(cookie)) }

func (r *reserves) remember(cookie int32, f factors) {
	if f.user == r.user.initial && f.proxy == r.proxy.initial {
		delete(r.started, cookie)
		return
	}
	if r.started == nil {
		r.started = map[int32]factors{}
	}
	r.varied = true
	r.started[cookie] = f
}

// given returns the factors of a running job.
func (r *reserves) given(cookie int32) factors {
	if f, ok := r.started[cookie]; ok {
		return f
	}
	return factors{user: r.user.initial, proxy: r.proxy.initial}
}

// countOwn adds a pending retry to the counts, or removes it.
func (r *reserves) countOwn(retry Retry, by int32) {
	if retry.User.Status != NeverOverdrafted {
		r.user.own += by
	}
	if retry.Proxy.Status != NeverOverdrafted {
		r.proxy.own += by
	}
}

func (r *reserves) clone() reserves {
	copied := *r
	copied.user.digest, copied.proxy.digest = r.user.digest.Clone(), r.proxy.digest.Clone()
	copied.retries, copied.started = maps.Clone(r.retries), maps.Clone(r.started)
	copied.statistics = r.statistics.clone()
	return copied
}

// Configure sets how memory reserves are chosen. It is for operations that
// have not started a job. Operations that have keep their configuration, and
// a snapshot keeps it too.
func (c *Controller) Configure(config MemoryConfig) error {
	if err := config.Validate(); err != nil {
		return fmt.Errorf("memory of jobs: %w", err)
	}
	if c.spec.IsExternal() {
		return nil // jobs hold what their owner says
	}
	if c.nextIndex > 0 {
		return fmt.Errorf("memory of jobs: the operation has started %d already", c.nextIndex)
	}
	c.memory = &config
	for i := range c.tasks {
		c.tasks[i].memory = newReserves(&c.spec.Tasks[i].Value, c.memory, c.proxyAtMost())
		c.tasks[i].base[resource.Memory] = c.tasks[i].memory.total()
	}
	c.recount()
	return nil
}

// MemoryConfig returns how memory reserves are chosen.
func (c *Controller) MemoryConfig() MemoryConfig { return *c.memory }

// proxyAtMost keeps sums over all jobs countable; see checkTotals. It is more
// than 16 GiB for any number of jobs.
func (c *Controller) proxyAtMost() int64 {
	return resource.Unlimited/4/int64(max(1, c.spec.JobCount())) - 2*maxFootprint
}

// Reserve returns the memory that a running job was given.
func (c *Controller) Reserve(job JobRef) (Reserve, error) {
	t, err := c.find(job)
	if err != nil {
		return Reserve{}, err
	}
	r := &t.memory
	f := r.given(job.Cookie)
	return Reserve{
		UserFactor: f.user, ProxyFactor: f.proxy, User: r.user.reserveAt(f.user), Proxy: r.proxy.reserveAt(f.proxy),
		Footprint: r.footprint, Estimate: r.proxy.memory, Predecessor: r.retries[job.Cookie].Job,
	}, nil
}

// NextReserve returns the memory for the next job of a task, if that job was
// not aborted for overdraft before.
func (c *Controller) NextReserve(taskIndex int) Reserve {
	r := &c.tasks[taskIndex].memory
	return Reserve{
		UserFactor: r.user.factor, ProxyFactor: r.proxy.factor, User: r.user.reserve, Proxy: r.proxy.reserve,
		Footprint: r.footprint, Estimate: r.proxy.memory,
	}
}

// learn records what a job has used that still counts as running.
func (c *Controller) learn(job JobRef, o *Outcome) {
	t := &c.tasks[job.Task]
	r := &t.memory
	given := r.given(job.Cookie)
	var usage Usage
	if o.Usage != nil {
		usage = o.Usage.sane()
		r.account(c.spec.Tasks[job.Task].Value.MemoryLimit.Value(), given, o.state(c), &usage)
	}
	user := part(usage.UserMaxMemory, r.user.memory)
	proxy := part(usage.ProxyMaxMemory, r.proxy.memory+r.footprint)
	switch {
	case o.State == EndCompleted, o.State == EndInterrupted:
	case o.State == EndAborted && o.Reason == AbortResourceOverdraft:
		userBlamed, proxyBlamed := r.blame(given, &usage)
		user, proxy = c.memory.sample(user, given.user, userBlamed), c.memory.sample(proxy, given.proxy, proxyBlamed)
		c.raise(job, given, &usage, userBlamed, proxyBlamed)
	default:
		return // it ended before it reached its peak
	}
	r.user.sample(user)
	r.proxy.sample(proxy)
	c.followDigests(int(job.Task))
}

// part returns usage as a fraction of the amount for a factor of one.
func part(used, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(used) / float64(whole)
}

// blame returns which processes of a job used more than they were given.
// Figures may be older than the overdraft: then it blames the process that
// was nearer to its reserve. In any case it blames a process that can get
// more, if there is one, so that the retry differs.
func (r *reserves) blame(given factors, u *Usage) (user, proxy bool) {
	userGap := r.user.reserveAt(given.user) - u.UserMaxMemory - u.TmpfsMaxUsage
	proxyGap := r.proxy.reserveAt(given.proxy) - u.ProxyMaxMemory
	counted := r.proxy.memory > 0
	user, proxy = userGap < 0, counted && proxyGap < 0
	userCan, proxyCan := given.user < r.user.upper, counted && given.proxy < r.proxy.upper
	switch {
	case user && userCan, proxy:
	case userCan && proxyCan:
		if proxyGap <= userGap {
			proxy = true
		} else {
			user = true
		}
	case userCan:
		user = true
	case proxyCan:
		proxy = true
	}
	return user, proxy
}

// raise gives more memory to the next start of a running job.
func (c *Controller) raise(job JobRef, given factors, u *Usage, user, proxy bool) {
	if !user && !proxy {
		return
	}
	r := &c.tasks[job.Task].memory
	userMultiplier, proxyMultiplier := c.memory.multipliers(&c.spec.Tasks[job.Task].Value)
	retry := r.retries[job.Cookie]
	retry.Job = u.Job
	if user {
		retry.User = r.user.raise(retry.User, given.user, u.UserMaxMemory, userMultiplier, c.memory.OverdraftFactor)
	}
	if proxy {
		retry.Proxy = r.proxy.raise(retry.Proxy, given.proxy, u.ProxyMaxMemory, proxyMultiplier, c.memory.OverdraftFactor)
	}
	r.addRetry(job.Cookie, retry)
}

func (r *reserves) addRetry(cookie int32, retry Retry) {
	if r.retries == nil {
		r.retries = map[int32]Retry{}
	}
	r.varied = true
	r.retries[cookie] = retry
}

// followDigests sets the reserve of a task's new jobs from its digests.
func (c *Controller) followDigests(taskIndex int) {
	t := &c.tasks[taskIndex]
	r := &t.memory
	user, proxy := r.follow(c.memory)
	if user == 0 && proxy == 0 {
		return
	}
	pending := int64(t.pendingCount())
	c.needed[resource.Memory] += user*(pending-int64(r.user.own)) + proxy*(pending-int64(r.proxy.own))
	t.base[resource.Memory] = r.total()
	c.groups[taskIndex].Resources = t.offer()
	c.updateMinNeeded()
}

// cumulative returns bytes × seconds, computed as documented: the product of
// bytes and milliseconds does not fit into an integer.
func cumulative(bytes int64, d time.Duration) int64 {
	return int64(min(float64(bytes)*float64(d.Milliseconds())/1000, math.MaxInt64/2))
}
