package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/node/pretender"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/internal/value/resource"
)

// planFor plans weir up for a cluster.
func planFor(t *testing.T, context, address string, environ ...string) *Plan {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: %q, contexts: [{name: %q, context: {cluster: c, user: u}}],
  clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {token: x}}]}`, context, context, address)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, _, err := config.Load(config.Sources{Environ: append(environ, "WEIR_UP_KUBERNETES=true", "WEIR_SCHEDULER_KUBERNETES_KUBECONFIG="+file)})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := PlanUp(&loaded.Config)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func TestOnlyClustersForTryingThingsAreUsedWithoutAQuestion(t *testing.T) {
	for _, c := range []struct {
		context, address string
		harmless         bool
	}{
		{"production", "https://k8s.example:6443", false},
		{"production", "https://10.0.0.1:6443", false},
		{"my-kwok", "https://10.0.0.1:6443", false},
		{"kwok-kwok", "https://10.0.0.1:6443", true},
		{"kind-kind", "https://127.0.0.1:39321", true},
		{"local", "https://localhost:6443", true},
		{"local", "https://[::1]:6443", true},
	} {
		plan := planFor(t, c.context, c.address)
		if plan.Harmless != c.harmless || plan.Context != c.context || plan.Address != c.address {
			t.Errorf("%+v", plan)
		}
	}
}

func TestThePlanNamesEveryChange(t *testing.T) {
	plan := planFor(t, "c", "https://k8s.example", "WEIR_UP_KWOK=3", "WEIR_SCHEDULER_KUBERNETES_NAMESPACE=batch")
	text := strings.Join(plan.Steps, "\n")
	for _, part := range []string{"namespace batch", "account weir-job", "3 pretended nodes", pretender.NodeName(3), "delete these pods"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
	if text := strings.Join(planFor(t, "c", "https://k8s.example", "WEIR_UP_DATA_DIR=d").Steps, "\n"); strings.Contains(text, "delete") || strings.Contains(text, "create 0") {
		t.Error(text)
	}
}

func TestThePoolsOfPretendedNodesAreValid(t *testing.T) {
	k := &upKubernetes{pretender: &pretender.Pretender{}, total: resource.Amounts{resource.CPU: 64_00}}
	v, err := notation.Parse("", []byte(k.pools()))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := pooltree.FromValue(v, pooltree.Options{}); err != nil {
		t.Fatal(err)
	}
}
