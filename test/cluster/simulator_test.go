package cluster

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The scenario for the simulator and the real cluster: production comes first and uses everything, then
// research, then batch. Jobs sleep; twelve of them fit on each of two nodes.
const (
	scenarioPools = `{pools: {production: {weight: 2, min_share_resources: {cpu: 9}}, research: {}, batch: {}}}`
	scenarioNodes = 2
	scenarioCores = 12
	scenarioJob   = 4 * time.Second
	scenarioEnd   = 32 * time.Second
)

var scenarioArrivals = []struct {
	pool string
	at   time.Duration
}{{"production", 0}, {"research", 2 * time.Second}, {"batch", 13 * time.Second}}

// scenarioWindows are the periods over which usage is averaged: the whole run, and between the changes.
var scenarioWindows = [][2]time.Duration{{0, scenarioEnd}, {7 * time.Second, 13 * time.Second}, {19 * time.Second, scenarioEnd}}

// shareTable is the average share of the cluster that each pool uses, by window.
type shareTable map[string][]float64

// sum returns the used share of the cluster in a window.
func (s shareTable) sum(window int) (sum float64) {
	for _, arrival := range scenarioArrivals {
		sum += s[arrival.pool][window]
	}
	return sum
}

func TestTheSimulatorAndARealClusterAgree(t *testing.T) {
	takesLong(t)
	needMachine(t)
	directory, group := sharedDirectory(t), newGroup()
	pools := writeFile(t, directory, "pools.yaml", scenarioPools)
	simulated := simulateScenario(t, directory)
	u := startUp(t, directory, group, "--pools", pools, "--nodes", strconv.Itoa(scenarioNodes),
		"--resources", fmt.Sprintf("cpu=%d,memory=16GiB,user_slots=%d", scenarioCores, scenarioCores))
	real := runScenario(t, u, directory)
	for w, window := range scenarioWindows {
		// The simulator starts jobs at once. In a real cluster some jobs are always about to start, and
		// more on a busy machine. The pools' parts of what is used must agree.
		used := [2]float64{simulated.sum(w), real.sum(w)}
		if used[0] < 0.95 || used[1] < 0.8 {
			t.Errorf("from %v to %v, %.3f of the cluster is used in the simulator and %.3f in reality", window[0], window[1], used[0], used[1])
		}
		for _, arrival := range scenarioArrivals {
			s, r := simulated[arrival.pool][w]/used[0], real[arrival.pool][w]/used[1]
			t.Logf("from %3v to %v %-10s has %.3f in the simulator and %.3f in reality", window[0], window[1], arrival.pool, s, r)
			if math.Abs(s-r) > 0.02 {
				t.Errorf("%s from %v to %v: %.3f of what is used in the simulator, %.3f in reality", arrival.pool, window[0], window[1], s, r)
			}
		}
	}
	u.interrupt()
	checkNothingIsLeft(t, directory, group)
}

// simulateScenario runs the scenario in virtual time.
func simulateScenario(t *testing.T, directory string) shareTable {
	var operations strings.Builder
	for _, a := range scenarioArrivals {
		fmt.Fprintf(&operations, "  - {name: %s, pool: %s, arrival: %v, job_count: 1000, job_resources: {cpu: 1, memory: 180MiB}, duration: %v}\n", a.pool, a.pool, a.at, scenarioJob)
	}
	scenario := writeFile(t, directory, "scenario.yaml", fmt.Sprintf(`
duration: %v
scheduler: {heartbeat_period: 200ms}
statistics: {period: 100ms, samples: 1000}
nodes:
  - {name: node, count: %d, resources: {cpu: %d, memory: 16GiB, user_slots: %d}}
tree: %s
operations:
%s`, scenarioEnd, scenarioNodes, scenarioCores, scenarioCores, scenarioPools, &operations))
	series := filepath.Join(directory, "series.csv")
	if output, err := exec.Command(programs.weir, "simulate", scenario, "--csv", series).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	file, err := os.Open(series)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	sums, counts := shareTable{}, shareTable{}
	for _, row := range rows[1:] {
		pool := row[column["pool"]]
		if row[column["resource"]] != "cpu" || pool == "" {
			continue
		}
		if sums[pool] == nil {
			sums[pool], counts[pool] = make([]float64, len(scenarioWindows)), make([]float64, len(scenarioWindows))
		}
		seconds, _ := strconv.ParseFloat(row[column["seconds"]], 64)
		usage, _ := strconv.ParseFloat(row[column["usage"]], 64)
		for w, window := range scenarioWindows {
			if seconds >= window[0].Seconds() && seconds < window[1].Seconds() {
				sums[pool][w] += usage / (scenarioNodes * scenarioCores)
				counts[pool][w]++
			}
		}
	}
	for pool := range sums {
		for w := range scenarioWindows {
			sums[pool][w] /= counts[pool][w]
		}
	}
	return sums
}

// runScenario runs the scenario on a cluster and computes shares from the start and end times of jobs.
func runScenario(t *testing.T, u *up, directory string) shareTable {
	var began time.Time
	var ids []string
	for _, a := range scenarioArrivals {
		spec := writeFile(t, directory, a.pool+".yaml", task(a.pool, fmt.Sprintf("exec sleep %g", scenarioJob.Seconds()),
			"job_count: 1000", "cpu_limit: 1", "memory_limit: 64MiB"))
		if began.IsZero() {
			began = time.Now()
		}
		pass(time.Until(began.Add(a.at)))
		ids = append(ids, strings.TrimSpace(u.mustWeir("op", "start", spec)))
	}
	pass(time.Until(began.Add(scenarioEnd)))
	shares := shareTable{}
	for i, id := range ids {
		u.mustWeir("op", "abort", id)
		var answer struct {
			Jobs []struct {
				Start  time.Time `json:"start_time"`
				Finish time.Time `json:"finish_time"`
			}
		}
		await(t, "all jobs are in the archive", func() bool {
			text := u.mustWeir("op", "jobs", id, "-o", "json")
			if err := json.Unmarshal([]byte(text), &answer); err != nil {
				t.Fatal(err)
			}
			for _, j := range answer.Jobs {
				if j.Finish.IsZero() {
					return false
				}
			}
			return true
		})
		got := make([]float64, len(scenarioWindows))
		for _, j := range answer.Jobs {
			for w, window := range scenarioWindows {
				from, to := began.Add(window[0]), began.Add(window[1])
				if j.Start.After(from) {
					from = j.Start
				}
				if j.Finish.Before(to) {
					to = j.Finish
				}
				got[w] += max(0, to.Sub(from).Seconds()) / (window[1] - window[0]).Seconds() / (scenarioNodes * scenarioCores)
			}
		}
		shares[scenarioArrivals[i].pool] = got
	}
	return shares
}
