package app

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/node/picture"
	"github.com/weirhq/weir/internal/value/resource"
)

func TestPodsObeyTheSettingsOfKubernetes(t *testing.T) {
	loaded, _, err := config.Load(config.Sources{Environ: []string{
		"WEIR_SCHEDULER_KUBERNETES_NAMESPACE=n", "WEIR_SCHEDULER_KUBERNETES_SERVICE_ACCOUNT=a", "WEIR_SCHEDULER_KUBERNETES_DEFAULT_IMAGE=d",
		"WEIR_SCHEDULER_KUBERNETES_INIT_IMAGE=i", "WEIR_SCHEDULER_KUBERNETES_TAG_LABELS=x,y", "WEIR_SCHEDULER_KUBERNETES_GPU_RESOURCES=g",
		"WEIR_SCHEDULER_KUBERNETES_TOLERATED_TAINTS=t", "WEIR_SCHEDULER_KUBERNETES_RESERVE={cpu: 1}", "WEIR_SCHEDULER_KUBERNETES_SHELLS=false", "WEIR_SCHEDULER_KUBERNETES_PODS_URL=http://weir:7070/",
		"WEIR_SCHEDULER_MAX_NODE_UNSEEN_PERIOD_TO_ABORT_ALLOCATIONS=7m",
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := picture.Options{
		Namespace: "n", ServiceAccount: "a", DefaultImage: "d", InitImage: "i", TagLabels: []string{"x", "y"}, GPUResources: []string{"g"},
		ToleratedTaints: []string{"t"}, NoShells: true, URL: "http://weir:7070", Reserve: resource.Amounts{resource.CPU: 100}, LostAfter: 7 * time.Minute, Version: "v",
	}
	if got := pictureOf(&loaded.Config.Scheduler, "v"); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestASchedulerWithoutAClusterSaysSo(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	c := config.Default().Scheduler
	s := &Scheduler{}
	if driver, err := s.openKubernetes(&c); driver != nil || err != nil {
		t.Errorf("it is off by default: %v, %v", driver, err)
	}
	loaded, _, err := config.Load(config.Sources{Environ: []string{"WEIR_SCHEDULER_KUBERNETES_ENABLED=true", "WEIR_SCHEDULER_KUBERNETES_KUBECONFIG=/nowhere"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.openKubernetes(&loaded.Config.Scheduler); err == nil || !strings.Contains(err.Error(), "no Kubernetes cluster") || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("%v", err)
	}
}
