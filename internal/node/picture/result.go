package picture

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/node/podfiles"
)

// Abort reasons that only Kubernetes gives; the names are those of package operation.
const (
	reasonPreemption   = "preemption"
	reasonOvercommit   = "node_resource_overcommit"
	reasonDisappeared  = "disappeared_from_node"
	reasonNodeOffline  = "node_offline"
	reasonWaiting      = "waiting_timeout"
	reasonDisabled     = "node_with_disabled_jobs"
	reasonNoImage      = "root_volume_preparation_failed"
	reasonInterruption = jobproxy.InterruptionTimeout
)

// figures are what the job's first process leaves in its termination message.
type figures struct {
	ExitCode   int   `json:"exit_code"`
	Signal     int   `json:"signal"`
	UserTime   int64 `json:"user_time_us"`
	SystemTime int64 `json:"system_time_us"`
	MaxMemory  int64 `json:"max_memory_bytes"`
	// MemoryExceeded is how much the job used when it was ended for that, and Processes the largest ones then.
	MemoryExceeded int64           `json:"memory_exceeded_bytes"`
	Processes      json.RawMessage `json:"processes"`
	// TimeLimitExceeded is set if the command was ended at job_time_limit.
	TimeLimitExceeded bool `json:"time_limit_exceeded"`
	// Unprepared is why the command did not start; Artifacts is what became of its files.
	Unprepared string         `json:"unprepared"`
	Artifacts  *podfiles.Kept `json:"artifacts"`
}

// stop is an order to end a job.
type stop struct {
	interrupt bool   // the job may end by itself; otherwise it is aborted
	fail      bool   // it fails instead of being aborted
	keeps     bool   // its files are of use: there may be another attempt
	reason    string // to report
	message   string
	grace     time.Duration
}

// containerOf returns the status of the job's container, nil if there is none.
func containerOf(pod *corev1.Pod) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == Container {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}

// startOf returns when the job's process started, zero if it has not.
func startOf(pod *corev1.Pod) time.Time {
	c := containerOf(pod)
	switch {
	case c == nil:
		return time.Time{}
	case c.State.Running != nil:
		return c.State.Running.StartedAt.Time
	case c.State.Terminated != nil:
		return c.State.Terminated.StartedAt.Time
	}
	return time.Time{}
}

// HasEnded reports whether the job of a pod has ended.
func HasEnded(pod *corev1.Pod) bool {
	c := containerOf(pod)
	return isOver(pod) || c != nil && c.State.Terminated != nil
}

// verdict is how a job ended.
type verdict struct {
	state  nodev1.JobState
	reason string
	err    *nodev1.Error
}

func failure(code int32, message string) *nodev1.Error {
	return &nodev1.Error{Code: code, Message: message}
}

func aborted(reason, message string) verdict {
	return verdict{nodev1.JobState_JOB_STATE_ABORTED, reason, failure(jobproxy.CodeGeneric, message)}
}

func failed(code int32, message string) verdict {
	return verdict{nodev1.JobState_JOB_STATE_FAILED, "", failure(code, message)}
}

// resultOf returns the result of a job whose pod is over, without its output. The pod's own word counts most: what the
// kubelet and the cluster did to it, then what the scheduler ordered, then how the command ended.
func resultOf(identity *nodev1.JobIdentity, spec *nodev1.JobSpec, pod *corev1.Pod, ordered *stop, now time.Time) *nodev1.JobResult {
	result := &nodev1.JobResult{
		Number: identity.GetNumber(), Identity: identity,
		Timings: &nodev1.Timings{AcceptedUs: nodeproto.ToMicros(pod.CreationTimestamp.Time), FinishedUs: nodeproto.ToMicros(now)},
	}
	var ended *corev1.ContainerStateTerminated
	if c := containerOf(pod); c != nil {
		ended = c.State.Terminated
	}
	var own *figures
	if ended != nil && !ended.StartedAt.IsZero() {
		result.Started = true
		result.Timings.ExecStartedUs, result.Timings.ExecFinishedUs = nodeproto.ToMicros(ended.StartedAt.Time), nodeproto.ToMicros(ended.FinishedAt.Time)
		own = readFigures(ended.Message)
		if own != nil {
			result.Started, result.Artifacts = own.Unprepared == "", keptOf(own.Artifacts)
		}
		result.Statistics = statisticsOf(ended, own, spec, identity)
	}
	v := verdictOf(spec, pod, ended, own, ordered)
	result.State, result.AbortReason, result.Error = v.state, v.reason, v.err
	if ended != nil {
		code, signal := int32(ended.ExitCode), int32(ended.Signal)
		if own != nil {
			code, signal = int32(own.ExitCode), int32(own.Signal)
		}
		if signal > 0 {
			result.Signal = &signal
		} else {
			result.ExitCode = &code
		}
	}
	return result
}

func readFigures(message string) *figures {
	f := &figures{}
	if err := json.Unmarshal([]byte(message), f); err != nil || !strings.Contains(message, "exit_code") {
		return nil
	}
	return f
}

// statisticsOf returns what the job used, in the order of paths.
func statisticsOf(ended *corev1.ContainerStateTerminated, own *figures, spec *nodev1.JobSpec, identity *nodev1.JobIdentity) (list []*nodev1.Statistic) {
	add := func(path string, v int64) {
		list = append(list, &nodev1.Statistic{Path: path, Sum: v, Count: 1, Min: v, Max: v, Last: v})
	}
	add("time/exec", ended.FinishedAt.Sub(ended.StartedAt.Time).Milliseconds())
	if own == nil {
		return list
	}
	add("user_job/cpu/system", own.SystemTime/1000)
	add("user_job/cpu/user", own.UserTime/1000)
	add("user_job/max_memory", own.MaxMemory)
	add("user_job/memory_limit", spec.GetMemoryLimit())
	add("user_job/memory_reserve", identity.GetReserve().GetUserJob())
	return list
}

// verdictOf judges how a job ended.
func verdictOf(spec *nodev1.JobSpec, pod *corev1.Pod, ended *corev1.ContainerStateTerminated, own *figures, ordered *stop) verdict {
	// A command that has completed has done its work, whatever happened to its pod afterwards.
	if own != nil && own.ExitCode == 0 && own.Signal == 0 && (ordered == nil || ordered.interrupt) {
		return verdict{state: nodev1.JobState_JOB_STATE_COMPLETED}
	}
	if v, decided := byCluster(pod, ended); decided {
		return v
	}
	if own != nil && own.Unprepared != "" {
		if ordered != nil && !ordered.fail {
			return aborted(cmp.Or(ordered.reason, jobproxy.OtherReason), ordered.message)
		}
		return aborted(jobproxy.OtherReason, own.Unprepared)
	}
	if own != nil && own.TimeLimitExceeded {
		return failed(jobproxy.CodeTimeLimitExceeded, "Job time limit exceeded")
	}
	if own != nil && own.MemoryExceeded > 0 {
		return memoryExceeded(spec, own)
	}
	if ended != nil && ended.Reason == "OOMKilled" {
		return failed(jobproxy.CodeMemoryLimitExceeded, fmt.Sprintf("Memory limit exceeded: the kernel ended the job at its limit of %d bytes", spec.GetMemoryLimit()))
	}
	if ordered != nil {
		if v, decided := byOrder(spec, own, ordered); decided {
			return v
		}
	}
	if ended == nil {
		return aborted(reasonDisappeared, "the pod ended without a word about its container: "+pod.Status.Message)
	}
	if ended.StartedAt.IsZero() {
		return aborted(jobproxy.ProxyFailed, "the container did not start: "+ended.Reason+" "+ended.Message)
	}
	if ordered == nil && pod.DeletionTimestamp != nil {
		return aborted(jobproxy.OtherReason, "the pod was deleted")
	}
	return byCommand(ended, own)
}

// memoryExceeded is the end of a job that its first process has ended above memory_limit.
func memoryExceeded(spec *nodev1.JobSpec, own *figures) verdict {
	v := failed(jobproxy.CodeUserJobFailed, "User job failed")
	inner := failure(jobproxy.CodeMemoryLimitExceeded, "Memory limit exceeded")
	inner.Attributes = []*nodev1.Attribute{
		{Name: "limit", Value: strconv.FormatInt(spec.GetMemoryLimit(), 10)}, {Name: "processes", Value: string(own.Processes)},
		{Name: "usage", Value: strconv.FormatInt(own.MemoryExceeded, 10)},
	}
	v.err.InnerErrors = []*nodev1.Error{inner}
	return v
}

// byCluster judges a pod that the kubelet or a part of the cluster has ended.
func byCluster(pod *corev1.Pod, ended *corev1.ContainerStateTerminated) (v verdict, decided bool) {
	reason, message := pod.Status.Reason, pod.Status.Message
	switch {
	case reason == "Evicted" && strings.Contains(message, "low on resource: memory"):
		if strings.Contains(message, "has larger consumption of memory") {
			return aborted(jobproxy.ResourceOverdraft, message), true
		}
		return aborted(reasonOvercommit, message), true
	case reason == "Evicted" && exceedsOwnDisk(message):
		return failed(jobproxy.CodeGeneric, "Disk limit exceeded: "+message), true
	case reason == "Evicted":
		return aborted(jobproxy.OtherReason, message), true
	case strings.HasPrefix(reason, "OutOf"):
		return aborted(reasonOvercommit, "the kubelet has no room for the pod: "+message), true
	case reason == "DeadlineExceeded":
		return failed(jobproxy.CodeTimeLimitExceeded, "Job time limit exceeded"), true
	case reason == "NodeLost", reason == "NodeShutdown", reason == "Terminated" && ended == nil:
		return aborted(reasonNodeOffline, message), true
	}
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.DisruptionTarget || c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Reason {
		case corev1.PodReasonPreemptionByScheduler:
			return aborted(reasonPreemption, "another scheduler preempted the pod: "+c.Message), true
		case "DeletionByTaintManager", "DeletionByPodGC":
			return aborted(reasonNodeOffline, c.Message), true
		}
		return aborted(jobproxy.OtherReason, c.Reason+": "+c.Message), true
	}
	if ended == nil && reason != "" {
		return aborted(jobproxy.OtherReason, "the kubelet refused the pod: "+reason+": "+message), true
	}
	for i := range pod.Status.InitContainerStatuses {
		if s := pod.Status.InitContainerStatuses[i].State.Terminated; s != nil && s.ExitCode != 0 {
			return aborted(jobproxy.ProxyFailed, fmt.Sprintf("the init container ended with code %d: %s", s.ExitCode, s.Message)), true
		}
	}
	return verdict{}, false
}

// exceedsOwnDisk reports whether a kubelet evicted a pod because its files take more than its own limits allow. The node
// had room, so the job would exceed them again.
func exceedsOwnDisk(message string) bool {
	for _, words := range []string{
		"Usage of EmptyDir volume", "Pod ephemeral local storage usage exceeds", "exceeded its local ephemeral storage limit",
	} {
		if strings.Contains(message, words) {
			return true
		}
	}
	return false
}

// byOrder judges a job that was asked to end.
func byOrder(spec *nodev1.JobSpec, own *figures, ordered *stop) (v verdict, decided bool) {
	switch {
	case ordered.fail:
		return failed(jobproxy.CodeGeneric, ordered.message), true
	case !ordered.interrupt:
		return aborted(ordered.reason, ordered.message), true
	case own == nil: // its first process was killed too: the grace period has passed
		reason := ordered.reason
		if reason == "" {
			reason = reasonInterruption
		}
		return aborted(reason, "the job did not end within the time that it was given"), true
	case stoppedAsAsked(spec, own):
		return verdict{state: nodev1.JobState_JOB_STATE_INTERRUPTED}, true
	}
	return verdict{}, false
}

// stoppedAsAsked reports whether an interrupted command ended because it was asked to, and should be restarted: with
// restart_exit_code, or by the signal that it was sent, which a shell reports as 128 plus its number.
func stoppedAsAsked(spec *nodev1.JobSpec, own *figures) bool {
	signal := signalNumber(spec.GetInterruption().GetSignal())
	if own.Signal != 0 {
		return own.Signal == signal
	}
	return own.ExitCode == 128+signal || spec.RestartExitCode != nil && own.ExitCode == int(spec.GetRestartExitCode())
}

// signalNumber returns the number of a signal by its name, with or without "SIG"; that of SIGTERM if the name is empty.
func signalNumber(name string) int {
	switch {
	case name == "":
		return int(unix.SIGTERM)
	case !strings.HasPrefix(name, "SIG"):
		name = "SIG" + name
	}
	return int(unix.SignalNum(name))
}

// byCommand judges a job by how its command ended.
func byCommand(ended *corev1.ContainerStateTerminated, own *figures) verdict {
	code, signal := int(ended.ExitCode), int(ended.Signal)
	if own != nil {
		code, signal = own.ExitCode, own.Signal
	}
	if code == 0 && signal == 0 {
		return verdict{state: nodev1.JobState_JOB_STATE_COMPLETED}
	}
	inner := failure(jobproxy.CodeExitCode, fmt.Sprintf("Process exited with code %d", code))
	if signal != 0 {
		inner = failure(jobproxy.CodeSignal, fmt.Sprintf("Process terminated by signal %d", signal))
	}
	v := failed(jobproxy.CodeUserJobFailed, "User job failed")
	v.err.InnerErrors = []*nodev1.Error{inner}
	return v
}

// notStarted is the result of a job that has no pod.
func notStarted(identity *nodev1.JobIdentity, reason, message string, now time.Time) *nodev1.JobResult {
	return &nodev1.JobResult{
		Number: identity.GetNumber(), Identity: identity, State: nodev1.JobState_JOB_STATE_ABORTED, AbortReason: reason,
		Error: failure(jobproxy.CodeNotPrepared, message), Timings: &nodev1.Timings{FinishedUs: nodeproto.ToMicros(now)},
	}
}

// refused is the result of a job that cannot have a pod, by its own fault.
func refused(identity *nodev1.JobIdentity, message string, now time.Time) *nodev1.JobResult {
	result := notStarted(identity, "", message, now)
	result.State = nodev1.JobState_JOB_STATE_FAILED
	return result
}

// hopeless returns why a pod whose container does not start never will, empty if it may.
func hopeless(pod *corev1.Pod) string {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			w := list[i].State.Waiting
			if w == nil {
				continue
			}
			switch w.Reason {
			case "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
				return fmt.Sprintf("container %s: %s: %s", list[i].Name, w.Reason, w.Message)
			}
		}
	}
	return ""
}
