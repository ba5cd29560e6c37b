package workload

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"

	"github.com/weirhq/weir/internal/value/resource"
)

// Port is a port of a node that a pod takes.
type Port struct {
	Address  string // empty: all
	Protocol corev1.Protocol
	Number   int32
}

// Constraints are what a pod demands of a node beside room. Pods with the same key demand the same.
type Constraints struct {
	Key string
	// Extras, Ports and Claims depend on other pods: which of them a node has left changes with every start. Claims are
	// volumes that one pod at a time may use.
	Extras []Extra
	Ports  []Port
	Claims []string

	namespace   string
	selector    map[string]string // of the affinity
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
	gpus        []corev1.ResourceName
	volumes     []*corev1.PersistentVolume
	relations
}

// IsDynamic reports whether a start of one pod may change where the next one can run.
func (c *Constraints) IsDynamic() bool { return c.Takes() || !c.relations.isEmpty() }

// Takes reports whether the pods take things of a node that are not shared out.
func (c *Constraints) Takes() bool { return len(c.Extras)+len(c.Ports)+len(c.Claims) > 0 }

// IsRelated reports whether other pods on other nodes decide where these may run.
func (c *Constraints) IsRelated() bool { return !c.relations.isEmpty() || len(c.repelled) > 0 }

// Repelled returns the keys of the terms by which other pods keep these away, as they were when the constraints were read.
func (c *Constraints) Repelled() []string { return c.repelled }

// Storage is what is known about volumes. Both functions return nil for what does not exist.
type Storage struct {
	Claim  func(namespace, name string) *corev1.PersistentVolumeClaim
	Volume func(name string) *corev1.PersistentVolume
}

// ConstraintsOf returns what a pod demands. problem is set if it demands what Weir does not support.
func ConstraintsOf(pod *corev1.Pod, gpus []string, storage *Storage, around *Neighbours) (*Constraints, *Problem) {
	if path := Unsupported(pod); path != "" {
		return nil, unsupported(path + " is not supported")
	}
	c := &Constraints{
		namespace: pod.Namespace, selector: pod.Spec.NodeSelector, affinity: nodeaffinity.GetRequiredNodeAffinity(pod), tolerations: pod.Spec.Tolerations, gpus: gpusOf(pod, gpus),
		Extras: Extras(pod, gpus), Ports: PortsOf(pod),
	}
	if len(c.gpus) > 1 {
		return nil, unsupported(fmt.Sprintf("spec.containers[*].resources: a pod can ask for one kind of GPU, not for %v", c.gpus))
	}
	if problem := c.readVolumes(pod, storage); problem != nil {
		return nil, problem
	}
	if problem := c.readRelations(pod, around); problem != nil {
		return nil, problem
	}
	var required *corev1.NodeSelector
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		required = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	names := make([]string, len(c.volumes))
	for i, v := range c.volumes {
		names[i] = v.Name
	}
	c.Key = hash(pod.Spec.NodeSelector, required, c.tolerations, c.gpus, c.Extras, c.Ports, c.Claims, names, c.relations.key(pod.Namespace))
	return c, nil
}

// hash returns a short name of values.
func hash(values ...any) string {
	text, err := json.Marshal(values) // maps are written in the order of their keys
	if err != nil {
		return fmt.Sprint(err) // types of Kubernetes can be written
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// TaskOf returns the name of the task of pods that are alike for the scheduler.
func TaskOf(amounts resource.Amounts, c *Constraints, priority int32) string {
	return "pods-" + hash(amounts, c.Key, priority)
}

// Unsupported returns the path of the first field of a pod that Weir does not support, empty if there is none.
func Unsupported(pod *corev1.Pod) string {
	if len(pod.Spec.ResourceClaims) > 0 {
		return "spec.resourceClaims"
	}
	return ""
}

// readVolumes finds the volumes of a pod's claims.
func (c *Constraints) readVolumes(pod *corev1.Pod, storage *Storage) *Problem {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		name, path := "", ""
		switch {
		case v.PersistentVolumeClaim != nil:
			name, path = v.PersistentVolumeClaim.ClaimName, fmt.Sprintf("spec.volumes[%d].persistentVolumeClaim", i)
		case v.Ephemeral != nil:
			name, path = pod.Name+"-"+v.Name, fmt.Sprintf("spec.volumes[%d].ephemeral", i)
		default:
			continue
		}
		claim := storage.Claim(pod.Namespace, name)
		if claim == nil {
			return unsupported(fmt.Sprintf("%s: the claim %s does not exist", path, name))
		}
		if claim.Spec.VolumeName == "" || claim.Status.Phase != corev1.ClaimBound {
			return unsupported(fmt.Sprintf("%s: the claim %s is not bound to a volume, and claims that wait for their first consumer are not supported", path, name))
		}
		bound := storage.Volume(claim.Spec.VolumeName)
		if bound == nil {
			return unsupported(fmt.Sprintf("%s: the volume %s of claim %s does not exist", path, claim.Spec.VolumeName, name))
		}
		c.volumes = append(c.volumes, bound)
		if slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
			c.Claims = append(c.Claims, pod.Namespace+"/"+name)
		}
	}
	slices.Sort(c.Claims)
	slices.SortFunc(c.volumes, func(a, b *corev1.PersistentVolume) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

// ClaimsOf returns the claims that a pod uses, as NAMESPACE/NAME, sorted.
func ClaimsOf(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.Volumes {
		if source := pod.Spec.Volumes[i].PersistentVolumeClaim; source != nil {
			names = append(names, pod.Namespace+"/"+source.ClaimName)
		}
	}
	slices.Sort(names)
	return names
}

// PortsOf returns the ports of its node that a pod takes, sorted.
func PortsOf(pod *corev1.Pod) (ports []Port) {
	for i := range pod.Spec.Containers {
		for _, p := range pod.Spec.Containers[i].Ports {
			if p.HostPort <= 0 {
				continue
			}
			address := p.HostIP
			if address == "0.0.0.0" || address == "::" {
				address = ""
			}
			ports = append(ports, Port{address, cmp.Or(p.Protocol, corev1.ProtocolTCP), p.HostPort})
		}
	}
	slices.SortFunc(ports, func(a, b Port) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Address, b.Address))
	})
	return slices.Compact(ports)
}

// conflicts reports whether two pods cannot have these ports on one node.
func (p Port) conflicts(other Port) bool {
	return p.Number == other.Number && p.Protocol == other.Protocol && (p.Address == other.Address || p.Address == "" || other.Address == "")
}

// Cause is the kind of reason for which a node does not take a pod. Causes are words of users of Kubernetes.
type Cause string

// Causes.
const (
	CauseAffinity Cause = "didn't match the pod's node selector or node affinity"
	CauseTaint    Cause = "had a taint that the pod doesn't tolerate"
	CauseGPU      Cause = "didn't have the pod's kind of GPU"
	CauseVolume   Cause = "didn't match the node affinity of the pod's volumes"
	CauseExtras   Cause = "had too little of an extended resource"
	CausePorts    Cause = "didn't have free ports for the pod"
	CauseClaims   Cause = "had a ReadWriteOncePod volume in use"
	CauseNear     Cause = "didn't match the pod's affinity rules"
	CauseAway     Cause = "didn't match the pod's anti-affinity rules"
	CauseRepelled Cause = "didn't satisfy the anti-affinity rules of other pods"
	CauseSpread   Cause = "didn't match the pod's topology spread constraints"
	CauseNoDomain Cause = "didn't have a label of the pod's topology spread constraints"
	CauseNoRoom   Cause = "had no room in time"
)

// Refusal is why a node does not take a pod: the zero value if it does. Detail has names and amounts that the pod demands.
type Refusal struct {
	Cause  Cause
	Detail string
}

// String returns the words that are shown.
func (r Refusal) String() string {
	if r.Detail == "" {
		return string(r.Cause)
	}
	return string(r.Cause) + " (" + r.Detail + ")"
}

// Permits returns why a node can never take the pods as it is now.
func (c *Constraints) Permits(node *corev1.Node) Refusal {
	for _, key := range slices.Sorted(maps.Keys(c.selector)) {
		if node.Labels[key] != c.selector[key] {
			return Refusal{CauseAffinity, key + "=" + c.selector[key]}
		}
	}
	if match, err := c.affinity.Match(node); !match || err != nil {
		return Refusal{CauseAffinity, "spec.affinity.nodeAffinity"}
	}
	if t, found := scheduling.FindMatchingUntoleratedTaint(klog.Logger{}, node.Spec.Taints, c.tolerations, forbids, false); found {
		return Refusal{CauseTaint, t.ToString()}
	}
	for _, name := range c.gpus {
		if q := node.Status.Allocatable[name]; q.IsZero() {
			return Refusal{CauseGPU, string(name)}
		}
	}
	for _, v := range c.volumes {
		if volume.CheckNodeAffinity(v, node.Labels) != nil {
			return Refusal{CauseVolume, v.Name}
		}
	}
	return Refusal{}
}

// forbids reports whether a taint keeps pods away. Those of the node's condition are obstacles of the node itself.
func forbids(t *corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
}

// Taken is what the pods of a node have taken of things that are not shared out.
type Taken struct {
	Extras map[corev1.ResourceName]int64
	Ports  []Port
	Claims []string
}

// Add adds a pod.
func (t *Taken) Add(pod *corev1.Pod, gpus []string) {
	for _, e := range Extras(pod, gpus) {
		if t.Extras == nil {
			t.Extras = map[corev1.ResourceName]int64{}
		}
		t.Extras[e.Name] += e.Amount
	}
	t.Ports = append(t.Ports, PortsOf(pod)...)
	t.Claims = append(t.Claims, ClaimsOf(pod)...)
}

// Fits returns why a node has no place for one more pod beside what others have taken.
func (c *Constraints) Fits(node *corev1.Node, taken *Taken) Refusal {
	for _, e := range c.Extras {
		q := node.Status.Allocatable[e.Name]
		if Clamp(q.Value())-taken.Extras[e.Name] < e.Amount {
			return Refusal{CauseExtras, fmt.Sprintf("%s: %d wanted", e.Name, e.Amount)}
		}
	}
	for _, port := range c.Ports {
		if slices.ContainsFunc(taken.Ports, port.conflicts) {
			return Refusal{CausePorts, fmt.Sprintf("%d/%s", port.Number, port.Protocol)}
		}
	}
	for _, claim := range c.Claims {
		if slices.Contains(taken.Claims, claim) {
			return Refusal{CauseClaims, claim}
		}
	}
	return Refusal{}
}
