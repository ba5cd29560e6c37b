package workload

import corev1 "k8s.io/api/core/v1"

// Prefix begins the names of Weir's labels, annotations and finalizers.
const Prefix = "weir.dev/"

// Scheduler is the spec.schedulerName of pods that Weir schedules.
const Scheduler = "weir"

// Labels and annotations by which users choose.
const (
	LabelPool  = Prefix + "pool"
	LabelTree  = Prefix + "tree"
	LabelGroup = Prefix + "group"
	// LabelPodGroup is that of the scheduler-plugins.
	LabelPodGroup      = "scheduling.x-k8s.io/pod-group"
	AnnotationWeight   = Prefix + "weight"
	AnnotationGangSize = Prefix + "gang-size"
)

// Groups of the API whose PodGroups count.
const (
	CoreGroups    = "scheduling.k8s.io"
	PluginsGroups = "scheduling.x-k8s.io"
)

// Reasons of the condition PodScheduled. Autoscalers act on Unschedulable alone: a new node would help.
const (
	ReasonUnschedulable  = corev1.PodReasonUnschedulable
	ReasonPoolLimit      = "WeirPoolLimit"
	ReasonOperationLimit = "WeirOperationLimit"
	ReasonFairShare      = "WeirFairShare"
	ReasonGang           = "WeirGang"
	ReasonPreempting     = "WeirPreempting"
	ReasonPoolDenied     = "WeirPoolDenied"
	ReasonUnsupported    = "WeirUnsupported"
	ReasonBindRejected   = "WeirBindRejected"
	ReasonSchedulerError = corev1.PodReasonSchedulerError
)

// PriorityOfSystem is the least priority of pods that are never victims.
const PriorityOfSystem = 2_000_000_000

// IsOurs reports whether Weir schedules a pod.
func IsOurs(pod *corev1.Pod) bool { return pod.Spec.SchedulerName == Scheduler }

// IsOver reports whether a pod has ended: it takes nothing on its node any more.
func IsOver(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Waits reports whether a pod is to be scheduled now.
func Waits(pod *corev1.Pod) bool {
	return IsOurs(pod) && pod.Spec.NodeName == "" && len(pod.Spec.SchedulingGates) == 0 && pod.DeletionTimestamp == nil && !IsOver(pod)
}

// Priority returns the priority of a pod.
func Priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// Problem is why a pod cannot be offered as it is. It is shown in the pod's condition.
type Problem struct {
	Reason  string
	Message string
}

// Error returns the message.
func (p *Problem) Error() string { return p.Message }

func unsupported(message string) *Problem { return &Problem{ReasonUnsupported, message} }
