package kube

import (
	"os/exec"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirhq/weir/test/expected"
)

// The API server accepts everything that the chart renders, field by field.
func TestTheAPIServerAcceptsTheChart(t *testing.T) {
	if without != "" {
		t.Skipf("NO API SERVER HERE: %s", without)
	}
	helm := expected.Helm.Need(t)
	sets, err := filepath.Glob("../../packaging/helm/testdata/*.yaml")
	if err != nil || len(sets) == 0 {
		t.Fatalf("%q, %v", sets, err)
	}
	for _, values := range sets {
		text, err := exec.CommandContext(t.Context(), helm, "template", "weir", "../../packaging/helm/weir", "--namespace", "weir-system", "--values", values,
			"--set", "metrics.serviceMonitor=false").Output() // of the Prometheus operator, which is not here
		if err != nil {
			t.Fatalf("%s: %v", values, err)
		}
		if err := plane.applyText(text, metav1.ApplyOptions{FieldManager: "test", Force: true, DryRun: []string{metav1.DryRunAll}}); err != nil {
			t.Errorf("%s: %v", values, err)
		}
	}
}
