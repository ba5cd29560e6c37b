package workload

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// term is a demand to be in one domain with certain pods, or in none with them. A domain is all nodes that have the same
// value of a label.
type term struct {
	key        string // equal for equal demands
	path       string // of the field
	topology   string // the label
	namespaces []string
	among      labels.Selector // further namespaces, by their labels
	selector   labels.Selector
}

// termsOf reads the terms of a pod in a namespace.
func termsOf(namespace, path string, list []corev1.PodAffinityTerm) (terms []term, problem *Problem) {
	for i := range list {
		field := &list[i]
		t := term{path: fmt.Sprintf("%s[%d]", path, i), topology: field.TopologyKey, namespaces: slices.Sorted(slices.Values(field.Namespaces))}
		if len(t.namespaces) == 0 && field.NamespaceSelector == nil {
			t.namespaces = []string{namespace}
		}
		var err error
		if t.selector, err = metav1.LabelSelectorAsSelector(field.LabelSelector); err != nil {
			return nil, unsupported(fmt.Sprintf("%s.labelSelector: %v", t.path, err))
		}
		if t.among, err = metav1.LabelSelectorAsSelector(field.NamespaceSelector); err != nil {
			return nil, unsupported(fmt.Sprintf("%s.namespaceSelector: %v", t.path, err))
		}
		t.key = hash(t.topology, t.namespaces, describe(t.among), describe(t.selector))
		terms = append(terms, t)
	}
	return terms, nil
}

// describe tells selectors apart. The text of one that matches nothing is that of one that matches everything.
func describe(s labels.Selector) string {
	if _, selectable := s.Requirements(); !selectable {
		return "nothing"
	}
	return "=" + s.String()
}

// matches reports whether a term is about a pod.
func (t *term) matches(pod *corev1.Pod, namespace map[string]string) bool {
	return (slices.Contains(t.namespaces, pod.Namespace) || t.among.Matches(labels.Set(namespace))) && t.selector.Matches(labels.Set(pod.Labels))
}

// matchesAll reports whether a pod is one that all terms are about.
func matchesAll(terms []term, pod *corev1.Pod, namespace map[string]string) bool {
	for i := range terms {
		if !terms[i].matches(pod, namespace) {
			return false
		}
	}
	return len(terms) > 0
}

const (
	affinityPath     = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution"
	antiAffinityPath = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution"
)

// antiAffinityOf returns the terms by which a pod keeps others away.
func antiAffinityOf(pod *corev1.Pod) ([]term, *Problem) {
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		return termsOf(pod.Namespace, antiAffinityPath, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	return nil, nil
}

// Repelling returns the part of a pod's affinity that matters to other pods, nil if there is none.
func Repelling(a *corev1.Affinity) *corev1.Affinity {
	if a == nil || a.PodAntiAffinity == nil || len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) == 0 {
		return nil
	}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
	}}
}

// spread is a demand that pods are spread over domains.
type spread struct {
	path          string
	topology      string
	selector      labels.Selector
	most          int // by how many pods a domain may exceed the emptiest one
	domains       int // with fewer domains the emptiest one counts as empty
	self          int // 1 if the pod is one of those that are counted
	byAffinity    bool
	byTolerations bool // only nodes that the pod could run on count, by its node affinity and by its tolerations
}

// spreadsOf reads the demands of a pod that forbid nodes.
func spreadsOf(pod *corev1.Pod) (list []spread, problem *Problem) {
	for i := range pod.Spec.TopologySpreadConstraints {
		field := &pod.Spec.TopologySpreadConstraints[i]
		if field.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		s := spread{
			path: fmt.Sprintf("spec.topologySpreadConstraints[%d]", i), topology: field.TopologyKey, most: int(field.MaxSkew), domains: 1, byAffinity: true,
		}
		var err error
		if s.selector, err = selectorOf(pod, field); err != nil {
			return nil, unsupported(fmt.Sprintf("%s.labelSelector: %v", s.path, err))
		}
		if field.MinDomains != nil {
			s.domains = int(*field.MinDomains)
		}
		if field.NodeAffinityPolicy != nil {
			s.byAffinity = *field.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor
		}
		if field.NodeTaintsPolicy != nil {
			s.byTolerations = *field.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
		}
		if s.selector.Matches(labels.Set(pod.Labels)) {
			s.self = 1
		}
		list = append(list, s)
	}
	return list, nil
}

// selectorOf returns which pods a demand to spread counts: those that its selector matches and that have the same values of
// certain labels as the pod.
func selectorOf(pod *corev1.Pod, field *corev1.TopologySpreadConstraint) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(field.LabelSelector)
	if err != nil {
		return nil, err
	}
	if _, selectable := selector.Requirements(); !selectable {
		return selector, nil
	}
	same := labels.Set{}
	for _, key := range field.MatchLabelKeys {
		if value, there := pod.Labels[key]; there {
			same[key] = value
		}
	}
	if len(same) > 0 {
		more, _ := labels.SelectorFromSet(same).Requirements()
		selector = selector.Add(more...)
	}
	return selector, nil
}

// relations are what a pod demands of the pods around it.
type relations struct {
	near, away []term
	self       bool // it is itself a pod that it wants to be near to
	spreads    []spread
	repelled   []string // keys of the terms of other pods that keep it away
}

// isEmpty reports whether a pod demands nothing of others.
func (r *relations) isEmpty() bool { return len(r.near)+len(r.away)+len(r.spreads) == 0 }

// readRelations reads what a pod demands of others, and who keeps it away.
func (c *Constraints) readRelations(pod *corev1.Pod, around *Neighbours) (problem *Problem) {
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
		if c.near, problem = termsOf(pod.Namespace, affinityPath, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution); problem != nil {
			return problem
		}
		c.self = matchesAll(c.near, pod, around.namespaces[pod.Namespace])
	}
	if c.away, problem = antiAffinityOf(pod); problem != nil {
		return problem
	}
	if c.spreads, problem = spreadsOf(pod); problem != nil {
		return problem
	}
	c.repelled = around.RepelledBy(pod)
	for i := range c.away { // pods that keep each other away: the first of them changes nothing for the others
		if c.away[i].matches(pod, around.namespaces[pod.Namespace]) {
			c.repelled = append(c.repelled, c.away[i].key)
		}
	}
	slices.Sort(c.repelled)
	c.repelled = slices.Compact(c.repelled)
	return nil
}

// key tells relations apart. Two pods of one key are counted alike and permitted alike.
func (r *relations) key(namespace string) string {
	if r.isEmpty() && len(r.repelled) == 0 {
		return ""
	}
	parts := []any{r.self, r.repelled}
	for _, list := range [][]term{r.near, r.away} {
		keys := make([]string, len(list))
		for i := range list {
			keys[i] = list[i].key
		}
		parts = append(parts, keys)
	}
	for i := range r.spreads {
		s := &r.spreads[i]
		parts = append(parts, []any{namespace, s.topology, describe(s.selector), s.most, s.domains, s.self, s.byAffinity, s.byTolerations})
	}
	return hash(parts...)
}
