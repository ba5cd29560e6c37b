package agent

import (
	"bufio"
	"bytes"
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/resource"
)

// overdrafts holds the times since when the jobs hold more memory or CPU than the node has; zero if they do not.
type overdrafts struct{ memory, cpu time.Time }

// held is the sum of what all jobs hold on the node. Queued jobs hold nothing yet.
func (a *Agent) held() (sum resource.Amounts) {
	for _, j := range a.jobs {
		if !j.queued {
			sum = sum.Add(j.holds())
		}
	}
	return sum
}

// room is what jobs may grow into: the offered resources plus the memory hidden from the scheduler.
func (a *Agent) room() resource.Amounts {
	room := a.limits
	room[resource.Memory] += a.Watermark
	return room
}

// stays is what jobs hold that are not being ended. The node counts the resources of ending jobs as free.
func (a *Agent) stays() (sum resource.Amounts) {
	for _, j := range a.jobs {
		if !j.queued && !j.ending {
			sum = sum.Add(j.holds())
		}
	}
	return sum
}

// byStart lists the running jobs that are not being ended, oldest first.
func (a *Agent) byStart() []*job {
	var list []*job
	for _, j := range a.jobs {
		if j.result == nil && !j.queued && !j.ending {
			list = append(list, j)
		}
	}
	slices.SortFunc(list, func(x, y *job) int {
		if x.identity.GetStartTimeUs() != y.identity.GetStartTimeUs() {
			return cmp.Compare(x.identity.GetStartTimeUs(), y.identity.GetStartTimeUs())
		}
		return cmp.Compare(x.number, y.number)
	})
	return list
}

// checkMemory ends a job if another job has grown and the node has no memory left. It chooses the job that grew if that
// job is above its reserve, else the oldest job above its reserve. It never ends a job within its reserve.
func (a *Agent) checkMemory(grown *job) {
	over := a.stays()[resource.Memory] - a.room()[resource.Memory]
	if over <= 0 || grown.ending {
		return
	}
	victim := grown
	if !isOverReserve(grown) {
		victim = nil
		if jobs := a.byStart(); slices.ContainsFunc(jobs, isOverReserve) {
			victim = jobs[slices.IndexFunc(jobs, isOverReserve)]
		}
	}
	if victim == nil {
		a.Log.Info("jobs have requested more memory than the node has, all within their reserves", "over", over)
		return
	}
	a.overdraw(victim, grown, "the node has no memory left for what the job uses above its reserve")
}

// isOverReserve reports whether a job uses more memory than the scheduler gave it.
func isOverReserve(j *job) bool { return j.uses() > j.given[resource.Memory] }

// overdraw ends a job for using more than its reserve.
func (a *Agent) overdraw(victim, cause *job, message string) {
	victim.ending = true
	a.Log.Warn("a job is ended for overdraft", "job", victim.identity.GetJobId(), "uses", victim.uses(), "reserve", victim.given[resource.Memory])
	if cause != nil && cause != victim {
		message += "; job " + cause.identity.GetJobId() + " requested more"
	}
	a.order(victim.number, jobproxy.Order{Command: jobproxy.Abort, Reason: jobproxy.ResourceOverdraft, Message: message})
}

// adjust ends jobs, newest first, if together they have held more than the node has for too long, until the rest fits.
// For memory, jobs above their reserves are ended first; a job within its reserve is ended only if the reserves alone
// do not fit, as after a restart with less memory. For CPU, reserves do not matter. Memory that a growing job requests
// ahead of its use does not count: no job is ended for it.
func (a *Agent) adjust(now time.Time) {
	jobs, room := a.byStart(), a.room()
	slices.Reverse(jobs)
	var taken resource.Amounts
	takes := func(j *job) resource.Amounts {
		amounts := j.holds()
		amounts[resource.Memory] = max(j.given[resource.Memory], j.uses())
		return amounts
	}
	for _, j := range jobs {
		taken = taken.Add(takes(j))
	}
	tooLong := func(k resource.Kind, since *time.Time, patience time.Duration) bool {
		if taken[k] <= room[k] {
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
	makeRoom := func(k resource.Kind, by func(*job) bool) {
		for _, j := range jobs {
			if taken[k] <= room[k] {
				return
			}
			if !j.ending && by(j) {
				taken = taken.Sub(takes(j))
				a.overdraw(j, nil, "jobs have taken more "+k.String()+" than the node has for too long")
			}
		}
	}
	anybody := func(*job) bool { return true }
	if memory {
		makeRoom(resource.Memory, isOverReserve)
		makeRoom(resource.Memory, anybody)
	}
	if cpu {
		makeRoom(resource.CPU, anybody)
	}
	a.overSince = overdrafts{}
}

// tellNode reports the state of the node to the scheduler if it has changed enough to matter.
func (a *Agent) tellNode() {
	limits := a.limits
	limits[resource.GPU] = a.gpuLimit()
	status := &nodev1.NodeStatus{
		Limits: nodeproto.ToAmounts(limits), Gpus: a.gpuMessages(), Usage: nodeproto.ToAmounts(a.held()), Draining: a.draining,
		CgroupsUnavailable: a.Driver.Mode() == cgroup.ProcessLimits, Alerts: slices.Concat(a.Alerts, a.health.alerts(), a.checkAlerts(), a.gpuAlerts(), a.imageAlerts()),
		Images: a.images.list,
	}
	if a.MoreAlerts != nil {
		status.Alerts = append(status.Alerts, a.MoreAlerts()...)
	}
	status.Draining = status.Draining || a.refusal() != ""
	status.MemoryInUse, status.MemoryAvailable = machineMemory()
	status.LoadX100 = machineLoad()
	if a.status != nil && sameStatus(a.status, status) {
		return
	}
	a.status = status
	a.session.NodeChanged(status)
}

// sameStatus reports whether two states differ only in the noise of the machine.
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

// machineMemory returns the memory that the machine uses and the memory that is available.
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
