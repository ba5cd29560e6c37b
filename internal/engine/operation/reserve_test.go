package operation

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// configured is running with a memory configuration.
func configured(t testing.TB, text string, config MemoryConfig) *bench {
	t.Helper()
	s, err := parseSpec([]byte(text), ReadOptions{CommandOptional: true})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{Controller: New(s.Spec, clock), t: t, now: clock}
	if err := b.Configure(config); err != nil {
		t.Fatal(err)
	}
	for _, step := range []Step{Register, Assign, Initialize, Prepare, Admit, Materialize} {
		if _, err := b.Advance(step, b.now); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// tenGiB is the operation in the reference's examples.
const tenGiB = "tasks: {a: {job_count: 100, memory_limit: 10GiB}}"

func (b *bench) ended(job JobRef, o Outcome) Effects {
	b.t.Helper()
	return b.effects(b.JobEnded(job, o, b.now))
}

// uses completes a job that used this much memory.
func (b *bench) uses(job JobRef, user int64) {
	b.t.Helper()
	b.ended(job, Outcome{Usage: &Usage{UserMaxMemory: user}})
}

// overdrafts aborts a job that grew to this much memory.
func (b *bench) overdrafts(job JobRef, user int64) {
	b.t.Helper()
	b.ended(job, Outcome{State: EndAborted, Reason: AbortResourceOverdraft, Started: true, Usage: &Usage{UserMaxMemory: user}})
}

func (b *bench) reserve(job JobRef) Reserve {
	b.t.Helper()
	r, err := b.Reserve(job)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// start is schedule, and returns the job's reserve as well.
func (b *bench) start(group int) (JobRef, Reserve) {
	b.t.Helper()
	job := b.schedule(group)
	return job, b.reserve(job)
}

// isGiB compares with a number from the reference, which has two or three decimals.
func isGiB(bytes int64, want float64) bool {
	return math.Abs(float64(bytes)/float64(gib)-want) < 0.0051
}

func TestTheFirstJobReservesHalfOfItsLimit(t *testing.T) {
	b := running(t, tenGiB)
	if _, r := b.start(0); r.User != 5*gib || r.UserFactor != 0.5 {
		t.Errorf("%+v", r)
	}
	if got := b.Groups()[0].Resources[resource.Memory]; got != 5*gib {
		t.Errorf("a job takes %d", got)
	}
}

func TestTheFirstGuessIsAnOptionOfTheSpecification(t *testing.T) {
	for option, want := range map[string]int64{"": 5 * gib, ", user_job_memory_digest_default_value: 0.75": 7*gib + 512*mib} {
		b := configured(t, "tasks: {a: {job_count: 100, memory_limit: 10GiB"+option+"}}", DefaultMemoryConfig())
		if _, r := b.start(0); r.User != want {
			t.Errorf("%q: %+v, want %d", option, r, want)
		}
		// What a job is charged includes its proxy and the constant footprint.
		if got := b.Groups()[0].Resources[resource.Memory]; got != want+4*mib+128*mib {
			t.Errorf("%q: a job takes %d", option, got)
		}
	}
}

// A sample is what a job used as a part of its limit, so the same part of any limit gives the same
// reserve factor.
func TestASampleIsUseAsAFractionOfTheLimit(t *testing.T) {
	for _, limit := range []string{"10GiB", "1GiB", "100MiB"} {
		for used, want := range map[float64]float64{0.1: 0.1, 0.3: 0.3, 0.9: 0.9, 1: 1, 1.2: 1} {
			b := configured(t, "tasks: {a: {job_count: 100, memory_limit: "+limit+"}}", DefaultMemoryConfig())
			memory := b.Spec().Tasks[0].Value.MemoryLimit.Value()
			b.uses(b.schedule(0), int64(used*float64(memory)))
			if got := b.NextReserve(0).UserFactor; got < want*0.999 || got > min(1, want*1.0101) {
				t.Errorf("%v of %s is a sample of %v, want %v up to the precision of the digest", used, limit, got, want)
			}
		}
	}
}

func TestTheTwentyFirstJobReservesWhatTheFirstTwentyUsed(t *testing.T) {
	b := running(t, tenGiB)
	var jobs []JobRef
	for range 20 {
		job, r := b.start(0)
		if r.User != 5*gib {
			t.Fatalf("%+v before anything is known", r)
		}
		jobs = append(jobs, job)
	}
	for i, job := range jobs {
		b.uses(job, gib+int64(i)*100*mib) // from 1 GiB to 1 GiB + 1900 MiB
	}
	// 95 % of twenty jobs are nineteen: all but the one that used most.
	wanted := float64(gib + 18*100*mib)
	if _, r := b.start(0); float64(r.User) < wanted || float64(r.User) > wanted*1.0101 {
		t.Errorf("%v GiB, want up to 1 %% more than %v", float64(r.User)/float64(gib), wanted/float64(gib))
	}
}

func TestOnlyCompletedAndOverdraftedJobsCount(t *testing.T) {
	cases := []struct {
		name    string
		outcome Outcome
		counts  bool
	}{
		{"completed", Outcome{State: EndCompleted}, true},
		{"interrupted, which ended well", Outcome{State: EndInterrupted}, true},
		{"aborted for overdraft", Outcome{State: EndAborted, Reason: AbortResourceOverdraft, Started: true}, true},
		{"failed", Outcome{State: EndFailed}, false},
		{"preempted", Outcome{State: EndAborted, Reason: AbortPreemption, Started: true}, false},
		{"lost with its node", Outcome{State: EndAborted, Reason: AbortNodeOffline, Started: true}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := running(t, tenGiB)
			c.outcome.Usage = &Usage{UserMaxMemory: 7 * gib}
			b.ended(b.schedule(0), c.outcome)
			if counts := b.NextReserve(0).UserFactor != 0.5; counts != c.counts {
				t.Errorf("the next job reserves %+v", b.NextReserve(0))
			}
		})
	}
}

func TestAnOverdraftIsASampleOfOnePointOneTimesItsUse(t *testing.T) {
	b := running(t, tenGiB)
	b.overdrafts(b.schedule(0), 6*gib)
	if got := b.NextReserve(0).UserFactor; got < 0.66 || got > 0.66*1.01 {
		t.Errorf("0.6 × 1.1 became %v", got)
	}
}

func TestReservesOfRunningJobsAreFixed(t *testing.T) {
	b := running(t, tenGiB)
	first, before := b.start(0)
	b.uses(b.schedule(0), gib)
	if after := b.reserve(first); after != before {
		t.Errorf("%+v became %+v", before, after)
	}
	if next, r := b.start(0); r.UserFactor > 0.11 || b.reserve(next) != r {
		t.Errorf("%+v", r)
	}
}

func TestNeedsFollowTheQuantile(t *testing.T) {
	b := running(t, tenGiB)
	b.uses(b.schedule(0), 3*gib)
	each := b.NextReserve(0).User
	if got := b.MinNeeded()[resource.Memory]; got != each || !isGiB(each, 3.03) {
		t.Errorf("a job needs at least %d, want %d", got, each)
	}
	if got := b.Needed()[resource.Memory]; got != 99*each {
		t.Errorf("99 jobs need %d, want %d", got, 99*each)
	}
}

// The example of the reference: an overdraft at 5.4 GiB, then jobs of 3 GiB.
func TestTheExampleOfTheReference(t *testing.T) {
	b := running(t, tenGiB)
	first, r := b.start(0)
	if r.User != 5*gib {
		t.Fatalf("%+v", r)
	}
	b.overdrafts(first, gib*54/10)
	if got := b.NextReserve(0); math.Abs(got.UserFactor-0.5957) > 0.00005 || !isGiB(got.User, 5.96) {
		t.Errorf("other jobs reserve %+v", got)
	}
	retry, r := b.start(0)
	if retry.Cookie != first.Cookie || r.User != 10*gib {
		t.Errorf("the retry %+v reserves %+v", retry, r)
	}
	for i := range 19 {
		if got := b.NextReserve(0).User; !isGiB(got, 5.96) {
			t.Errorf("after %d completions %v GiB", i, float64(got)/float64(gib))
		}
		b.uses(b.schedule(0), 3*gib)
	}
	if got := b.NextReserve(0); !isGiB(got.User, 3.03) || math.Abs(got.UserFactor-0.3028) > 0.00005 {
		t.Errorf("after 19 completions %+v", got)
	}
	b.uses(retry, 6*gib)
	if b.Statistics().Completed != 20 {
		t.Errorf("%+v", b.Statistics())
	}
}

func TestWithTmpfsTheReserveNeverFallsBelowIt(t *testing.T) {
	for _, text := range []string{
		"tasks: {a: {job_count: 100, memory_limit: 10GiB, tmpfs_path: t, tmpfs_size: 4GiB}}",
		"tasks: {a: {job_count: 100, memory_limit: 10GiB, tmpfs_volumes: [{path: t, size: 1GiB}, {path: u, size: 3GiB}]}}",
	} {
		b := running(t, text)
		if got := b.NextReserve(0).User; got != 5*gib {
			t.Errorf("%d", got)
		}
		for range 40 {
			b.uses(b.schedule(0), 10*mib)
		}
		// 0.4 is the lower edge of the first bucket; its upper edge is 1 % more.
		if got := b.NextReserve(0).User; got < 4*gib || got > 4*gib*102/100 {
			t.Errorf("%v GiB", float64(got)/float64(gib))
		}
	}
}

func TestMemoryReserveFactorIsBothTheFirstGuessAndTheFloor(t *testing.T) {
	b := running(t, "tasks: {a: {job_count: 100, memory_limit: 10GiB, memory_reserve_factor: 0.7}}")
	if got := b.NextReserve(0).User; got != 7*gib {
		t.Errorf("%d", got)
	}
	for range 10 {
		b.uses(b.schedule(0), gib)
	}
	if got := b.NextReserve(0).UserFactor; got < 0.7 || got > 0.7*1.0101 {
		t.Errorf("%v", got)
	}
}

func TestTheReserveNeverExceedsTheLimit(t *testing.T) {
	b := running(t, tenGiB)
	b.uses(b.schedule(0), 15*gib)
	if got := b.NextReserve(0); got.UserFactor != 1 || got.User != 10*gib {
		t.Errorf("%+v", got)
	}
	b = running(t, tenGiB)
	for range 10 {
		b.uses(b.schedule(0), 1)
	}
	if got := b.NextReserve(0).UserFactor; got < 0.05 || got > 0.0506 {
		t.Errorf("the lower bound of 0.05 became %v", got)
	}
}

func TestTasksLearnApart(t *testing.T) {
	b := running(t, "tasks: {a: {job_count: 10, memory_limit: 10GiB}, b: {job_count: 10, memory_limit: 10GiB}}")
	b.uses(b.schedule(0), gib)
	if b.NextReserve(1).UserFactor != 0.5 || b.NextReserve(0).UserFactor > 0.11 {
		t.Errorf("%+v and %+v", b.NextReserve(0), b.NextReserve(1))
	}
}

func TestUserJobAndJobProxyHaveDigestsOfTheirOwn(t *testing.T) {
	c := DefaultMemoryConfig()
	c.ProxyBase = 100 * mib
	b := configured(t, tenGiB, c)
	want := Reserve{UserFactor: 0.5, ProxyFactor: 1, User: 5 * gib, Proxy: 100 * mib, Footprint: 128 * mib, Estimate: 100 * mib}
	job, got := b.start(0)
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if total := b.Groups()[0].Resources[resource.Memory]; total != 5*gib+228*mib {
		t.Errorf("a job takes %d MiB", total/mib)
	}
	// The sample includes the footprint in its denominator; the reserve adds it to
	// the scaled limit.
	b.ended(job, Outcome{Usage: &Usage{UserMaxMemory: gib, ProxyMaxMemory: 342 * mib}})
	next := b.NextReserve(0)
	if next.ProxyFactor < 1.5 || next.ProxyFactor > 1.5151 || next.UserFactor > 0.1011 {
		t.Errorf("%+v", next)
	}
	for range 50 {
		b.ended(b.schedule(0), Outcome{Usage: &Usage{ProxyMaxMemory: mib}})
	}
	if got := b.NextReserve(0); got.ProxyFactor < 0.5 || got.ProxyFactor > 0.5051 || got.UserFactor != next.UserFactor {
		t.Errorf("the least is half of the estimate, and no figure is no sample: %+v", got)
	}
	b = configured(t, tenGiB, c)
	b.ended(b.schedule(0), Outcome{Usage: &Usage{ProxyMaxMemory: 100 * gib}})
	if got := b.NextReserve(0); got.ProxyFactor != 2 || got.Proxy != 200*mib {
		t.Errorf("the most is twice the estimate: %+v", got)
	}
}

func TestDigestOptionsOfTheProxyComeFromTheSpecification(t *testing.T) {
	b := configured(t, `
job_proxy_memory_digest: {lower_bound: 0.8, upper_bound: 3, default_value: 1.5}
tasks: {a: {job_count: 2}, b: {job_count: 2, job_proxy_memory_digest: {default_value: 2, relative_precision: 0.1}}}`, DefaultMemoryConfig())
	if a, second := b.NextReserve(0).ProxyFactor, b.NextReserve(1).ProxyFactor; a != 1.5 || second != 2 {
		t.Errorf("%v and %v", a, second)
	}
	b.ended(b.schedule(0), Outcome{Usage: &Usage{ProxyMaxMemory: 100 * gib}})
	if got := b.NextReserve(0).ProxyFactor; got != 3 {
		t.Errorf("%v", got)
	}
}

// By default the reserve of a proxy stays between half of its estimate and twice that.
func TestTheReserveOfAProxyStaysBetweenHalfAndTwiceItsEstimate(t *testing.T) {
	for used, want := range map[int64]float64{mib: 0.5, 100 * gib: 2} {
		b := configured(t, "tasks: {a: {job_count: 5}}", DefaultMemoryConfig())
		if r := b.NextReserve(0); r.ProxyFactor != 1 || r.Proxy != r.Estimate {
			t.Errorf("the first reserve is %+v, want the estimate", r)
		}
		b.ended(b.schedule(0), Outcome{Usage: &Usage{ProxyMaxMemory: used}})
		if r := b.NextReserve(0); r.ProxyFactor < want || r.ProxyFactor > min(2, want*1.0101) {
			t.Errorf("after a proxy used %d: %+v, want a factor of %v", used, r, want)
		}
	}
}

// Options from different places may not fit together, and a digest could need too
// many buckets. The controller must cope.
func TestOddDigestOptionsDoNoHarm(t *testing.T) {
	b := configured(t, `
job_proxy_memory_digest: {lower_bound: 3, default_value: 4, upper_bound: 5}
tasks: {a: {job_count: 3, user_job_memory_digest_lower_bound: 0.000000001, job_proxy_memory_digest: {upper_bound: 2}}}`, DefaultMemoryConfig())
	b.ended(b.schedule(0), Outcome{Usage: &Usage{ProxyMaxMemory: mib, UserMaxMemory: mib}})
	if r := b.NextReserve(0); !(r.UserFactor > 0 && r.UserFactor < 0.01 && r.ProxyFactor >= 2) {
		t.Errorf("%+v", r)
	}
}

func TestAnOverdraftedJobIsRetriedWithItsWholeLimitAndCannotLoop(t *testing.T) {
	b := running(t, tenGiB)
	job := b.schedule(0)
	b.ended(job, Outcome{
		State: EndAborted, Reason: AbortResourceOverdraft, Started: true, Usage: &Usage{Job: 77, UserMaxMemory: 6 * gib},
	})
	for range 3 {
		again, r := b.start(0)
		if again.Cookie != job.Cookie || r.User != 10*gib || r.Predecessor != 77 {
			t.Errorf("%+v reserves %+v", again, r)
		}
		b.ended(again, Outcome{State: EndAborted, Reason: AbortPreemption, Started: true})
	}
	again := b.schedule(0)
	b.uses(again, 6*gib)
	if len(b.tasks[0].memory.retries) != 0 {
		t.Error("a completed job is still remembered")
	}
}

func TestAnOverdraftWithTmpfsIsThatOfTheUser(t *testing.T) {
	c := DefaultMemoryConfig()
	b := configured(t, "tasks: {a: {job_count: 2, memory_limit: 10GiB, tmpfs_path: t, tmpfs_size: 4GiB}}", c)
	b.ended(b.schedule(0), Outcome{
		State: EndAborted, Reason: AbortResourceOverdraft, Usage: &Usage{UserMaxMemory: 2 * gib, TmpfsMaxUsage: 4 * gib, ProxyMaxMemory: mib},
	})
	if _, r := b.start(0); r.User != 10*gib || r.ProxyFactor > 1 {
		t.Errorf("%+v", r)
	}
}

func TestMultipliersRaiseTheReserveOnceAndThenToTheBound(t *testing.T) {
	const withMultiplier = "tasks: {a: {job_count: 2, memory_limit: 10GiB, user_job_resource_overdraft_memory_multiplier: 1.2}}"
	config := DefaultMemoryConfig()
	config.UserMultiplier, config.ProxyMultiplier = 1.5, 1.25
	spec := DefaultMemoryConfig()
	spec.MultiplierFromSpec = true
	ignored := DefaultMemoryConfig()
	cases := []struct {
		name, text string
		config     MemoryConfig
		first      int64
	}{
		{"of the configuration", tenGiB, config, gib * 75 / 10},
		{"of the specification, if the configuration wants it", withMultiplier, spec, 6 * gib},
		{"not of the specification otherwise", withMultiplier, ignored, 10 * gib},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := configured(t, c.text, c.config)
			b.overdrafts(b.schedule(0), gib*51/10)
			job, r := b.start(0)
			if r.User != c.first {
				t.Errorf("first retry %+v", r)
			}
			b.overdrafts(job, 9*gib)
			if _, r := b.start(0); r.User != 10*gib {
				t.Errorf("second retry %+v", r)
			}
		})
	}
	b := configured(t, tenGiB, config)
	for i, want := range []float64{1.25, 2} {
		used := b.NextReserve(0).Estimate*int64(i+1) + 5*mib
		b.ended(b.schedule(0), Outcome{State: EndAborted, Reason: AbortResourceOverdraft, Usage: &Usage{ProxyMaxMemory: used}})
		job, r := b.start(0)
		if r.ProxyFactor != want || r.UserFactor != 0.5 {
			t.Errorf("retry %d: %+v", i, r)
		}
		b.ended(job, Outcome{State: EndAborted, Reason: AbortPreemption})
	}
}

func TestWhoIsBlamedForAnOverdraft(t *testing.T) {
	config := DefaultMemoryConfig()
	config.ProxyBase = 100 * mib
	cases := []struct {
		name        string
		usage       *Usage
		user, proxy bool
	}{
		{"the user took more", &Usage{UserMaxMemory: 6 * gib, ProxyMaxMemory: 90 * mib}, true, false},
		{"the proxy took more", &Usage{UserMaxMemory: 4 * gib, ProxyMaxMemory: 101 * mib}, false, true},
		{"both did", &Usage{UserMaxMemory: 6 * gib, ProxyMaxMemory: 101 * mib}, true, true},
		{"old figures: the user was nearer", &Usage{UserMaxMemory: 5*gib - 3*mib, ProxyMaxMemory: 90 * mib}, true, false},
		{"old figures: the proxy was nearer", &Usage{UserMaxMemory: 4 * gib, ProxyMaxMemory: 90 * mib}, false, true},
		{"old figures: a tie is the proxy's", &Usage{UserMaxMemory: 5*gib - 10*mib, ProxyMaxMemory: 90 * mib}, false, true},
		{"no figures", nil, false, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := configured(t, tenGiB, config)
			b.ended(b.schedule(0), Outcome{State: EndAborted, Reason: AbortResourceOverdraft, Started: true, Usage: c.usage})
			retry := b.tasks[0].memory.retries[0]
			if got := retry.User.Status != NeverOverdrafted; got != c.user {
				t.Errorf("user: %+v", retry)
			}
			if got := retry.Proxy.Status != NeverOverdrafted; got != c.proxy {
				t.Errorf("proxy: %+v", retry)
			}
			_, r := b.start(0)
			if c.user && r.UserFactor != 1 || c.proxy && r.ProxyFactor != 2 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// Whatever a node reports, a job that is repeatedly aborted for overdraft
// eventually gets its whole limit, so that it does not overdraft forever.
func TestRetriesWithoutFiguresReachAllBounds(t *testing.T) {
	b := configured(t, tenGiB, DefaultMemoryConfig())
	for range 3 {
		b.ended(b.schedule(0), Outcome{State: EndAborted, Reason: AbortResourceOverdraft, Started: true})
	}
	if _, r := b.start(0); r.UserFactor != 1 || r.ProxyFactor != 2 {
		t.Errorf("%+v", r)
	}
	b = running(t, tenGiB) // proxies are not counted
	b.ended(b.schedule(0), Outcome{State: EndAborted, Reason: AbortResourceOverdraft, Started: true})
	if _, r := b.start(0); r.UserFactor != 1 || r.Proxy != 0 {
		t.Errorf("%+v", r)
	}
}

func TestAProxyBeyondItsUpperBoundIsGivenWhatItUsed(t *testing.T) {
	b := configured(t, tenGiB, DefaultMemoryConfig())
	used := 10 * b.NextReserve(0).Estimate
	for i := range 2 {
		b.ended(b.schedule(0), Outcome{State: EndAborted, Reason: AbortResourceOverdraft, Usage: &Usage{ProxyMaxMemory: used}})
		job, r := b.start(0)
		if i == 0 && r.ProxyFactor != 2 || i == 1 && (r.Proxy < used || r.ProxyFactor > 11.01) {
			t.Errorf("retry %d: %+v", i+1, r)
		}
		b.ended(job, Outcome{State: EndAborted, Reason: AbortPreemption})
	}
}

func TestSamplesOfTheOverdraftModes(t *testing.T) {
	cases := []struct {
		mode         OverdraftMode
		use, reserve float64
		blamed       bool
		want         float64
	}{
		{OverdraftDocumented, 0.54, 0.5, true, 0.594},
		{OverdraftDocumented, 0.3, 0.5, true, 0.55}, // the figure is older than the overdraft
		{OverdraftDocumented, 0.3, 0.5, false, 0.3},
		{OverdraftDocumented, 0, 0.5, true, 0},
		{OverdraftReserveFloor, 0.54, 0.5, true, 0.55},
		{OverdraftReserveFloor, 0.6, 0.5, true, 0.6},
		{OverdraftReserveFloor, 0.3, 0.5, false, 0.55},
		{OverdraftHead, 0.54, 0.5, true, 0.54},
		{OverdraftHead, 1.2, 1.5, true, 1.65},
		{OverdraftHead, 1.2, 1.5, false, 1.2},
	}
	for _, c := range cases {
		config := DefaultMemoryConfig()
		config.OverdraftMode = c.mode
		if got := config.sample(c.use, c.reserve, c.blamed); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestRetriesThatNeedMoreDoNotHoldUpOthers(t *testing.T) {
	b := running(t, "tasks: {a: {job_count: 4, memory_limit: 1GiB}}")
	first := b.schedule(0)
	b.overdrafts(first, 600*mib)
	each := b.NextReserve(0).User
	if got := b.Needed()[resource.Memory]; got != gib+3*each {
		t.Errorf("a retry and three others need %d, want %d", got, gib+3*each)
	}
	room := resource.UnlimitedAmounts()
	room[resource.Memory] = each
	for cookie := range int32(3) {
		if job, block := b.Schedule(0, room); block != NotBlocked || job.Cookie != cookie+1 {
			t.Fatalf("%v, %+v", block, job)
		}
		b.verify()
	}
	if _, block := b.Schedule(0, room); block != BlockedByResources {
		t.Error(block)
	}
	// Now that only the retry waits, the group shows its resources.
	if g := b.Groups()[0]; g.Resources[resource.Memory] != gib || b.MinNeeded() != g.Resources {
		t.Errorf("%+v", g)
	}
	job, block := b.Schedule(0, b.Groups()[0].Resources)
	if block != NotBlocked || job.Cookie != first.Cookie || job.Resources[resource.Memory] != gib {
		t.Errorf("%v, %+v", block, job)
	}
	if got := b.Groups()[0].Resources[resource.Memory]; got != each {
		t.Errorf("the group says %d again, want %d", got, each)
	}
	b.verify()
}

func TestAGangKeepsWhatItsJobsNeedWhenItBeginsAnew(t *testing.T) {
	b := running(t, "is_gang: true\ntasks: {a: {job_count: 100, memory_limit: 1GiB}}")
	b.scheduleAll()
	b.overdrafts(JobRef{Cookie: 70}, 600*mib)
	if b.Incarnation() != 1 || b.PendingJobCount() != 100 {
		t.Fatalf("incarnation %d, %d jobs wait", b.Incarnation(), b.PendingJobCount())
	}
	if job, r := b.start(0); job.Cookie != 70 || r.User != gib {
		t.Errorf("%+v reserves %+v", job, r)
	}
	for cookie := range int32(70) {
		if job, _ := b.start(0); job.Cookie != cookie {
			t.Fatalf("%+v after cookie %d", job, cookie-1)
		}
	}
	if job, _ := b.start(0); job.Cookie != 71 {
		t.Errorf("%+v", job)
	}
}

func TestOwnersThatMeasureNothingSeeNoChange(t *testing.T) {
	b := running(t, tenGiB)
	for range 10 {
		b.completed(b.schedule(0))
		b.aborted(b.schedule(0), AbortResourceOverdraft)
	}
	if r := b.NextReserve(0); r.User != 5*gib || b.Groups()[0].Resources[resource.Memory] != 5*gib || r.Footprint+r.Proxy != 0 {
		t.Errorf("%+v", r)
	}
	if s := b.Snapshot(); s.Memory != nil || s.Tasks[0].Memory != nil {
		t.Errorf("%+v", s)
	}
	if len(b.JobStatistics()) != 0 || b.Alerts() != nil {
		t.Error("statistics of nothing")
	}
}

func TestConfigureIsForOperationsWithoutJobs(t *testing.T) {
	b := running(t, tenGiB)
	bad := MemoryConfig{UserQuantile: 2, UserPrecision: -1, OverdraftMode: 9, UserMultiplier: 0.5, ProxyMultiplier: 11, Footprint: -1, ExecFootprint: 1 << 60, ProxyBase: -1}
	err := b.Configure(bad)
	for _, want := range []string{
		"user_job_memory_reserve_quantile is 2", "user_job_memory_digest_precision", "memory_digest_resource_overdraft_factor is 0", "memory_digest_overdraft_mode",
		"user_job_resource_overdraft_memory_multiplier", "job_proxy_resource_overdraft_memory_multiplier is 11", "footprint_memory", "exec_footprint_memory", "job_proxy_memory_base",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if err := b.Configure(DefaultMemoryConfig()); err != nil || b.MemoryConfig() != DefaultMemoryConfig() {
		t.Error(err)
	}
	b.verify()
	b.schedule(0)
	if err := b.Configure(DefaultMemoryConfig()); err == nil || err.Error() != "memory of jobs: the operation has started 1 already" {
		t.Error(err)
	}
}

func TestExecFootprintIsAddedToTheLimit(t *testing.T) {
	c := DefaultMemoryConfig()
	c.ExecFootprint = 2 * gib
	if got := configured(t, tenGiB, c).NextReserve(0).User; got != 6*gib {
		t.Errorf("%d", got)
	}
}

func TestReportsOfJobsThatDoNotRunTeachNothing(t *testing.T) {
	b := running(t, tenGiB)
	job := b.schedule(0)
	b.uses(job, gib)
	before := b.Snapshot()
	if _, err := b.JobEnded(job, Outcome{Usage: &Usage{UserMaxMemory: 9 * gib}}, b.now); !errors.Is(err, ErrNotRunning) {
		t.Error(err)
	}
	if _, err := b.Reserve(job); !errors.Is(err, ErrNotRunning) {
		t.Error(err)
	}
	if diff := cmp.Diff(before, b.Snapshot()); diff != "" {
		t.Error(diff)
	}
}

// A restored controller behaves exactly like the original, including everything it
// has learnt.
func TestWhatWasLearntSurvivesARestart(t *testing.T) {
	config := DefaultMemoryConfig()
	config.OverdraftMode = OverdraftReserveFloor
	b := configured(t, tenGiB, config)
	var jobs []JobRef
	for i := range 10 {
		jobs = append(jobs, b.schedule(0))
		if i%3 == 0 {
			b.ended(jobs[0], Outcome{Usage: &Usage{UserMaxMemory: 2 * gib, ProxyMaxMemory: 30 * mib, Duration: time.Minute}})
			jobs = jobs[1:]
		}
	}
	b.overdrafts(jobs[0], 9*gib)
	text, err := json.Marshal(b.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	var s Snapshot
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	restored, err := Restore(b.Spec(), s)
	if err != nil {
		t.Fatal(err)
	}
	again := &bench{Controller: restored, t: t, now: b.now}
	for _, side := range []*bench{b, again} {
		for _, job := range jobs[1:] {
			side.uses(job, 4*gib)
		}
		side.schedule(0)
	}
	if diff := cmp.Diff(b.Snapshot(), again.Snapshot()); diff != "" {
		t.Error(diff)
	}
	if b.NextReserve(0) != again.NextReserve(0) || again.MemoryConfig() != config {
		t.Errorf("%+v and %+v", b.NextReserve(0), again.NextReserve(0))
	}
}

func TestAdoptedJobsKeepWhatTheyWereGiven(t *testing.T) {
	b := running(t, tenGiB)
	b.uses(b.schedule(0), gib)
	known, given := b.start(0)
	snapshot := b.Snapshot()
	late, _ := b.start(0) // after the snapshot
	restored, err := Restore(b.Spec(), snapshot)
	if err != nil {
		t.Fatal(err)
	}
	restored.Disown()
	again := &bench{Controller: restored, t: t, now: b.now}
	again.verify()
	if err := again.Adopt(known); err != nil || again.reserve(known) != given {
		t.Errorf("%v: %+v, want %+v", err, again.reserve(known), given)
	}
	if err := again.AdoptReserved(late, given.UserFactor, given.ProxyFactor); err != nil || again.reserve(late) != given {
		t.Errorf("%v: %+v, want %+v", err, again.reserve(late), given)
	}
	if err := again.AdoptReserved(late, 1, 1); !errors.Is(err, ErrNotRunning) {
		t.Error(err)
	}
	third := JobRef{Cookie: late.Cookie + 1}
	if err := again.AdoptReserved(third, math.NaN(), 0); err != nil || again.reserve(third).UserFactor != 0.5 {
		t.Errorf("%v: nonsense was believed: %+v", err, again.reserve(third))
	}
	again.verify()
}

func TestTheSectionOfTheCPUMonitorBecomesItsOptions(t *testing.T) {
	s := mustSpec(t, "job-cpu-monitor: {enable-cpu-reclaim: true, votes_decision_threshold: 2, start_delay: 5s}\ntasks: {a: {job_count: 1, command: x}}")
	o := s.CPUMonitor.Options()
	if err := o.Validate(); err != nil || !o.EnableReclaim || o.VoteDecisionThreshold != 2 || o.StartDelay != 5*time.Second || o.CheckPeriod != time.Second {
		t.Errorf("%v: %+v", err, o)
	}
	all := mustSpec(t, `job_cpu_monitor: {check_period: 2s, smoothing_factor: 0.2, relative_upper_bound: 0.8, relative_lower_bound: 0.3,
  increase_coefficient: 1.5, decrease_coefficient: 0.9, vote_window_size: 7, min_cpu_limit: 0.25}
tasks: {a: {job_count: 1, command: x}}`)
	o = all.CPUMonitor.Options()
	got := []float64{o.CheckPeriod.Seconds(), o.SmoothingFactor, o.RelativeUpperBound, o.RelativeLowerBound, o.IncreaseCoefficient, o.DecreaseCoefficient, float64(o.VoteWindowSize), o.MinCPULimit}
	if !slices.Equal(got, []float64{2, 0.2, 0.8, 0.3, 1.5, 0.9, 7, 0.25}) {
		t.Errorf("%v", got)
	}
	checkReadsBack(t, all, document.ForPeople)
}
