package agent

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/jobproxy"
	"github.com/weirhq/weir/internal/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/resource"
)

// newNode is an agent whose jobs are not there yet: orders to them wait, and can be looked at.
func newNode(memory int64) *Agent {
	rules := DefaultRules()
	rules.Ahead = 0
	return &Agent{
		Options: Options{Rules: rules, Log: slog.New(slog.DiscardHandler)}, jobs: map[uint64]*job{},
		limits: resource.Amounts{resource.UserSlots: 100, resource.CPU: 10_00, resource.Memory: memory},
	}
}

// add makes a job that was given so much memory, uses so much, and holds so many hundredths of a core.
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

// leaving are the numbers of jobs that are being ended.
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
		jobs  [][2]int64 // given, used; the last has grown
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
	a.checkMemory(other) // the second has not left yet, but it will
	if got := a.leaving(); !slices.Equal(got, []uint64{2}) {
		t.Errorf("%v leave", got)
	}
}

func TestTheNewestLeaveWhenJobsHaveTakenTooMuchForTooLong(t *testing.T) {
	now := time.Date(2024, 3, 1, 12, 0, 0, 0, time.UTC)
	a := newNode(100)
	a.add(10, 10, 4_00)
	a.add(10, 10, 4_00)
	a.add(10, 10, 4_00)
	a.adjust(now)
	a.adjust(now.Add(a.Rules.CPUPatience))
	if got := a.leaving(); len(got) != 0 {
		t.Errorf("%v leave before their time", got)
	}
	a.adjust(now.Add(a.Rules.CPUPatience + 1))
	if got := a.leaving(); !slices.Equal(got, []uint64{3}) {
		t.Errorf("%v leave, want the newest", got)
	}
	// Of memory, those above their reserves go first.
	a = newNode(100)
	a.add(40, 40, 1)
	a.add(30, 60, 1)
	a.add(20, 20, 1)
	a.adjust(now)
	a.adjust(now.Add(a.Rules.MemoryPatience + 1))
	if got := a.leaving(); !slices.Equal(got, []uint64{2}) {
		t.Errorf("%v leave, want the one above its reserve", got)
	}
}

// Whatever jobs there are: who is ended for memory used more than it was given, and when reserves fit the node, what
// stays fits too or is within its reserves.
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
