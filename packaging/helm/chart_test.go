// Package helm tests the chart. Helm comes from the module test/helm; make test builds it where it can, and without it these
// tests are skipped.
package helm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/test/expected"
)

// helm runs Helm and returns what it writes to both streams.
func helm(t *testing.T, arguments ...string) (string, string, error) {
	t.Helper()
	program := expected.Helm.Need(t)
	var out, problems bytes.Buffer
	command := exec.CommandContext(t.Context(), program, arguments...)
	command.Env = append(os.Environ(), "HOME="+t.TempDir())
	command.Stdout, command.Stderr = &out, &problems
	err := command.Run()
	return out.String(), problems.String(), err
}

// sets are the files of values that the chart is tested with.
func sets(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) != 5 {
		t.Fatalf("%q, %v", files, err)
	}
	return files
}

// render returns the manifests of the chart for a file of values.
func render(t *testing.T, values string) string {
	t.Helper()
	out, problems, err := helm(t, "template", "weir", "weir", "--namespace", "weir-system", "--values", values, "--include-crds", "--api-versions", "monitoring.coreos.com/v1")
	if err != nil {
		t.Fatalf("%v\n%s", err, problems)
	}
	return out
}

// objects decodes manifests; kinds that only operators know are left out.
func objects(t *testing.T, text string) (list []runtime.Object) {
	t.Helper()
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var raw runtime.RawExtension
		if err := documents.Decode(&raw); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw.Raw, nil, nil)
		if runtime.IsNotRegisteredError(err) {
			continue
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, raw.Raw)
		}
		list = append(list, object)
	}
}

func TestHelmLintsTheChartWithEverySetOfValues(t *testing.T) {
	for _, values := range sets(t) {
		if out, problems, err := helm(t, "lint", "--strict", "weir", "--values", values); err != nil {
			t.Errorf("%s: %v\n%s%s", values, err, out, problems)
		}
	}
}

// Everything that the chart renders is readable, and the scheduler accepts the configuration that it gets.
func TestTheSchedulerAcceptsTheConfigurationOfTheChart(t *testing.T) {
	for _, values := range sets(t) {
		found := map[string]bool{}
		for _, object := range objects(t, render(t, values)) {
			switch o := object.(type) {
			case *corev1.ConfigMap:
				text, configures := o.Data["weir.yaml"]
				if !configures {
					continue
				}
				loaded, _, err := config.Load(config.Sources{File: values, Data: []byte(text)})
				if err != nil {
					t.Fatalf("%s: %v\n%s", values, err, text)
				}
				if err := loaded.Require(config.SchedulerSection); err != nil || !loaded.Config.Scheduler.Kubernetes.Enabled.Value() {
					t.Errorf("%s: %v\n%s", values, err, text)
				}
				found["configuration"] = true
			case *appsv1.Deployment:
				found["deployment"] = true
				one := *o.Spec.Replicas == 1
				if recreate := o.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType; recreate != hasVolume(o, "state") || !one && recreate {
					t.Errorf("%s: %d schedulers, strategy %s: only one scheduler may use a volume", values, *o.Spec.Replicas, o.Spec.Strategy.Type)
				}
				for i := range o.Spec.Template.Spec.Containers {
					c := o.Spec.Template.Spec.Containers[i].SecurityContext
					if !*c.ReadOnlyRootFilesystem || *c.AllowPrivilegeEscalation || !slices.Contains(c.Capabilities.Drop, "ALL") {
						t.Errorf("%s: %+v", values, c)
					}
				}
			}
		}
		if want := values != "testdata/outside.yaml"; found["configuration"] != want || found["deployment"] != want {
			t.Errorf("%s renders %v", values, found)
		}
	}
}

func hasVolume(d *appsv1.Deployment, name string) bool {
	return slices.ContainsFunc(d.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
}

// permissions are everything that the scheduler may do: in the cluster, and in the namespace of jobs.
var permissions = map[string][]string{
	"cluster": {
		"/nodes: get list watch",
		"/nodes/stats: get",
		"/pods: get list watch",
		"authentication.k8s.io/tokenreviews: create",
		"/namespaces: get list watch",
		"/persistentvolumeclaims: get list watch",
		"/persistentvolumes: get list watch",
		"/replicationcontrollers: get list watch",
		"apps/deployments: get list watch",
		"apps/replicasets: get list watch",
		"apps/statefulsets: get list watch",
		"apps/daemonsets: get list watch",
		"batch/jobs: get list watch",
		"batch/cronjobs: get list watch",
		"jobset.x-k8s.io/jobsets: get list watch",
		"scheduling.k8s.io/podgroups/status: patch",
		"scheduling.k8s.io/podgroups: get list watch",
		"scheduling.x-k8s.io/podgroups: get list watch",
		"/pods/binding: create",
		"/pods/eviction: create",
		"/pods/status: patch",
		"events.k8s.io/events: create",
		"weir.dev/weirpools: get list watch patch",
		"weir.dev/weirpools/status: patch",
		"weir.dev/weirtrees: get list watch patch",
		"weir.dev/weirtrees/status: patch",
	},
	"jobs": {
		"/pods: create delete patch",
		"/pods/log: get",
		"/pods/resize: patch",
		"/pods/exec: get create",
		"/configmaps: create delete list",
	},
}

// The roles have the permissions that Weir uses, one by one: no wildcard, no secrets.
func TestTheRolesGrantWhatWeirUsesAndNothingElse(t *testing.T) {
	for _, values := range sets(t) {
		got := map[string][]string{}
		for _, object := range objects(t, render(t, values)) {
			switch o := object.(type) {
			case *rbacv1.ClusterRole:
				got["cluster"] = append(got["cluster"], lines(o.Rules)...)
			case *rbacv1.Role:
				got["jobs"] = append(got["jobs"], lines(o.Rules)...)
			}
		}
		for where, want := range permissions {
			slices.Sort(got[where])
			slices.Sort(want)
			if !slices.Equal(got[where], want) {
				t.Errorf("%s, %s:\n%s\nwant\n%s", values, where, strings.Join(got[where], "\n"), strings.Join(want, "\n"))
			}
		}
	}
}

func lines(rules []rbacv1.PolicyRule) (list []string) {
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				list = append(list, fmt.Sprintf("%s/%s: %s", group, resource, strings.Join(rule.Verbs, " ")))
			}
		}
	}
	return list
}

// Wrong values are refused with their path before anything is installed.
func TestWrongValuesAreRefused(t *testing.T) {
	for set, want := range map[string]string{
		"replicas=2":                   "'/store/kind'",
		"replicas=0":                   "'/replicas': minimum: got 0, want 1",
		"replicas=many":                "'/replicas': got string, want integer",
		"replica=2":                    "additional properties 'replica' not allowed",
		"store.kind=mysql":             "'/store/kind': value must be one of 'sqlite', 'postgres'",
		"store.kind=postgres":          "'/store/url'",
		"store.size=big":               "'/store/size': 'big' does not match",
		"image.repository=":            "'/image/repository': minLength",
		"image.pullPolicy=Sometimes":   "'/image/pullPolicy'",
		"kubernetes.kubeconfig=x":      "'/kubernetes': 'not' failed",
		"kubernetes.namespace=A_B":     "'/kubernetes/namespace': 'A_B' does not match",
		"settings.listen=x":            "'/settings': 'not' failed",
		"metrics.serviceMonitor=maybe": "'/metrics/serviceMonitor': got string, want boolean",
	} {
		_, problems, err := helm(t, "template", "weir", "weir", "--set", set)
		if err == nil || !strings.Contains(problems, want) {
			t.Errorf("%s: %v\n%s\nwant %s", set, err, problems, want)
		}
	}
	if _, problems, err := helm(t, "template", "weir", "weir", "--set", "store.kind=postgres,store.url=postgres://weir:secret@db/weir"); err == nil || !strings.Contains(problems, "'/store/url'") {
		t.Errorf("an address with a password: %v\n%s", err, problems)
	}
}

const manifestsBegin = `# What ` + "`weir scheduler --kubernetes`" + ` needs in a cluster: a namespace for the pods of jobs, an account for them that may do
# nothing, and an account for the scheduler with the permissions that it uses. See docs/kubernetes.md.
# Rendered from packaging/helm: go test ./packaging/helm -update
---
apiVersion: v1
kind: Namespace
metadata:
  name: weir-system
`

// The manifests for clusters without Helm are the chart's.
func TestTheManifestsAreRenderedFromTheChart(t *testing.T) {
	expected.File(t, "../kubernetes/weir.yaml", manifestsBegin+render(t, "testdata/outside.yaml"))
}
