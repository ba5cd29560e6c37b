package workload

import (
	"fmt"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Owner is the metadata of an object that owns pods, directly or not.
type Owner struct {
	Kind, Name          string
	UID                 types.UID
	Labels, Annotations map[string]string
	Controller          *metav1.OwnerReference // nil if nothing owns it
}

// PodGroup is what counts of a PodGroup.
type PodGroup struct {
	// MinMember is how many pods start together; less than two: none must.
	MinMember int
	// Whole reports that the disruption mode is the group: all pods leave with one.
	Whole               bool
	Labels, Annotations map[string]string
	// Unsupported is the path of a field that Weir does not support, empty if there is none.
	Unsupported string

	UID types.UID
	// Scheduled reports that its condition states that it is scheduled; Reason is that of a condition that states the opposite.
	Scheduled bool
	Reason    string
}

// Around is what is known beside a pod.
type Around struct {
	// Owner returns an owner. known is false if it has not been read yet; an owner that cannot be read is nil.
	Owner func(namespace string, ref *metav1.OwnerReference) (owner *Owner, known bool)
	// Namespace returns the labels of a namespace. known is false if it has not been read yet.
	Namespace func(name string) (labels map[string]string, known bool)
	// PodGroup returns a PodGroup of an API group, nil if there is none.
	PodGroup func(group, namespace, name string) *PodGroup
}

// Place is where a pod belongs. Pods with equal places are of one operation.
type Place struct {
	Namespace, Kind, Name string
	// Tree is empty for the default tree. Given reports that somebody chose the pool: it must exist then.
	Tree, Pool string
	Given      bool
	// Weight is zero if nothing sets it.
	Weight float64
	// GangSize is how many pods start together; zero: none must.
	GangSize  int
	GangWhole bool
	// FreeRoomOnly reports that nothing is preempted for the pods.
	FreeRoomOnly bool
}

// KindPods and NamePods are those of the operation of pods without an owner.
const (
	KindPods = "Pod"
	NamePods = "pods"
)

// User is the user of operations of a namespace.
func User(namespace string) string { return "namespace:" + namespace }

// Alias returns the name of the operation. Of several that share an owner, those after the first have a number.
func (p *Place) Alias(number int) string {
	alias := "*" + p.Namespace + "/" + p.Kind + "/" + p.Name
	if number > 1 {
		alias += "~" + strconv.Itoa(number)
	}
	return alias
}

// maxOwners bounds a chain of owners, which may be a cycle.
const maxOwners = 10

// PlaceOf returns where a pod belongs. known is false while something must be read first; Around has been asked for it
// then. problem is set if the pod cannot be placed.
func PlaceOf(pod *corev1.Pod, around *Around) (place Place, known bool, problem *Problem) {
	place.Namespace = pod.Namespace
	namespace, known := around.Namespace(pod.Namespace)
	if !known {
		return place, false, nil
	}
	top, known := topOwner(pod, around)
	if !known {
		return place, false, nil
	}
	group, problem := groupOf(pod, around, &place)
	if problem != nil {
		return place, true, problem
	}
	if place.Kind == "" && top != nil {
		place.Kind, place.Name = top.Kind, top.Name
	} else if place.Kind == "" {
		place.Kind, place.Name = KindPods, NamePods
	}
	if group == nil {
		group = &PodGroup{}
	}
	if top == nil {
		top = &Owner{}
	}
	chain := []map[string]string{pod.Labels, top.Labels, group.Labels, namespace}
	place.Pool, place.Given = first(LabelPool, chain)
	place.Tree, _ = first(LabelTree, chain)
	if !place.Given {
		place.Pool = pod.Namespace
	}
	notes := []map[string]string{group.Annotations, top.Annotations, pod.Annotations}
	if place.Weight, problem = weightOf(notes); problem != nil {
		return place, true, problem
	}
	if place.GangSize < 2 {
		if place.GangSize, problem = gangSizeOf(notes); problem != nil {
			return place, true, problem
		}
	}
	if policy := pod.Spec.PreemptionPolicy; policy != nil && *policy == corev1.PreemptNever {
		place.FreeRoomOnly = true
	}
	return place, true, nil
}

// groupOf returns the PodGroup of a pod, nil if it has none, and sets the operation if the pod names its group.
func groupOf(pod *corev1.Pod, around *Around, place *Place) (*PodGroup, *Problem) {
	api, name := "", ""
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		api, name = CoreGroups, *g.PodGroupName
	} else if label := pod.Labels[LabelGroup]; label != "" {
		place.Kind, place.Name = "Group", label
		return nil, nil
	} else if label := pod.Labels[LabelPodGroup]; label != "" {
		api, name = PluginsGroups, label
	}
	if name == "" {
		return nil, nil
	}
	place.Kind, place.Name = "PodGroup", name
	group := around.PodGroup(api, pod.Namespace, name)
	if group == nil {
		return nil, &Problem{ReasonGang, fmt.Sprintf("the PodGroup %s (%s) does not exist", name, api)}
	}
	if group.Unsupported != "" {
		return nil, unsupported(fmt.Sprintf("%s of PodGroup %s is not supported", group.Unsupported, name))
	}
	if group.MinMember > 1 {
		place.GangSize, place.GangWhole = group.MinMember, group.Whole
	}
	return group, nil
}

// topOwner follows the controllers of a pod upwards. It returns nil for a pod that nothing owns. A Job that a CronJob has
// made is the top: each run is an operation. Where an owner cannot be read, the chain ends.
func topOwner(pod *corev1.Pod, around *Around) (top *Owner, known bool) {
	ref := metav1.GetControllerOf(pod)
	for range maxOwners {
		if ref == nil {
			return top, true
		}
		owner, known := around.Owner(pod.Namespace, ref)
		if !known {
			return nil, false
		}
		if owner == nil {
			return &Owner{Kind: ref.Kind, Name: ref.Name, UID: ref.UID}, true
		}
		top, ref = owner, owner.Controller
		if top.Kind == "Job" && ref != nil && ref.Kind == "CronJob" {
			return top, true
		}
	}
	return top, true
}

// first returns the value of a key in the first map that has it.
func first(key string, maps []map[string]string) (value string, found bool) {
	for _, m := range maps {
		if v := m[key]; v != "" {
			return v, true
		}
	}
	return "", false
}

// mostWeight bounds the weights that users may set.
const mostWeight = 1e6

func weightOf(notes []map[string]string) (float64, *Problem) {
	text, given := first(AnnotationWeight, notes)
	if !given {
		return 0, nil
	}
	weight, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(weight) || weight <= 0 || weight > mostWeight {
		return 0, unsupported(fmt.Sprintf("metadata.annotations[%s]: %q is not a number above 0 and up to %g", AnnotationWeight, text, mostWeight))
	}
	return weight, nil
}

// maxGang bounds how many pods start together.
const maxGang = 100_000

func gangSizeOf(notes []map[string]string) (int, *Problem) {
	text, given := first(AnnotationGangSize, notes)
	if !given {
		return 0, nil
	}
	size, err := strconv.Atoi(text)
	if err != nil || size < 1 || size > maxGang {
		return 0, unsupported(fmt.Sprintf("metadata.annotations[%s]: %q is not a whole number from 1 to %d", AnnotationGangSize, text, maxGang))
	}
	if size == 1 {
		return 0, nil
	}
	return size, nil
}

// FIFOWeight is the weight of an operation in a FIFO pool, where weight is order: it grows with the priority, for every
// priority, within the bounds of weights.
func FIFOWeight(priority int32) float64 { return 33_554_432 + float64(priority)/128 }
