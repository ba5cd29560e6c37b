package workload

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// CheckNodeChoice returns what is wrong with the options by which a task of Weir's own chooses nodes, with the path of the
// option. Preferences are valid and have no effect.
func CheckNodeChoice(selector map[string]string, affinity *corev1.Affinity, tolerations []corev1.Toleration) error {
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		if problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(selector[key])...); len(problems) > 0 {
			return fmt.Errorf("node_selector/%s: %s", key, problems[0])
		}
	}
	if err := checkAffinity(affinity); err != nil {
		return err
	}
	for i := range tolerations {
		if problem := checkToleration(&tolerations[i]); problem != "" {
			return fmt.Errorf("tolerations/%d/%s", i, problem)
		}
	}
	return nil
}

// checkAffinity returns what is wrong with the affinity of a task.
func checkAffinity(a *corev1.Affinity) error {
	const required = "affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"
	switch {
	case a == nil:
		return nil
	case a.PodAffinity != nil:
		return fmt.Errorf("affinity/podAffinity: not supported for tasks; use nodeAffinity")
	case a.PodAntiAffinity != nil:
		return fmt.Errorf("affinity/podAntiAffinity: not supported for tasks; use nodeAffinity")
	case a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil:
		return nil
	}
	terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if len(terms.NodeSelectorTerms) == 0 {
		return fmt.Errorf("%s/nodeSelectorTerms: want at least one term", required)
	}
	if _, err := nodeaffinity.NewNodeSelector(terms); err != nil {
		return fmt.Errorf("%s: %w", required, err)
	}
	return nil
}

// checkToleration returns what is wrong with a toleration: the field, a colon and the rule.
func checkToleration(t *corev1.Toleration) string {
	if t.Key != "" {
		if problems := validation.IsQualifiedName(t.Key); len(problems) > 0 {
			return "key: " + problems[0]
		}
	}
	switch {
	case t.Operator != "" && t.Operator != corev1.TolerationOpExists && t.Operator != corev1.TolerationOpEqual:
		return fmt.Sprintf("operator: want Exists or Equal, not %q", t.Operator)
	case t.Key == "" && t.Operator != corev1.TolerationOpExists:
		return "operator: must be Exists if there is no key"
	case t.Operator == corev1.TolerationOpExists && t.Value != "":
		return "value: must be empty with the operator Exists"
	case t.Effect != "" && t.Effect != corev1.TaintEffectNoSchedule && t.Effect != corev1.TaintEffectPreferNoSchedule && t.Effect != corev1.TaintEffectNoExecute:
		return fmt.Sprintf("effect: want NoSchedule, PreferNoSchedule or NoExecute, not %q", t.Effect)
	case t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute:
		return "tolerationSeconds: needs the effect NoExecute"
	}
	if problems := validation.IsValidLabelValue(t.Value); len(problems) > 0 {
		return "value: " + problems[0]
	}
	return ""
}
