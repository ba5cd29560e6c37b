package kube

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/weirhq/weir/internal/control/web"
	"github.com/weirhq/weir/internal/node/workload"
	"github.com/weirhq/weir/test/expected"
)

// The page lists pods and namespaces, and a pod's page says why it waits. web/browser/pods.test.mjs has the steps.
func TestThePageOfAPodSaysWhyItWaits(t *testing.T) {
	if !web.IsBuilt() {
		t.Skip("BROWSER TESTS SKIPPED: the page is not built; make web builds it where npm is")
	}
	browser, err := expected.FindBrowser("../../web")
	if err != nil {
		t.Skipf("BROWSER TESTS SKIPPED: %v", err)
	}
	s := newScheduler(t)
	lab, shop := newShop(t, "page-lab"), newShop(t, "page-web")
	machine.node(t, "page-1", "4")
	lab.pod("huge", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = apiresource.MustParse("400") })
	lab.pod("nowhere", in("nowhere"))
	lab.pod("malformed", func(p *corev1.Pod) { p.Annotations[workload.AnnotationGangSize] = "many" })
	shop.pod("front", nil)
	s.await("all pods have their reasons", func() bool {
		for _, name := range []string{"huge", "nowhere", "malformed"} {
			if reason, _ := lab.reason(name); reason == "" {
				return false
			}
		}
		return has(shop, "front")
	})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if out, err := browser.Run(ctx, s.address, "pods.test.mjs"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
