package cluster

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/control/store"
)

// documented are the statistics that the documents name.
var documented = []string{
	"user_job/memory_reserve", "job_proxy/memory_reserve", "user_job/max_memory", "job_proxy/max_memory", "job_proxy/estimated_memory",
	"user_job/memory_limit", "user_job/cumulative_memory_reserve", "job_proxy/cumulative_memory_reserve", "user_job/cumulative_max_memory",
	"job_proxy/cumulative_max_memory", "job_proxy/cumulative_estimated_memory",
}

func TestStatisticsSayWhatAReferenceProgramUsed(t *testing.T) {
	c := newCluster(t)
	c.node("{cpu: 4, memory: 8GiB, user_slots: 8}")
	const memory, jobs = 200_000_000, 2
	id := c.start(task("a", "exec "+reference("alloc=200000000", "burn=600ms", "sleep=2400ms", "free", "cpu"), "job_count: 2", "memory_limit: 400MiB", "cpu_limit: 1"))
	row, list := c.completed(id)
	for _, j := range list {
		for _, path := range documented {
			statistic(t, j, path)
		}
		if got := statistic(t, j, "user_job/max_memory"); !near(got, memory, 0.05) {
			t.Errorf("max_memory %d, the program used %d", got, memory)
		}
		cpu := statistic(t, j, "user_job/cpu/user") + statistic(t, j, "user_job/cpu/system")
		// The job reports what it has used: touching memory takes time beside what it burns, and more
		// on a busy machine.
		told, err := strconv.ParseInt(strings.TrimSpace(c.stderr(j)), 10, 64)
		if err != nil || told < 600_000 || !near(cpu*1000, told, 0.05) {
			t.Errorf("cpu %d ms, the program used %d µs (%v)", cpu, told, err)
		}
		seconds := float64(statistic(t, j, "time/total")) / 1000
		if statistic(t, j, "time/exec") < 3000 {
			t.Errorf("%s", j.Statistics)
		}
		for cumulative, of := range map[string]string{
			"user_job/cumulative_max_memory": "user_job/max_memory", "user_job/cumulative_memory_reserve": "user_job/memory_reserve",
			"job_proxy/cumulative_max_memory": "job_proxy/max_memory", "job_proxy/cumulative_estimated_memory": "job_proxy/estimated_memory",
			"job_proxy/cumulative_memory_reserve": "job_proxy/memory_reserve",
		} {
			if got, want := statistic(t, j, cumulative), int64(float64(statistic(t, j, of))*seconds); !near(got, want, 0.05) {
				t.Errorf("%s is %d, want %d", cumulative, got, want)
			}
		}
		// The job held its memory while it burnt CPU and slept, for at least three seconds. Usage
		// between the last check and the end is lost, and on a busy machine checks come late.
		mbSeconds := float64(statistic(t, j, "user_job/cumulative_memory_mb_sec"))
		if least, most := 2*memory/float64(mib), 1.05*memory/float64(mib)*seconds; mbSeconds < least || mbSeconds > most {
			t.Errorf("cumulative_memory_mb_sec is %v, want between %v and %v", mbSeconds, least, most)
		}
		if proxy := statistic(t, j, "job_proxy/max_memory"); proxy <= 0 || proxy > 20*mib {
			t.Errorf("the proxy used %d", proxy)
		}
	}
	checkOperationStatistics(t, c, row, list)
}

// summary is one statistic of an operation's jobs that ended in one state.
type summary struct{ Count, Sum, Min, Max int64 }

// operationStatistic reads a statistic over the completed jobs of an operation.
func operationStatistic(t testing.TB, progress []byte, path string) summary {
	t.Helper()
	var tree struct {
		Statistics any `json:"job_statistics"`
	}
	if err := json.Unmarshal(progress, &tree); err != nil {
		t.Fatalf("progress: %v: %s", err, progress)
	}
	at := tree.Statistics
	for part := range strings.SplitSeq(path+"/$/completed/vanilla", "/") {
		inner, _ := at.(map[string]any)
		at = inner[part]
	}
	text, err := json.Marshal(at)
	var s summary
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil || at == nil {
		t.Errorf("the operation has no %s", path)
	}
	return s
}

// checkOperationStatistics compares the statistics of an operation with those of its jobs.
func checkOperationStatistics(t *testing.T, c *cluster, row store.Operation, jobs []store.Job) {
	progress := c.progress(row.Number)
	for _, path := range append([]string{"user_job/cpu/user", "user_job/cumulative_memory_mb_sec", "time/exec"}, documented...) {
		s := operationStatistic(t, progress, path)
		var sum, most int64
		least := int64(1) << 62
		for _, j := range jobs {
			v := statistic(t, j, path)
			sum, most, least = sum+v, max(most, v), min(least, v)
		}
		if of, found := strings.CutPrefix(path[strings.Index(path, "/")+1:], "cumulative_"); found && of != "memory_mb_sec" {
			checkCumulative(t, row, jobs, path, strings.Replace(path, "cumulative_", "", 1), s)
			continue
		}
		if s.Count != int64(len(jobs)) || s.Sum != sum || s.Min != least || s.Max != most {
			t.Errorf("%s: %+v, jobs have %d, %d … %d", path, s, sum, least, most)
		}
	}
}

// checkCumulative compares what the controller computed by its own clock with the times of the jobs:
// from the start of each job until the controller received its end, which is after the end and before
// that of the operation.
func checkCumulative(t *testing.T, row store.Operation, jobs []store.Job, path, of string, s summary) {
	t.Helper()
	var least, most float64
	for _, j := range jobs {
		amount := float64(statistic(t, j, of))
		least += amount * j.FinishTime.Sub(j.StartTime).Seconds()
		most += amount * row.FinishTime.Sub(j.StartTime).Seconds()
	}
	if sum := float64(s.Sum); s.Count != int64(len(jobs)) || sum < 0.99*least || sum > 1.01*most {
		t.Errorf("%s: %+v, want a sum from %.0f to %.0f", path, s, least, most)
	}
}
