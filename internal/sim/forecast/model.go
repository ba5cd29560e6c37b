package forecast

import (
	"container/list"
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/sim"
	"github.com/weirhq/weir/internal/sim/distribution"
	"github.com/weirhq/weir/internal/value/resource"
)

// Bounds of a model.
const (
	maxKeys = 20_000
	// enoughSamples is the weight that a key must have to be used: of eight run times,
	// after forgetting.
	enoughSamples = 7.4
	unknownRun    = 10 * time.Minute // before any job has completed
)

// Facts are what a model knows about an operation when it arrives.
type Facts struct {
	User, Tree, Pool, Title string
	Tasks                   []TaskFacts
}

// TaskFacts describe a task.
type TaskFacts struct {
	Name  string
	Jobs  int
	Need  resource.Amounts // of one job
	Limit time.Duration    // job_time_limit; zero: none
}

// FactsOf returns the facts about an operation in a pool.
func FactsOf(user, tree, pool string, spec *operation.Spec) Facts {
	f := Facts{User: user, Tree: tree, Pool: pool, Title: spec.Title.Or("")}
	for i := range spec.Tasks {
		t := &spec.Tasks[i]
		f.Tasks = append(f.Tasks, TaskFacts{
			Name: t.Name, Jobs: t.Value.JobCount, Limit: t.Value.JobTimeLimit.Or(0),
			Need: resource.Amounts{
				resource.CPU: t.Value.CPULimit.Or(resource.CPU.Scale()), resource.Memory: t.Value.MemoryLimit.Or(0), resource.GPU: t.Value.GPULimit.Or(0),
			},
		})
	}
	return f
}

// Model is what is known about run times: by operation and task, by user and title,
// by user and pool, by size in a tree, and of all. The first of these with enough
// samples describes a job. A Model is not safe for concurrent use.
type Model struct {
	keys  map[string]*list.Element
	order *list.List // of *entry, the least recently used last
	live  map[core.OperationID]*known
	// agree and spread estimate how much the jobs of one operation agree: sums over
	// operations of the products of two jobs' normal scores, and of their squares.
	agree, spread float64
}

type entry struct {
	key      string
	spectrum spectrum
}

// known is an operation that has not ended.
type known struct {
	tasks []knownTask
}

type knownTask struct {
	keys  []string // of the spectra from narrow to wide, without its own
	jobs  int
	limit float64
	own   spectrum
	// prior is the first key that had enough samples when a job ended first, and
	// scores are the normal scores of its jobs' run times among those.
	prior        string
	scores       int
	sum, squares float64
	longest      float64 // the highest age of a job that was stopped
}

// NewModel returns a model that knows nothing.
func NewModel() *Model {
	return &Model{keys: map[string]*list.Element{}, order: list.New(), live: map[core.OperationID]*known{}}
}

// Pattern is a title with numbers replaced by #.
func Pattern(title string) string {
	var b strings.Builder
	digits := false
	for _, r := range title {
		if r >= '0' && r <= '9' {
			if !digits {
				b.WriteByte('#')
			}
			digits = true
			continue
		}
		digits = false
		b.WriteRune(r)
	}
	return b.String()
}

// SizeClass names a size by powers of two: of the number of jobs and of what one
// needs.
func SizeClass(jobs int, need resource.Amounts) string {
	return fmt.Sprintf("%d/%d/%d/%d", bits.Len(uint(max(jobs-1, 0))), bits.Len64(uint64(max(need[resource.CPU], 0))),
		bits.Len64(uint64(max(need[resource.Memory], 0)>>20)), need[resource.GPU])
}

// Enter tells the model about an operation.
func (m *Model) Enter(id core.OperationID, f Facts) {
	k := &known{}
	for _, t := range f.Tasks {
		class := SizeClass(t.Jobs, t.Need)
		var keys []string
		if f.Title != "" {
			keys = append(keys, "t\x00"+f.User+"\x00"+Pattern(f.Title)+"\x00"+t.Name)
		}
		keys = append(keys, "c\x00"+f.User+"\x00"+f.Tree+"\x00"+f.Pool+"\x00"+class, "u\x00"+f.User+"\x00"+f.Tree+"\x00"+f.Pool,
			"s\x00"+f.Tree+"\x00"+class, "a\x00")
		k.tasks = append(k.tasks, knownTask{keys: keys, jobs: max(t.Jobs, 1), limit: t.Limit.Seconds()})
	}
	m.live[id] = k
}

// Leave forgets an operation that has ended. What its jobs taught stays.
func (m *Model) Leave(id core.OperationID) {
	k := m.live[id]
	if k == nil {
		return
	}
	delete(m.live, id)
	for i := range k.tasks {
		t := &k.tasks[i]
		if n := float64(t.scores); t.scores >= 2 {
			m.agree = m.agree*forgetting + (t.sum*t.sum-t.squares)/(n*(n-1))
			m.spread = m.spread*forgetting + t.squares/n
		}
	}
}

// End is how an attempt of a job ended.
type End uint8

const (
	Completed End = iota
	// Cut is the end of a job that would have run longer: it was preempted, aborted
	// or lost, or it failed.
	Cut
)

// Ended tells the model how long a job ran.
func (m *Model) Ended(id core.OperationID, task int32, ran time.Duration, end End) {
	k := m.live[id]
	if k == nil || int(task) >= len(k.tasks) || ran < 0 {
		return
	}
	t, seconds := &k.tasks[task], ran.Seconds()
	if end == Cut {
		t.longest = max(t.longest, seconds)
	} else if t.prior == "" {
		t.prior = m.enough(t.keys)
	}
	if l := m.lawOf(t.prior); end == Completed && l != nil {
		z := score(l.part(seconds))
		t.scores++
		t.sum += z
		t.squares += z * z
	}
	// All jobs of an operation together count as one sample of the wider keys, so
	// that one large operation does not displace all others.
	weight := 1 / float64(t.jobs)
	for _, key := range t.keys {
		m.spectrum(key).add(seconds, weight, end == Cut)
	}
	if float64(t.jobs) > enoughSamples {
		t.own.add(seconds, 1, end == Cut)
	}
}

// spectrum returns the spectrum of a key, which becomes the most recently used.
func (m *Model) spectrum(key string) *spectrum {
	if e, ok := m.keys[key]; ok {
		m.order.MoveToFront(e)
		return &e.Value.(*entry).spectrum
	}
	for len(m.keys) >= maxKeys {
		last := m.order.Back()
		delete(m.keys, last.Value.(*entry).key)
		m.order.Remove(last)
	}
	e := m.order.PushFront(&entry{key: key})
	m.keys[key] = e
	return &e.Value.(*entry).spectrum
}

// look returns the spectrum of a key if there is one.
func (m *Model) look(key string) *spectrum {
	if e, ok := m.keys[key]; ok {
		return &e.Value.(*entry).spectrum
	}
	return nil
}

// enough returns the first key with enough samples; empty if none has.
func (m *Model) enough(keys []string) string {
	for _, key := range keys {
		if m.look(key).samples() >= enoughSamples {
			return key
		}
	}
	return ""
}

func (m *Model) lawOf(key string) *law {
	if s := m.look(key); s.samples() > 0 {
		return s.law()
	}
	return nil
}

// Agreement is the correlation of the run times of an operation's jobs: 0 if they
// agree no more than those of different operations, 1 if all are equal.
func (m *Model) Agreement() float64 {
	const few = 4 // pseudo-observations of half agreement
	return min(max((m.agree+few/2)/(m.spread+few), 0), 0.99)
}

// score is the normal score of a part of a distribution.
func score(part float64) float64 {
	return math.Sqrt2 * math.Erfinv(2*min(max(part, 1e-4), 1-1e-4)-1)
}

func partOf(score float64) float64 { return 0.5 * math.Erfc(-score/math.Sqrt2) }

// Replica returns durations of one possible future. Its draws depend on the seed
// and on the job alone: a job that restarts runs as long again.
func (m *Model) Replica(seed distribution.Seed, laws *Laws) sim.Durations {
	common := map[taskKey]float64{}
	rho := m.Agreement()
	return func(a sim.Attempt) time.Duration {
		key := taskKey{a.Operation, a.Task}
		l := laws.of(key)
		stream := seed.At(int(a.Operation)).At(int(a.Task)).At(int(a.Cookie)).Stream()
		u := stream.Float64()
		if !l.own {
			factor, ok := common[key]
			if !ok {
				own := seed.Named("operation").At(int(a.Operation)).At(int(a.Task)).Stream()
				factor = l.factor(own.Float64(), rho)
				common[key] = factor
			}
			u = min(partOf(math.Sqrt(rho)*factor+math.Sqrt(1-rho)*score(u)), 1-1e-9)
		}
		age := a.Age.Seconds()
		if before := l.law.part(age); age > 0 && u < before {
			u = stream.Float64()
		} else if age > 0 {
			u = (u - before) / (1 - before)
		}
		seconds := l.law.draw(age, u)
		if l.limit > age {
			seconds = min(seconds, l.limit)
		}
		const most = 100 * 24 * time.Hour
		return max(time.Duration(min(seconds, most.Seconds())*float64(time.Second)).Round(time.Millisecond), a.Age+time.Millisecond)
	}
}

type taskKey struct {
	operation core.OperationID
	task      int32
}

// taskLaw is the distribution of the run times of a task's jobs.
type taskLaw struct {
	law   *law
	own   bool // of its own jobs
	limit float64
	// scores and mean are the number and the mean of normal scores of its jobs, and
	// age is the highest age that one has reached.
	scores    int
	mean, age float64
}

// factor draws the common factor of an operation's jobs, given those that have
// completed and the ages of others, at a quantile.
func (l *taskLaw) factor(u, rho float64) float64 {
	n := float64(l.scores)
	precision := 1 + n*rho/(1-rho)
	mean, deviation := n*math.Sqrt(rho)/(1-rho)*l.mean/precision, 1/math.Sqrt(precision)
	low := 0.0
	if l.age > 0 && rho > 0 {
		// Jobs this old are unlikely if the factor is far below their age's score.
		least := (score(l.law.part(l.age)) - 2*math.Sqrt(1-rho)) / math.Sqrt(rho)
		low = min(partOf((least-mean)/deviation), 0.999)
	}
	return mean + deviation*score(low+(1-low)*u)
}

// Laws are the distributions of the jobs of some operations at one moment.
type Laws struct {
	model *Model
	known map[taskKey]*taskLaw
	ages  map[taskKey]float64
	cache map[string]*law
}

// Laws returns the distributions for the operations of a core.
func (m *Model) Laws(c *core.Core, now time.Time) *Laws {
	l := &Laws{model: m, known: map[taskKey]*taskLaw{}, ages: map[taskKey]float64{}, cache: map[string]*law{}}
	for _, id := range c.Live() {
		for _, j := range c.JobsOf(id) {
			key := taskKey{id, j.JobRef.Task}
			l.ages[key] = max(l.ages[key], now.Sub(j.Started).Seconds())
		}
	}
	return l
}

func (l *Laws) of(key taskKey) *taskLaw {
	if known, ok := l.known[key]; ok {
		return known
	}
	result := &taskLaw{law: l.lawOf("a\x00"), age: l.ages[key]}
	l.known[key] = result
	k := l.model.live[key.operation]
	if k == nil || int(key.task) >= len(k.tasks) {
		return result
	}
	t := &k.tasks[key.task]
	result.limit, result.age = t.limit, max(result.age, t.longest)
	if t.own.samples() >= enoughSamples {
		result.law, result.own = t.own.law(), true
		return result
	}
	prior := t.prior
	if prior == "" {
		prior = l.model.enough(t.keys)
	}
	result.law = l.lawOf(prior)
	if t.scores > 0 {
		result.scores, result.mean = t.scores, t.sum/float64(t.scores)
	}
	return result
}

// lawOf returns the distribution of a key. If nothing is known, it is a wide one.
func (l *Laws) lawOf(key string) *law {
	if known, ok := l.cache[key]; ok {
		return known
	}
	known := l.model.lawOf(key)
	if known == nil {
		known = unknownLaw
	}
	l.cache[key] = known
	return known
}

// unknownLaw is for jobs of which nothing is known.
var unknownLaw = func() *law {
	var s spectrum
	for i := range 21 {
		s.add(unknownRun.Seconds()*math.Pow(10, float64(i-10)/10), 1, false)
	}
	return s.law()
}()
