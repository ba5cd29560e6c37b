package agent

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/resource"
)

// newNode returns an agent whose jobs have no proxies yet: orders to them wait, where a test can
// inspect them.
func newNode(memory int64) *Agent {
	rules := DefaultRules()
	rules.Ahead = 0
	return &Agent{
		Options: Options{Rules: rules, Log: slog.New(slog.DiscardHandler)}, jobs: map[uint64]*job{},
		limits: resource.Amounts{resource.UserSlots: 100, resource.CPU: 10_00, resource.Memory: memory},
	}
}

// add adds a job with this reserve, memory usage and CPU (in hundredths of a core).
func (a *Agent) add(given, uses, cpu int64) *job {
	number := uint64(len(a.jobs) + 1)
	j := &job{
		number: number, identity: &nodev1.JobIdentity{Number: number, StartTimeUs: int64(number)},
		given: resource.Amounts{resource.CPU: cpu, resource.Memory: given},
		state: &jobproxy.State{UserMemory: uses, RequestedMemory: max(given, uses), CPULimit: cpu},
	}
	a.jobs[number] = j
	return j
}

// leaving returns the numbers of jobs that are being ended.
func (a *Agent) leaving() (numbers []uint64) {
	for number, j := range a.jobs {
		if j.ending {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers
}

func TestWhoLeavesWhenAJobHasGrownAndThereIsNoRoom(t *testing.T) {
	cases := []struct {
		name  string
		jobs  [][2]int64 // reserve, usage; the last one has grown
		leave []uint64
	}{
		{"nobody while there is room", [][2]int64{{30, 50}, {30, 50}}, nil},
		{"the one that grew, if it uses more than it was given", [][2]int64{{30, 50}, {30, 60}}, []uint64{2}},
		{"else the oldest that does", [][2]int64{{30, 20}, {20, 40}, {20, 50}, {30, 30}}, []uint64{2}},
		{"nobody if all are within their reserves", [][2]int64{{60, 60}, {60, 60}}, nil},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			a := newNode(100)
			var last *job
			for _, j := range k.jobs {
				last = a.add(j[0], j[1], 100)
			}
			a.checkMemory(last)
			if got := a.leaving(); !slices.Equal(got, k.leave) {
				t.Errorf("%v leave, want %v", got, k.leave)
			}
			for _, number := range k.leave {
				if orders := a.jobs[number].waiting; len(orders) != 1 || orders[0].Reason != "resource_overdraft" {
					t.Errorf("job %d is ordered %+v", number, orders)
				}
			}
		})
	}
}

func TestJobsMayGrowIntoMemoryThatIsHiddenFromTheScheduler(t *testing.T) {
	a := newNode(80)
	a.Watermark = 20
	a.add(30, 50, 100)
	a.checkMemory(a.add(30, 50, 100))
	if got := a.leaving(); len(got) != 0 {
		t.Errorf("%v leave, but the watermark does not count", got)
	}
	a.checkMemory(a.add(0, 1, 100))
	if got := a.leaving(); !slices.Equal(got, []uint64{3}) {
		t.Errorf("%v leave, want the one that has outgrown the node", got)
	}
}

func TestWhatIsBeingGivenBackIsAsGoodAsFree(t *testing.T) {
	a := newNode(100)
	a.add(30, 50, 100)
	grown := a.add(30, 60, 100)
	a.checkMemory(grown)
	other := a.jobs[1]
	other.state = &jobproxy.State{UserMemory: 70, RequestedMemory: 70}
	a.checkMemory(other) // the second has not ended yet, but it will
	if got := a.leaving(); !slices.Equal(got, []uint64{2}) {
		t.Errorf("%v leave", got)
	}
}

// overdrawn is a job on a node with too little: its memory reserve, usage and request, and its CPU.
type overdrawn struct {
	given, uses, asks int64
	cpu               int64
	started           int64 // zero: in the order of the list
	ending            bool
}

// The rules are those of the document on job memory (M) and of section 5.3 of the reference (R). R
// states "newest-first" for both resources. Where that would end a job within its reserve for memory
// that others use, M wins: only a job above its reserve may be aborted.
func TestWhoLeavesWhenJobsHaveTakenTooMuchForTooLong(t *testing.T) {
	const memoryTimeout, cpuTimeout = 5 * time.Minute, 10 * time.Minute // the defaults
	cases := []struct {
		name, rule string
		jobs       []overdrawn // on 100 bytes and 10 cores
		after      time.Duration
		leave      []uint64
	}{
		{"nobody while everything fits", "R: if usage > limits",
			[]overdrawn{{given: 50, uses: 60, cpu: 5_00}, {given: 40, uses: 40, cpu: 5_00}}, time.Hour, nil},
		{"nobody for memory at the timeout", "R: for memory longer than memory_overdraft_timeout",
			[]overdrawn{{given: 50, uses: 60}, {given: 50, uses: 50}}, memoryTimeout, nil},
		{"nobody for CPU at the timeout", "R: for cpu longer than cpu_overdraft_timeout",
			[]overdrawn{{cpu: 6_00}, {cpu: 6_00}}, cpuTimeout, nil},
		{"the one above its reserve, though others are newer", "M: above its reserve, with no free memory, a job may be aborted",
			[]overdrawn{{given: 40, uses: 40}, {given: 30, uses: 60}, {given: 20, uses: 20}}, memoryTimeout + 1, []uint64{2}},
		{"of those above their reserves the newest", "R: abort running jobs newest-first",
			[]overdrawn{{given: 20, uses: 40}, {given: 20, uses: 40}, {given: 20, uses: 40}}, memoryTimeout + 1, []uint64{3}},
		{"as many as must", "R: until it fits",
			[]overdrawn{{given: 20, uses: 60}, {given: 20, uses: 60}, {given: 20, uses: 60}}, memoryTimeout + 1, []uint64{2, 3}},
		{"the newest is the one that started last", "R: newest-first, whatever the numbers of jobs are",
			[]overdrawn{{given: 20, uses: 60, started: 9}, {given: 20, uses: 60, started: 8}}, memoryTimeout + 1, []uint64{1}},
		{"the newest, if the reserves alone do not fit", "R: abort running jobs newest-first",
			[]overdrawn{{given: 60, uses: 10}, {given: 60, uses: 10}}, memoryTimeout + 1, []uint64{2}},
		{"then too those above their reserves first", "M: a job above its reserve may be aborted; R: until it fits",
			[]overdrawn{{given: 20, uses: 30}, {given: 60, uses: 10}, {given: 60, uses: 10}}, memoryTimeout + 1, []uint64{1, 3}},
		{"the newest for CPU, though an older one is above its reserve", "R: newest-first; M speaks of memory only",
			[]overdrawn{{given: 10, uses: 30, cpu: 6_00}, {given: 10, uses: 10, cpu: 6_00}}, cpuTimeout + 1, []uint64{2}},
		{"as many as must for CPU", "R: until it fits",
			[]overdrawn{{cpu: 6_00}, {cpu: 6_00}, {cpu: 6_00}}, cpuTimeout + 1, []uint64{2, 3}},
		{"nobody for CPU that has left for memory", "R: until it fits",
			[]overdrawn{{given: 30, uses: 80, cpu: 6_00}, {given: 30, uses: 30, cpu: 6_00}}, time.Hour, []uint64{1}},
		{"for both, each by its own rule", "M: above its reserve; R: newest-first",
			[]overdrawn{{given: 30, uses: 80, cpu: 1_00}, {given: 20, uses: 20, cpu: 6_00}, {given: 20, uses: 20, cpu: 6_00}}, time.Hour, []uint64{1, 3}},
		{"nobody for what is asked ahead of use", "R: ahead makes a job exceed its reserve in accounting; do not treat that as an error",
			[]overdrawn{{given: 50, uses: 50, asks: 70}, {given: 50, uses: 50, asks: 70}}, time.Hour, nil},
		{"nobody for what is being given back", "R: usage > limits; who is ended already will not use it",
			[]overdrawn{{given: 50, uses: 60, ending: true}, {given: 50, uses: 60}}, time.Hour, nil},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			a := newNode(100)
			for _, o := range k.jobs {
				j := a.add(o.given, o.uses, o.cpu)
				j.state.RequestedMemory = max(j.state.RequestedMemory, o.asks)
				j.ending = o.ending
				if o.started != 0 {
					j.identity.StartTimeUs = o.started
				}
			}
			before := a.leaving()
			start := time.Date(2024, 3, 1, 12, 0, 0, 0, time.UTC)
			a.adjust(start)
			if got := a.leaving(); !slices.Equal(got, before) {
				t.Fatalf("%v leave at once", got)
			}
			a.adjust(start.Add(k.after))
			got := slices.DeleteFunc(a.leaving(), func(number uint64) bool { return slices.Contains(before, number) })
			if !slices.Equal(got, k.leave) {
				t.Errorf("%v leave, want %v by the rule %q", got, k.leave, k.rule)
			}
			for _, number := range k.leave {
				if orders := a.jobs[number].waiting; len(orders) != 1 || orders[0].Reason != "resource_overdraft" {
					t.Errorf("job %d is ordered %+v", number, orders)
				}
			}
		})
	}
}

func TestMemoryThatIsHiddenFromTheSchedulerIsRoomInTheLongRunToo(t *testing.T) {
	a := newNode(80)
	a.Watermark = 20
	a.add(30, 50, 100)
	a.add(30, 50, 100)
	now := time.Unix(0, 0)
	a.adjust(now)
	a.adjust(now.Add(time.Hour))
	if got := a.leaving(); len(got) != 0 {
		t.Errorf("%v leave", got)
	}
}

func TestTheTimesOfOverdraftsBeginAnew(t *testing.T) {
	now := time.Unix(0, 0)
	a := newNode(100)
	grower := a.add(50, 60, 6_00)
	a.add(50, 50, 6_00)
	a.adjust(now)
	// Room for a moment resets the timeout.
	grower.state.UserMemory = 40
	a.adjust(now.Add(4 * time.Minute))
	grower.state.UserMemory = 60
	a.adjust(now.Add(6 * time.Minute))
	a.adjust(now.Add(11 * time.Minute)) // CPU has been short all the time
	if got := a.leaving(); !slices.Equal(got, []uint64{2}) {
		t.Errorf("%v leave, want the newest for CPU", got)
	}
	// Ending a job for one resource resets the timeouts of both.
	a.add(50, 50, 1_00)
	a.adjust(now.Add(12 * time.Minute))
	a.adjust(now.Add(17 * time.Minute))
	if got := a.leaving(); !slices.Equal(got, []uint64{2}) {
		t.Errorf("%v leave, but the time of memory started over", got)
	}
	a.adjust(now.Add(17*time.Minute + 1))
	if got := a.leaving(); !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("%v leave, want also the one above its reserve", got)
	}
}

// Whatever the jobs, only a job above its reserve is ended for memory. If the reserves fit on the node,
// the remaining jobs fit too or are within their reserves.
func TestNobodyWithinItsReserveIsEverEnded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newNode(rapid.Int64Range(1, 1000).Draw(t, "memory"))
		count := rapid.IntRange(1, 10).Draw(t, "jobs")
		room := a.limits[resource.Memory]
		for range count {
			given := rapid.Int64Range(0, room).Draw(t, "given") // as the scheduler does
			room -= given
			a.add(given, rapid.Int64Range(0, 300).Draw(t, "uses"), 1)
		}
		for range rapid.IntRange(1, 20).Draw(t, "growths") {
			j := a.jobs[uint64(rapid.IntRange(1, count).Draw(t, "job"))]
			more := j.uses() + rapid.Int64Range(0, 100).Draw(t, "more")
			j.state = &jobproxy.State{UserMemory: more, RequestedMemory: max(j.state.RequestedMemory, more)}
			a.checkMemory(j)
			if j.ending && j.uses() <= j.given[resource.Memory] {
				t.Fatalf("job %d was within its reserve", j.number)
			}
		}
		now := time.Unix(0, 0)
		a.adjust(now)
		a.adjust(now.Add(time.Hour))
		var stays int64
		for _, j := range a.jobs {
			switch {
			case j.ending && !isOverReserve(j):
				t.Fatalf("job %d was within its reserve", j.number)
			case !j.ending:
				stays += max(j.given[resource.Memory], j.uses())
			}
		}
		if stays > a.limits[resource.Memory] {
			t.Fatalf("%d of %d stays", stays, a.limits[resource.Memory])
		}
	})
}
