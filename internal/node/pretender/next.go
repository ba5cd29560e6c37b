package pretender

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Script is what a pod would do if it ran.
type Script struct {
	Lasts time.Duration
	Code  int
}

// usualRun is how long a pod runs whose command does not show it.
const usualRun = 10 * time.Second

var (
	sleeps = regexp.MustCompile(`(?:^|[\s;&|])sleep\s+([0-9]+(?:\.[0-9]+)?)(?:$|[\s;&|])`)
	exits  = regexp.MustCompile(`(?:^|[\s;&|])exit\s+([0-9]+)(?:$|[\s;&|])`)
)

// ScriptOf reads a pod's command: "sleep 3" lasts three seconds, "exit 1" ends with code 1 at once, both do both. Any other
// command lasts ten seconds and ends well.
func ScriptOf(pod *corev1.Pod) Script {
	if len(pod.Spec.Containers) == 0 {
		return Script{Lasts: usualRun}
	}
	c := &pod.Spec.Containers[0]
	text := strings.Join(append(append([]string{}, c.Command...), c.Args...), " ")
	script := Script{Lasts: usualRun}
	if found := exits.FindStringSubmatch(text); found != nil {
		script.Lasts = 0
		script.Code, _ = strconv.Atoi(found[1]) // digits; too many of them mean 0
	}
	if found := sleeps.FindStringSubmatch(text); found != nil {
		seconds, _ := strconv.ParseFloat(found[1], 64) // a number by its pattern
		script.Lasts = time.Duration(min(seconds, maxSeconds) * float64(time.Second))
	}
	return script
}

// maxSeconds is longer than anything runs, and fits a duration.
const maxSeconds = 1e9

// Step is what a kubelet does with a pod.
type Step struct {
	// Status, if set, is the pod's next status.
	Status *corev1.PodStatus
	// Remove reports that the pod's processes have ended and nothing holds the object any more.
	Remove bool
	// After is how long to wait until there is something to do; zero if only a change of the pod brings it.
	After time.Duration
}

// Next returns what a kubelet does with a pod on its node.
func Next(pod *corev1.Pod, script Script, now time.Time) Step {
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	deleted := pod.DeletionTimestamp != nil
	switch {
	case pod.Spec.NodeName == "" || len(pod.Spec.Containers) == 0:
		return Step{}
	case over:
		return Step{Remove: deleted && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds > 0}
	case deleted:
		return Step{Status: ended(pod, 143, 15, now)}
	case pod.Status.Phase != corev1.PodRunning:
		return Step{Status: begun(pod, now)}
	}
	if left := startedAt(pod, now).Add(script.Lasts).Sub(now); left > 0 {
		return Step{After: left}
	}
	return Step{Status: ended(pod, script.Code, 0, now)}
}

func startedAt(pod *corev1.Pod, now time.Time) time.Time {
	if list := pod.Status.ContainerStatuses; len(list) > 0 && list[0].State.Running != nil {
		return list[0].State.Running.StartedAt.Time
	}
	return now
}

func begun(pod *corev1.Pod, now time.Time) *corev1.PodStatus {
	status := pod.Status.DeepCopy()
	start := metav1.NewTime(now)
	status.Phase, status.StartTime = corev1.PodRunning, &start
	status.Conditions = withCondition(status.Conditions, corev1.PodReady, corev1.ConditionTrue, start)
	status.ContainerStatuses = nil
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: start}},
		})
	}
	return status
}

// ended is the status of a pod whose first container has ended this way; the termination message is that of weir-init.
func ended(pod *corev1.Pod, code, signal int, now time.Time) *corev1.PodStatus {
	status := pod.Status.DeepCopy()
	started, finished := metav1.NewTime(startedAt(pod, now)), metav1.NewTime(now)
	status.Phase = corev1.PodSucceeded
	if code != 0 {
		status.Phase = corev1.PodFailed
	}
	status.Conditions = withCondition(status.Conditions, corev1.PodReady, corev1.ConditionFalse, finished)
	status.ContainerStatuses = nil
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{
				ExitCode: int32(code), StartedAt: started, FinishedAt: finished,
				Message: fmt.Sprintf(`{"exit_code": %d, "signal": %d, "user_time_us": 1000, "max_memory_bytes": 1048576}`, code, signal),
			},
		}})
	}
	return status
}

// withCondition returns the conditions with one of them set.
func withCondition(list []corev1.PodCondition, kind corev1.PodConditionType, value corev1.ConditionStatus, now metav1.Time) []corev1.PodCondition {
	next := corev1.PodCondition{Type: kind, Status: value, LastTransitionTime: now}
	for i := range list {
		if list[i].Type == kind {
			list[i] = next
			return list
		}
	}
	return append(list, next)
}
