package agent

import (
	"bufio"
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weirhq/weir/internal/cgroup"
	"github.com/weirhq/weir/internal/jobproxy"
	"github.com/weirhq/weir/internal/nodeproto"
	"github.com/weirhq/weir/internal/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/resource"
)

// overdrafts are since when jobs hold more than the node has.
type overdrafts struct{ memory, cpu time.Time }

// held is what all jobs take from the node.
func (a *Agent) held() (sum resource.Amounts) {
	for _, j := range a.jobs {
		sum = sum.Add(j.holds())
	}
	return sum
}

// byStart lists running jobs, oldest first.
func (a *Agent) byStart() []*job {
	var list []*job
	for _, j := range a.jobs {
		if j.result == nil {
			list = append(list, j)
		}
	}
	slices.SortFunc(list, func(x, y *job) int {
		if x.identity.GetStartTimeUs() != y.identity.GetStartTimeUs() {
			return int(x.identity.GetStartTimeUs() - y.identity.GetStartTimeUs())
		}
		return int(int64(x.number) - int64(y.number))
	})
	return list
}

// checkMemory ends a job when another one has grown and there is no room: the one that grew if it uses more than it
// was given, else the first that does. A job within its reserve is never ended for memory.
func (a *Agent) checkMemory(grown *job) {
	over := a.held()[resource.Memory] - a.limits[resource.Memory]
	if over <= 0 {
		return
	}
	victim := grown
	if !isOverReserve(grown) {
		victim = nil
		for _, j := range a.byStart() {
			if isOverReserve(j) && !j.ending {
				victim = j
				break
			}
		}
	}
	if victim == nil || victim.ending {
		a.Log.Info("jobs have asked for more memory than the node has, all within their reserves", "over", over)
		return
	}
	a.overdraw(victim, grown, "the node has no memory left for what the job uses above its reserve")
}

// isOverReserve says whether a job uses more than the scheduler gave it.
func isOverReserve(j *job) bool { return j.uses() > j.given[resource.Memory] }

// overdraw ends a job for using more than its reserve.
func (a *Agent) overdraw(victim, cause *job, message string) {
	victim.ending = true
	a.Log.Warn("a job is ended for overdraft", "job", victim.identity.GetJobId(), "uses", victim.uses(), "reserve", victim.given[resource.Memory])
	if cause != nil && cause != victim {
		message += "; job " + cause.identity.GetJobId() + " asked for more"
	}
	a.order(victim.number, jobproxy.Order{Command: jobproxy.Abort, Reason: jobproxy.ResourceOverdraft, Message: message})
}

// adjust ends the newest jobs when they have held more than the node has for too long.
func (a *Agent) adjust(now time.Time) {
	held := a.held()
	tooLong := func(k resource.Kind, since *time.Time, patience time.Duration) bool {
		if held[k] <= a.limits[k] {
			*since = time.Time{}
			return false
		}
		if since.IsZero() {
			*since = now
		}
		return now.Sub(*since) > patience
	}
	memory := tooLong(resource.Memory, &a.overSince.memory, a.Rules.MemoryPatience)
	cpu := tooLong(resource.CPU, &a.overSince.cpu, a.Rules.CPUPatience)
	if !memory && !cpu {
		return
	}
	jobs := a.byStart()
	for i := len(jobs) - 1; i >= 0 && (held[resource.Memory] > a.limits[resource.Memory] || held[resource.CPU] > a.limits[resource.CPU]); i-- {
		if !jobs[i].ending {
			held = held.Sub(jobs[i].holds())
			a.overdraw(jobs[i], nil, "jobs hold more than the node has")
		}
	}
	a.overSince = overdrafts{}
}

// tellNode tells the scheduler how the node is, if that has changed enough to matter.
func (a *Agent) tellNode() {
	status := &nodev1.NodeStatus{
		Limits: nodeproto.ToAmounts(a.limits), Usage: nodeproto.ToAmounts(a.held()), Draining: a.draining,
		CgroupsUnavailable: a.Driver.Mode() == cgroup.ProcessLimits, Alerts: a.Alerts,
	}
	status.MemoryInUse, status.MemoryAvailable = machineMemory()
	status.LoadX100 = machineLoad()
	if a.status != nil && sameStatus(a.status, status) {
		return
	}
	a.status = status
	a.session.NodeChanged(status)
}

// sameStatus says whether two states differ in nothing but the noise of the machine.
func sameStatus(x, y *nodev1.NodeStatus) bool {
	const noise = 64 << 20
	close := func(a, b int64) bool { return max(a-b, b-a) < noise }
	if !close(x.MemoryInUse, y.MemoryInUse) || max(x.LoadX100-y.LoadX100, y.LoadX100-x.LoadX100) > 50 {
		return false
	}
	quiet := proto.CloneOf(y)
	quiet.MemoryInUse, quiet.MemoryAvailable, quiet.LoadX100 = x.MemoryInUse, x.MemoryAvailable, x.LoadX100
	return proto.Equal(x, quiet)
}

// machineMemory reads how much memory the machine uses and has left.
func machineMemory() (used, available int64) {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0
	}
	fields := map[string]int64{}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if kib, err := strconv.ParseInt(number, 10, 64); err == nil {
			fields[name] = kib << 10
		}
	}
	return fields["MemTotal"] - fields["MemAvailable"], fields["MemAvailable"]
}

// machineLoad reads the one-minute load average, in hundredths.
func machineLoad() int64 {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(data), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return int64(load * 100)
}
