package picture

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/cpumonitor"
	"github.com/weirhq/weir/internal/value/resource"
)

const (
	// measurePeriod is how often the kubelets of nodes with jobs are asked for figures.
	measurePeriod = 10 * time.Second
	// leastWatermark is how much memory a node should have left; nodes with much memory should have watermarkPercent of it.
	leastWatermark   = 512 << 20
	watermarkPercent = 2
	// lowerPause is the least time between two reductions of a pod's CPU; smaller ones than leastLower, or than a tenth, are
	// not worth a write.
	lowerPause = 30 * time.Second
	leastLower = 10 // hundredths of a core
)

// Measure asks for the figures of a node's kubelet.
type Measure struct {
	Node    string
	Address string // host and port
}

// Summary is what a kubelet says about its node and pods; the names are those of /stats/summary.
type Summary struct {
	Node struct {
		Memory MemoryFigures `json:"memory"`
	} `json:"node"`
	Pods []PodFigures `json:"pods"`
}

// PodFigures are those of one pod.
type PodFigures struct {
	PodRef struct {
		UID types.UID `json:"uid"`
	} `json:"podRef"`
	Containers []ContainerFigures `json:"containers"`
}

// ContainerFigures are those of one container.
type ContainerFigures struct {
	Name string `json:"name"`
	CPU  struct {
		Time  time.Time `json:"time"`
		Total *int64    `json:"usageCoreNanoSeconds"` // since the container began
	} `json:"cpu"`
	Memory MemoryFigures `json:"memory"`
}

// MemoryFigures are amounts of memory in bytes; nil if they are not known.
type MemoryFigures struct {
	Available  *int64 `json:"availableBytes"`
	WorkingSet *int64 `json:"workingSetBytes"`
}

// usage is what is known of the use of a running job.
type usage struct {
	at      time.Time // of the last figures
	memory  int64
	grown   int64 // since the figures before
	monitor *cpumonitor.Monitor
	lowered time.Time
	fixed   bool  // the node or the API server does not resize the pod
	applied int64 // hundredths of a core that the pod was last given; zero: what it began with
	resize  int64 // hundredths that it is to be given; zero: no change
}

// addressOf returns where the kubelet of a node listens, empty if that is not known.
func addressOf(node *corev1.Node) string {
	port := node.Status.DaemonEndpoints.KubeletEndpoint.Port
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeHostName, corev1.NodeExternalIP} {
		for _, a := range node.Status.Addresses {
			if a.Type == kind && port > 0 {
				host := a.Address
				if strings.Contains(host, ":") {
					host = "[" + host + "]"
				}
				return host + ":" + strconv.Itoa(int(port))
			}
		}
	}
	return ""
}

// measure asks for the figures of nodes with running jobs, when it is time.
func (p *Picture) measure(now time.Time, n *node) {
	if p.blind || n.object == nil || !isReady(n.object) || now.Before(n.measuredAt.Add(measurePeriod)) {
		return
	}
	runs := slices.ContainsFunc(n.session.Jobs(), func(number uint64) bool {
		j := p.jobs[number]
		return j != nil && j.phase == placed && !startOf(j.pod).IsZero()
	})
	if !runs {
		n.unmeasured = time.Time{}
	}
	if address := addressOf(n.object); runs && address != "" {
		n.measuredAt = now
		if n.unmeasured.IsZero() {
			n.unmeasured = now
		}
		p.effects.Measures = append(p.effects.Measures, Measure{n.name, address})
	}
}

// Measured takes in the figures of a node.
func (p *Picture) Measured(now time.Time, name string, s *Summary) {
	n := p.nodes[name]
	if n == nil || n.session == nil {
		return
	}
	n.memory, n.unmeasured = s.Node.Memory, now
	for i := range s.Pods {
		j := p.uids[s.Pods[i].PodRef.UID]
		if j == nil || j.node != n || j.phase != placed || j.guest != nil { // pods of others are counted by their requests
			continue
		}
		for k := range s.Pods[i].Containers {
			if c := &s.Pods[i].Containers[k]; c.Name == Container {
				p.used(now, j, c)
			}
		}
	}
	p.changed(n)
	p.checkMemory(now, n)
}

// used takes in the figures of a job.
func (p *Picture) used(now time.Time, j *job, c *ContainerFigures) {
	u := &j.usage
	if set := c.Memory.WorkingSet; set != nil {
		u.grown, u.memory, u.at = *set-u.memory, *set, now
	}
	if total := c.CPU.Total; total != nil && !c.CPU.Time.IsZero() {
		p.monitor(now, j, c.CPU.Time, time.Duration(*total))
	}
	if j.node.session.JobChanged(p.statusOf(j, false)) {
		p.hot[j.node.name] = true
	}
}

// monitorOf returns the CPU monitor of a job, nil if it has none. Its limit moves in small steps by itself; a pod follows when
// it is worth a write.
func monitorOf(spec *nodev1.JobSpec) *cpumonitor.Monitor {
	m := spec.GetCpuMonitor()
	if m == nil || !m.GetEnableCpuReclaim() || spec.GetCpuLimit() <= 0 {
		return nil
	}
	monitor, err := cpumonitor.New(cpumonitor.Options{
		CheckPeriod: max(nodeproto.Duration(m.GetCheckPeriodUs()), measurePeriod), StartDelay: nodeproto.Duration(m.GetStartDelayUs()),
		SmoothingFactor: m.GetSmoothingFactor(), RelativeUpperBound: m.GetRelativeUpperBound(), RelativeLowerBound: m.GetRelativeLowerBound(),
		IncreaseCoefficient: m.GetIncreaseCoefficient(), DecreaseCoefficient: m.GetDecreaseCoefficient(),
		VoteWindowSize: int(m.GetVoteWindowSize()), VoteDecisionThreshold: int(m.GetVoteDecisionThreshold()), MinCPULimit: m.GetMinCpuLimit(),
	}, float64(spec.GetCpuLimit())/100)
	if err != nil {
		return nil // the scheduler has checked the options
	}
	return monitor
}

// monitor lets a job's CPU monitor vote, and orders the change that it decides on.
func (p *Picture) monitor(now time.Time, j *job, at time.Time, total time.Duration) {
	u := &j.usage
	if u.fixed || j.ordered != nil || j.isTerminating() {
		return
	}
	if u.monitor == nil {
		if u.monitor = monitorOf(j.spec); u.monitor == nil {
			u.fixed = true
			return
		}
	}
	if at.Before(u.monitor.FirstCheck(startOf(j.pod))) || u.resize > 0 {
		return
	}
	u.monitor.Observe(at, total)
	current, want := cmp.Or(u.applied, j.spec.GetCpuLimit()), max(1, int64(math.Round(u.monitor.Limit()*100)))
	drop := current - want
	if drop == 0 || drop > 0 && (drop < leastLower || drop*10 < current || now.Before(u.lowered.Add(lowerPause))) {
		return
	}
	if u.resize = want; drop > 0 {
		u.lowered = now
	}
	p.look(now, j)
}

// ResizePatch returns what changes the CPU, in hundredths of a core, that a running pod requests.
func ResizePatch(uid types.UID, cpu int64) []byte {
	return fmt.Appendf(nil, `{"metadata": {"uid": %q}, "spec": {"containers": [{"name": %q, "resources": {"requests": {"cpu": "%dm"}}}]}}`, uid, Container, cpu*10)
}

// resized processes the answer to a change of a pod's CPU.
func (p *Picture) resized(j *job, outcome *Outcome) {
	u := &j.usage
	wanted := u.resize
	u.resize = 0
	switch outcome.Kind {
	case Done:
		u.applied = wanted
	case Refused:
		u.fixed = true
		p.note("the CPU of pod %s/%s stays as it is: %s", j.pod.Namespace, j.pod.Name, outcome.Message)
	}
}

// infeasible reports whether the node of a pod has said that it will never resize it.
func infeasible(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodResizePending && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonInfeasible
	})
}

// cpuOf is what a job takes of the CPU: what it was given, or less after a reduction that its node has carried out.
func (p *Picture) cpuOf(j *job) int64 {
	given := j.identity.GetResources().GetCpu()
	if !j.exists || j.usage.monitor == nil {
		return given
	}
	return min(given, p.options.requested(j.pod)[resource.CPU])
}

// checkMemory ends a job that uses more than its reserve on a node that is almost out of memory: the one that has grown
// most, else the oldest. There is one for each reading.
func (p *Picture) checkMemory(now time.Time, n *node) {
	available, capacity := n.memory.Available, n.object
	if available == nil || capacity == nil || p.blind {
		return
	}
	watermark := max(leastWatermark, capacity.Status.Capacity.Memory().Value()/100*watermarkPercent)
	if *available >= watermark {
		return
	}
	var victim *job
	for _, number := range slices.Sorted(slices.Values(n.session.Jobs())) { // numbers grow with time
		j := p.jobs[number]
		if j == nil || j.phase != placed || j.ordered != nil || j.usage.at != now || j.usage.memory <= j.identity.GetResources().GetMemory() {
			continue
		}
		if victim == nil || max(j.usage.grown, 0) > max(victim.usage.grown, 0) {
			victim = j
		}
	}
	if victim == nil {
		return
	}
	p.stop(now, victim.number, &stop{
		keeps: true, reason: jobproxy.ResourceOverdraft, grace: abortGrace,
		message: fmt.Sprintf("the node has %d bytes of memory left, and the job uses %d above its reserve", *available, victim.usage.memory-victim.identity.GetResources().GetMemory()),
	})
}

// holds is what a job takes on its node. A pod of others takes what it requests.
func (p *Picture) holds(j *job) resource.Amounts {
	amounts := nodeproto.FromAmounts(j.identity.GetResources())
	if j.guest != nil {
		return amounts
	}
	amounts[resource.CPU] = p.cpuOf(j)
	if !j.usage.at.IsZero() {
		amounts[resource.Memory] = max(amounts[resource.Memory], j.usage.memory)
	}
	return amounts
}

// memoryOf returns the memory of a node in use and left, as last measured, zeros if that is not known.
func (n *node) memoryOf() (inUse, available int64) {
	if n.memory.WorkingSet == nil || n.memory.Available == nil {
		return 0, 0
	}
	return *n.memory.WorkingSet, *n.memory.Available
}
