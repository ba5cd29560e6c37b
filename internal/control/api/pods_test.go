package api

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/node/picture"
)

// The list of pods has the reason of each, can be narrowed down, and counts by namespace.
func TestPodsAreListedWithTheirReasons(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	if got := c.node("list_pods", "{}"); whole(got, "total") != 0 {
		t.Errorf("without Kubernetes: %v", got)
	}
	all := []picture.Pod{
		{Namespace: "lab", Name: "a", State: "waiting", Created: time.Unix(1, 0), Pool: "lab", Alias: "*lab/Pod/pods", Reason: "WeirPoolLimit", Message: "the pool is full"},
		{Namespace: "lab", Name: "b", State: "running", Node: "n1"},
		{Namespace: "shop", Name: "a", State: "running", Node: "n2"},
	}
	pods := func(_ context.Context, namespace, name string) (list []picture.Pod, _ error) {
		for _, p := range all {
			if (namespace == "" || p.Namespace == namespace) && (name == "" || p.Name == name) {
				list = append(list, p)
			}
		}
		return list, nil
	}
	listener := httptest.NewServer(New(c.Server, Options{Version: "test", Log: quiet, TrustLoopback: true, Pods: pods}))
	defer listener.Close()
	c.url = listener.URL
	got := c.node("list_pods", "{limit=2}")
	if whole(got, "total") != 3 || len(dug(got, "pods").Items()) != 2 || whole(got, "namespaces", "lab", "waiting") != 1 || whole(got, "namespaces", "shop", "all") != 1 {
		t.Error(got)
	}
	got = c.node("list_pods", "{namespace=lab; name=a}")
	if list := dug(got, "pods").Items(); len(list) != 1 || text(list[0], "reason") != "WeirPoolLimit" || text(list[0], "message") != "the pool is full" || text(list[0], "pool") != "lab" {
		t.Error(got)
	}
	if got = c.node("list_pods", "{state=running; filter=b}"); whole(got, "total") != 1 {
		t.Error(got)
	}
}
