package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirhq/weir/internal/node/workload"
	"github.com/weirhq/weir/test/expected"
)

// question is a cluster and pods that wait in it, as the program oracle reads it.
type question struct {
	Namespaces []*corev1.Namespace
	Nodes      []*corev1.Node
	Pods       []*corev1.Pod
	Waiting    []*corev1.Pod
}

// oracle is the filters of kube-scheduler in a process of their own.
type oracle struct {
	input  *json.Encoder
	output *json.Decoder
}

func newOracle(t *testing.T) *oracle {
	t.Helper()
	command := exec.Command(expected.Oracle.Need(t))
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close() // it ends then
		if err := command.Wait(); err != nil {
			t.Error(err)
		}
	})
	return &oracle{json.NewEncoder(input), json.NewDecoder(output)}
}

// ask returns for each pod that waits and each node the plugins that refuse it.
func (o *oracle) ask(t *testing.T, q *question) []map[string][]string {
	t.Helper()
	if err := o.input.Encode(q); err != nil {
		t.Fatal(err)
	}
	var answer struct{ Refusals []map[string][]string }
	if err := o.output.Decode(&answer); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	if len(answer.Refusals) != len(q.Waiting) {
		t.Fatalf("%d answers to %d pods", len(answer.Refusals), len(q.Waiting))
	}
	return answer.Refusals
}

// dice draws clusters in which pods get in each other's way.
type dice struct{ *rand.Rand }

func (d dice) chance(percent int) bool { return d.IntN(100) < percent }

func pick[T any](d dice, list ...T) T { return list[d.IntN(len(list))] }

func pointer[T any](v T) *T { return &v }

func (d dice) namespace() string { return pick(d, "one", "two", "three") }

func (d dice) labels() map[string]string {
	labels := map[string]string{}
	for key, values := range map[string][]string{"app": {"a", "b", "c"}, "version": {"1", "2"}} {
		if value := d.IntN(len(values) + 1); value < len(values) {
			labels[key] = values[value]
		}
	}
	return labels
}

// selector is one over a label.
func (d dice) selector(key string, values ...string) *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	switch d.IntN(7) {
	case 0:
		return nil
	case 1: // everything
	case 2, 3:
		s.MatchLabels = map[string]string{key: pick(d, values...)}
	default:
		r := metav1.LabelSelectorRequirement{Key: key, Operator: pick(d, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}
		if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn {
			r.Values = values[:1+d.IntN(len(values))]
		}
		s.MatchExpressions = []metav1.LabelSelectorRequirement{r}
	}
	return s
}

func (d dice) topology() string { return pick(d, "zone", "zone", "host", "rack") }

// terms are about pods. Those of pods that wait choose namespaces by labels that these have: see
// TestKubeSchedulerTakesAbsentLabelsOfNamespacesForGranted.
func (d dice) terms(waits bool) (list []corev1.PodAffinityTerm) {
	for range 1 + d.IntN(2) {
		term := corev1.PodAffinityTerm{TopologyKey: d.topology(), LabelSelector: d.selector("app", "a", "b", "c")}
		if d.chance(30) {
			term.Namespaces = []string{d.namespace(), d.namespace()}
		}
		if d.chance(30) {
			term.NamespaceSelector = d.selector("team", "x", "y")
			for waits && isNegative(term.NamespaceSelector) {
				term.NamespaceSelector = d.selector("team", "x", "y")
			}
		}
		list = append(list, term)
	}
	return list
}

// isNegative reports whether a selector matches what has no labels, and not everything.
func isNegative(s *metav1.LabelSelector) bool {
	return s != nil && len(s.MatchExpressions) > 0 && (s.MatchExpressions[0].Operator == metav1.LabelSelectorOpNotIn || s.MatchExpressions[0].Operator == metav1.LabelSelectorOpDoesNotExist)
}

// repel makes a pod keep others away.
func (d dice) repel(spec *corev1.PodSpec, waits bool) {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: d.terms(waits)}
}

// take makes a pod take ports and extended resources of its node.
func (d dice) take(spec *corev1.PodSpec) {
	spec.Containers = []corev1.Container{{Name: "c"}}
	if d.chance(25) {
		spec.Containers[0].Ports = []corev1.ContainerPort{{
			HostPort: int32(80 + d.IntN(2)), Protocol: pick(d, "", corev1.ProtocolTCP, corev1.ProtocolUDP), HostIP: pick(d, "", "0.0.0.0", "10.0.0.1", "10.0.0.2"),
		}}
	}
	if d.chance(20) {
		spec.Containers[0].Resources.Requests = corev1.ResourceList{"example.com/fpga": *apiresource.NewQuantity(int64(d.IntN(3)), apiresource.DecimalSI)}
	}
}

func (d dice) taints() (list []corev1.Taint) {
	for d.chance(30) {
		list = append(list, corev1.Taint{
			Key: pick(d, "gpu", "old"), Value: pick(d, "", "yes"), Effect: pick(d, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule),
		})
	}
	return list
}

func (d dice) tolerations() (list []corev1.Toleration) {
	for d.chance(50) {
		t := corev1.Toleration{Key: pick(d, "gpu", "old"), Operator: pick(d, "", corev1.TolerationOpEqual, corev1.TolerationOpExists), Effect: pick(d, "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute)}
		if t.Operator != corev1.TolerationOpExists {
			t.Value = pick(d, "", "yes")
		} else if d.chance(20) {
			t.Key = ""
		}
		list = append(list, t)
	}
	return list
}

// nodeAffinity is terms over labels and names of nodes.
func (d dice) nodeAffinity() *corev1.NodeAffinity {
	selector := &corev1.NodeSelector{}
	for range 1 + d.IntN(2) {
		var term corev1.NodeSelectorTerm
		for d.chance(60) {
			r := corev1.NodeSelectorRequirement{Key: pick(d, "zone", "rack", "size"), Operator: pick(d, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist)}
			if r.Operator == corev1.NodeSelectorOpIn || r.Operator == corev1.NodeSelectorOpNotIn {
				r.Values = []string{pick(d, "a", "b", "1", "5")}
			}
			if r.Key == "size" && d.chance(50) {
				r.Operator, r.Values = pick(d, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt), []string{pick(d, "1", "3", "5")}
			}
			term.MatchExpressions = append(term.MatchExpressions, r)
		}
		if d.chance(15) {
			term.MatchFields = []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: pick(d, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn), Values: []string{"n" + strconv.Itoa(d.IntN(5))}}}
		}
		selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, term)
	}
	return &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: selector}
}

func (d dice) spread() corev1.TopologySpreadConstraint {
	c := corev1.TopologySpreadConstraint{
		MaxSkew: int32(1 + d.IntN(2)), TopologyKey: d.topology(), LabelSelector: d.selector("app", "a", "b", "c"),
		WhenUnsatisfiable: pick(d, corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.ScheduleAnyway),
	}
	if d.chance(30) && c.WhenUnsatisfiable == corev1.DoNotSchedule {
		c.MinDomains = pointer(int32(1 + d.IntN(3)))
	}
	if d.chance(40) {
		c.NodeAffinityPolicy = pointer(pick(d, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore))
	}
	if d.chance(40) {
		c.NodeTaintsPolicy = pointer(pick(d, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore))
	}
	if d.chance(30) {
		c.MatchLabelKeys = []string{"version"}
	}
	return c
}

func (d dice) question(waiting int) *question {
	q := &question{}
	for _, name := range []string{"one", "two", "three"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
		if team := d.IntN(3); team < 2 {
			namespace.Labels["team"] = pick(d, "x", "y")
		}
		q.Namespaces = append(q.Namespaces, namespace)
	}
	for i := range 2 + d.IntN(4) {
		name := "n" + strconv.Itoa(i)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"host": name, "size": pick(d, "1", "5", "large")}}, Spec: corev1.NodeSpec{Taints: d.taints()}}
		if d.chance(85) {
			node.Labels["zone"] = pick(d, "a", "b", "c")
		}
		if d.chance(50) {
			node.Labels["rack"] = pick(d, "1", "2")
		}
		node.Status.Allocatable = corev1.ResourceList{"pods": apiresource.MustParse("110"), "example.com/fpga": *apiresource.NewQuantity(int64(d.IntN(4)), apiresource.DecimalSI)}
		q.Nodes = append(q.Nodes, node)
	}
	for i := range d.IntN(12) {
		pod := d.pod("p"+strconv.Itoa(i), func(spec *corev1.PodSpec) {
			spec.NodeName = pick(d, q.Nodes...).Name
			if d.chance(25) {
				d.repel(spec, false)
			}
		})
		if d.chance(10) {
			pod.DeletionTimestamp = pointer(metav1.NewTime(time.Unix(1, 0)))
		}
		q.Pods = append(q.Pods, pod)
	}
	for i := range waiting {
		q.Waiting = append(q.Waiting, d.pod("w"+strconv.Itoa(i), d.demand))
	}
	return q
}

func (d dice) pod(name string, change func(*corev1.PodSpec)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace(), Name: name, UID: types.UID(name), Labels: d.labels()}}
	d.take(&pod.Spec)
	change(&pod.Spec)
	return pod
}

// demand makes a pod demand something of its node.
func (d dice) demand(spec *corev1.PodSpec) {
	spec.Tolerations = d.tolerations()
	if d.chance(30) {
		spec.NodeSelector = map[string]string{"zone": pick(d, "a", "b")}
	}
	if d.chance(30) {
		spec.Affinity = &corev1.Affinity{NodeAffinity: d.nodeAffinity()}
	}
	if d.chance(40) {
		d.repel(spec, true)
	}
	if d.chance(40) {
		if spec.Affinity == nil {
			spec.Affinity = &corev1.Affinity{}
		}
		spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: d.terms(true)}
	}
	for d.chance(35) {
		spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, d.spread())
	}
}

// ours returns what Weir's rules say in their three parts: about the node itself, what pods there have taken, and pods around.
func ours(q *question, around *workload.Neighbours, c *workload.Constraints, node *corev1.Node) [3]workload.Refusal {
	var taken workload.Taken
	for _, other := range q.Pods {
		if other.Spec.NodeName == node.Name {
			taken.Add(other, nil)
		}
	}
	return [3]workload.Refusal{c.Permits(node), c.Fits(node, &taken), around.Refuse(c, c.Repelled(), node)}
}

// theirs are the plugins of the three parts.
var theirs = [3][]string{{"NodeAffinity", "TaintToleration"}, {"NodeResourcesFit", "NodePorts"}, {"InterPodAffinity", "PodTopologySpread"}}

func neighboursOf(q *question) *workload.Neighbours {
	around := workload.NewNeighbours()
	for _, namespace := range q.Namespaces {
		around.SetNamespace(namespace.Name, namespace.Labels)
	}
	for _, node := range q.Nodes {
		around.SetNode(node)
	}
	for _, pod := range q.Pods {
		around.Put(pod, pod.Spec.NodeName)
	}
	return around
}

// Weir refuses a node for a pod exactly if a filter of kube-scheduler does. make test asks about 2,500 pods; make long about 50,000
// and draws a new seed.
func TestOurRulesAreThoseOfKubeScheduler(t *testing.T) {
	oracle := newOracle(t)
	const waiting = 10
	clusters, seed := 250, uint64(1)
	if os.Getenv("WEIR_LONG") != "" {
		clusters, seed = 5000, rand.Uint64()
	}
	d := dice{rand.New(rand.NewPCG(seed, 0))}
	differences, refused := 0, map[string]int{}
	for range clusters {
		q := d.question(waiting)
		answers := oracle.ask(t, q)
		around := neighboursOf(q)
		for i, pod := range q.Waiting {
			c, problem := workload.ConstraintsOf(pod, nil, nil, around)
			if problem != nil {
				t.Fatal(problem)
			}
			for _, node := range q.Nodes {
				got := ours(q, around, c, node)
				for part := range got {
					isRefused := slices.ContainsFunc(answers[i][node.Name], func(name string) bool { return slices.Contains(theirs[part], name) })
					if isRefused == (got[part] != workload.Refusal{}) {
						continue
					}
					if differences++; differences <= 3 {
						question, _ := json.MarshalIndent(question{q.Namespaces, q.Nodes, q.Pods, []*corev1.Pod{pod}}, "", " ")
						t.Errorf("seed %d, node %s: we say %q, kube-scheduler's filters %v\n%s", seed, node.Name, got[part], answers[i][node.Name], question)
					}
				}
				for _, name := range answers[i][node.Name] {
					refused[name]++
				}
			}
		}
	}
	t.Logf("%d pods in %d clusters, %d differences; nodes refused: %s", clusters*waiting, clusters, differences, fmt.Sprint(refused))
	for _, names := range theirs {
		for _, name := range names {
			if refused[name] == 0 {
				t.Errorf("%s has refused nothing", name)
			}
		}
	}
}

// A term may choose namespaces by their labels. For a term of the pod that waits, kube-scheduler 1.36 compares the selector with no
// labels at all after it has looked the namespaces up, so "no label team" is every namespace. The API says otherwise, and so
// do we. If this fails, kube-scheduler has been mended: draw such selectors, too.
func TestKubeSchedulerTakesAbsentLabelsOfNamespacesForGranted(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"zone": "a"}}}
	node.Status.Allocatable = corev1.ResourceList{"pods": apiresource.MustParse("110")}
	there := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "teamed", Name: "there", UID: "there"}, Spec: corev1.PodSpec{NodeName: "n"}}
	waits := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "plain", Name: "waits", UID: "waits"}}
	waits.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{},
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpDoesNotExist}}},
	}}}}
	q := &question{
		Namespaces: []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "teamed", Labels: map[string]string{"team": "x"}}}, {ObjectMeta: metav1.ObjectMeta{Name: "plain"}}},
		Nodes:      []*corev1.Node{node}, Pods: []*corev1.Pod{there}, Waiting: []*corev1.Pod{waits},
	}
	if answers := newOracle(t).ask(t, q); len(answers[0]["n"]) != 1 {
		t.Errorf("kube-scheduler's filters: %v", answers)
	}
	around := neighboursOf(q)
	c, problem := workload.ConstraintsOf(waits, nil, nil, around)
	if problem != nil {
		t.Fatal(problem)
	}
	if got := around.Refuse(c, c.Repelled(), node); got != (workload.Refusal{}) {
		t.Errorf("we say %q", got)
	}
}
