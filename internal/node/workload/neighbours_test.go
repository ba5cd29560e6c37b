package workload

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// hostOf is a node of a zone, or of none.
func hostOf(name, zone string, taints ...corev1.Taint) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"host": name}}, Spec: corev1.NodeSpec{Taints: taints}}
	if zone != "" {
		node.Labels["zone"] = zone
	}
	return node
}

// labelled is a pod of the namespace shop with the label app.
func labelled(name, app string, change func(*corev1.PodSpec)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Labels: map[string]string{"app": app}}}
	if change != nil {
		change(&pod.Spec)
	}
	return pod
}

func about(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func near(terms ...corev1.PodAffinityTerm) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	}
}

func away(terms ...corev1.PodAffinityTerm) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	}
}

func evenly(c corev1.TopologySpreadConstraint) func(*corev1.PodSpec) {
	c.WhenUnsatisfiable = corev1.DoNotSchedule
	return func(s *corev1.PodSpec) { s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{c} }
}

// verdicts returns what keeps a pod away from each of the nodes a1, a2, b1 and lost, in this order.
func verdicts(t *testing.T, n *Neighbours, pod *corev1.Pod) (list []string) {
	t.Helper()
	c, problem := ConstraintsOf(pod, nil, storage(), n)
	if problem != nil {
		t.Fatal(problem)
	}
	for _, name := range []string{"a1", "a2", "b1", "lost"} {
		list = append(list, n.Refuse(c, c.Repelled(), n.nodes[name]).String())
	}
	return list
}

// The pods db (on a1), web (on b1) and shy, which wants no batch in its zone (on b1), are there.
func TestWhatPodsDemandOfEachOther(t *testing.T) {
	n := NewNeighbours()
	for _, node := range []*corev1.Node{hostOf("a1", "a"), hostOf("a2", "a"), hostOf("b1", "b"), hostOf("lost", "")} {
		n.SetNode(node)
	}
	n.SetNamespace("shop", map[string]string{"team": "one"})
	n.SetNamespace("lab", map[string]string{"team": "two"})
	n.Put(labelled("db-0", "db", nil), "a1")
	n.Put(labelled("web-0", "web", nil), "b1")
	n.Put(labelled("shy-0", "shy", away(corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: about("batch")})), "b1")
	three := int32(3)
	inLab := func(p *corev1.Pod) *corev1.Pod { p.Namespace = "lab"; return p }
	nearDB, ignored := string(CauseNear)+" (zone)", corev1.NodeInclusionPolicyIgnore
	skewed, nowhere := string(CauseSpread)+" (zone, maxSkew 1)", string(CauseNoDomain)+" (zone)"
	for what, c := range map[string]struct {
		pod  *corev1.Pod
		want []string
	}{
		"nothing":                          {labelled("p", "x", nil), []string{"", "", "", ""}},
		"near the database":                {labelled("p", "x", near(corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: about("db")})), []string{"", "", nearDB, nearDB}},
		"the database of another team":     {inLab(labelled("p", "x", near(corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: about("db")}))), []string{nearDB, nearDB, nearDB, nearDB}},
		"a database of a named team":       {inLab(labelled("p", "x", near(corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: about("db"), Namespaces: []string{"shop"}}))), []string{"", "", nearDB, nearDB}},
		"a database of a team by label":    {inLab(labelled("p", "x", near(corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: about("db"), NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "one"}}}))), []string{"", "", nearDB, nearDB}},
		"the first of pods that are close": {labelled("p", "ring", near(corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: about("ring")})), []string{"", "", "", nearDB}},
		"on the host of both": {
			labelled("p", "x", near(corev1.PodAffinityTerm{TopologyKey: "host", LabelSelector: about("db")}, corev1.PodAffinityTerm{TopologyKey: "host", LabelSelector: about("web")})),
			[]string{string(CauseNear) + " (host)", string(CauseNear) + " (host)", string(CauseNear) + " (host)", string(CauseNear) + " (host)"},
		},
		"away from the database": {labelled("p", "x", away(corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: about("db")})), []string{string(CauseAway) + " (zone)", string(CauseAway) + " (zone)", "", ""}},
		"kept away by another":   {labelled("p", "batch", nil), []string{"", "", string(CauseRepelled) + " (zone)", ""}},
		"spread with the web":    {labelled("p", "web", evenly(corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: "zone", LabelSelector: about("web")})), []string{"", "", skewed, nowhere}},
		"spread over more domains than there are": {
			labelled("p", "db", evenly(corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: "zone", LabelSelector: about("db"), MinDomains: &three})),
			[]string{skewed, skewed, "", nowhere},
		},
		"spread over all zones, although only one is open": {labelled("p", "web", func(s *corev1.PodSpec) {
			s.NodeSelector = map[string]string{"zone": "b"}
			evenly(corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: "zone", LabelSelector: about("web"), NodeAffinityPolicy: &ignored})(s)
		}), []string{"", "", skewed, nowhere}},
		"spread over the zones that are open": {labelled("p", "web", func(s *corev1.PodSpec) {
			s.NodeSelector = map[string]string{"zone": "b"}
			evenly(corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: "zone", LabelSelector: about("web")})(s)
		}), []string{"", "", "", nowhere}},
	} {
		if got := verdicts(t, n, c.pod); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s", what, strings.Join(got, "\n"))
		}
	}
	leaving := labelled("web-0", "web", nil)
	now := metav1.Now()
	leaving.DeletionTimestamp = &now
	n.Put(leaving, "b1")
	even := labelled("p", "web", evenly(corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: "zone", LabelSelector: about("web")}))
	if got := verdicts(t, n, even); got[2] != "" {
		t.Errorf("a pod that leaves counts for the spread: %s", got[2])
	}
	if counts, terms := n.Remove("shy-0"); !counts || !terms {
		t.Error("the end of the last pod that keeps others away is not told")
	}
	if got := verdicts(t, n, labelled("p", "batch", nil)); got[2] != "" {
		t.Errorf("a pod that has left keeps others away: %s", got[2])
	}
}

func TestMalformedRelationsAreNamedWithTheirPath(t *testing.T) {
	wrong := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	for path, change := range map[string]func(*corev1.PodSpec){
		affinityPath + "[0].labelSelector":                near(corev1.PodAffinityTerm{LabelSelector: wrong}),
		antiAffinityPath + "[1].namespaceSelector":        away(corev1.PodAffinityTerm{}, corev1.PodAffinityTerm{NamespaceSelector: wrong}),
		"spec.topologySpreadConstraints[0].labelSelector": evenly(corev1.TopologySpreadConstraint{LabelSelector: wrong}),
	} {
		_, problem := ConstraintsOf(labelled("p", "x", change), nil, storage(), NewNeighbours())
		if problem == nil || problem.Reason != ReasonUnsupported || !strings.HasPrefix(problem.Message, path+": ") {
			t.Errorf("%s: %v", path, problem)
		}
	}
}

// Pods that demand the same of others are of one class, whatever their own labels; a difference that matters is another.
func TestPodsThatDemandTheSameOfOthersShareAClass(t *testing.T) {
	key := func(pod *corev1.Pod) string {
		c, problem := ConstraintsOf(pod, nil, storage(), NewNeighbours())
		if problem != nil {
			t.Fatal(problem)
		}
		return c.Key
	}
	zone := corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: about("db")}
	host := corev1.PodAffinityTerm{TopologyKey: "host", LabelSelector: about("db")}
	nobody, everybody := corev1.PodAffinityTerm{TopologyKey: "zone"}, corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{}}
	spread := corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: "zone", LabelSelector: about("web"), MatchLabelKeys: []string{"version"}}
	versioned := func(version string) *corev1.Pod {
		pod := labelled("p", "web", evenly(spread))
		pod.Labels["version"] = version
		return pod
	}
	if key(labelled("p", "a", near(zone))) != key(labelled("q", "b", near(zone))) {
		t.Error("labels that nothing depends on make another class")
	}
	keys := map[string]string{}
	for what, pod := range map[string]*corev1.Pod{
		"no demand": labelled("p", "a", nil), "near": labelled("p", "a", near(zone)), "near itself": labelled("p", "db", near(zone)), "away": labelled("p", "a", away(zone)),
		"another domain": labelled("p", "a", near(host)), "nobody": labelled("p", "a", away(nobody)), "everybody": labelled("p", "a", away(everybody)),
		"spread": labelled("p", "web", evenly(spread)), "spread without itself": labelled("p", "a", evenly(spread)), "spread of one version": versioned("1"), "of another": versioned("2"),
	} {
		k := key(pod)
		if other := keys[k]; other != "" {
			t.Errorf("%q and %q are of one class", what, other)
		}
		keys[k] = what
	}
}

// The counts that follow every change are those of a cluster that is counted from scratch.
func TestCountsFollowEveryChange(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	for range 20 {
		n := NewNeighbours()
		nodes, namespaces, pods := map[string]*corev1.Node{}, map[string]map[string]string{}, map[string]*corev1.Pod{}
		where := map[string]string{}
		term := func() corev1.PodAffinityTerm {
			return corev1.PodAffinityTerm{TopologyKey: pick("zone", "host"), LabelSelector: about(pick("a", "b")), NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": pick("one", "two")}}}
		}
		podOf := func(name string) *corev1.Pod {
			demand := []func(*corev1.PodSpec){nil, near(term()), away(term()), evenly(corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: pick("zone", "host"), LabelSelector: about("a")})}
			return labelled(name, pick("a", "b", "c"), demand[random.IntN(len(demand))])
		}
		asked := []*corev1.Pod{podOf("p"), podOf("q"), podOf("r")}
		for range 60 {
			switch name := fmt.Sprint("x", random.IntN(5)); random.IntN(8) {
			case 0, 1:
				nodes[name] = hostOf(name, pick("", "a", "b"))
				n.SetNode(nodes[name])
			case 2:
				delete(nodes, name)
				n.DropNode(name)
			case 3:
				namespaces["shop"] = map[string]string{"team": pick("one", "two")}
				n.SetNamespace("shop", namespaces["shop"])
			case 4:
				n.Remove(types.UID(name))
				delete(where, name)
				delete(pods, name)
			case 5, 6:
				if pods[name] == nil {
					pods[name] = podOf(name)
				} else { // its demands do not change
					pods[name] = pods[name].DeepCopy()
					pods[name].Labels["app"] = pick("a", "b", "c")
				}
				where[name] = fmt.Sprint("x", random.IntN(5))
				n.Put(pods[name], where[name])
			}
			if random.IntN(2) == 0 {
				continue // several changes at once
			}
			fresh := NewNeighbours()
			for _, node := range nodes {
				fresh.SetNode(node)
			}
			for name, labels := range namespaces {
				fresh.SetNamespace(name, labels)
			}
			for name, pod := range pods {
				fresh.Put(pod, where[name])
			}
			for _, pod := range asked {
				c, _ := ConstraintsOf(pod, nil, storage(), n)
				for name, node := range nodes {
					got, want := n.Refuse(c, n.RepelledBy(pod), node), fresh.Refuse(c, fresh.RepelledBy(pod), node)
					if got != want {
						t.Fatalf("node %s: %q, counted from scratch %q", name, got, want)
					}
				}
			}
		}
	}
}
