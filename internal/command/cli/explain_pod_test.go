package cli

import (
	"strings"
	"testing"

	"github.com/weirhq/weir/client"
)

func TestNamesOfPodsAreRead(t *testing.T) {
	for text, want := range map[string][2]string{"pod:lab/web-0": {"lab", "web-0"}, "pod/web-0": {"", "web-0"}, "po/x": {"", "x"}, "pod:x": {"", "x"}} {
		if namespace, name, isPod := podName(text); !isPod || namespace != want[0] || name != want[1] {
			t.Errorf("%s: %q, %q, %v", text, namespace, name, isPod)
		}
	}
	for _, text := range []string{"*lab/Pod/pods", "research", "pool:pod"} {
		if _, _, isPod := podName(text); isPod {
			t.Errorf("%s is no pod", text)
		}
	}
}

func TestTheNamespaceOfAPodIsThatOfItsNameOrOfTheFlag(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nowhere")
	for given, want := range map[[2]string]string{{"lab", ""}: "lab", {"lab", "lab"}: "lab", {"", "shop"}: "shop", {"", ""}: "default"} {
		if got, err := podNamespace(given[0], given[1]); got != want || err != nil {
			t.Errorf("%q: %q, %v", given, got, err)
		}
	}
	if _, err := podNamespace("lab", "shop"); err == nil || !strings.Contains(err.Error(), "namespace lab by its name, and in shop by --namespace") {
		t.Errorf("%v", err)
	}
}

func TestAPodThatWaitsIsExplainedWithTheReasonOfItsCondition(t *testing.T) {
	var out strings.Builder
	err := writePodExplanation(&out, &client.Pod{
		Namespace: "lab", Name: "web-0", State: "waiting", Alias: "*lab/Deployment/web", Pool: "lab", Reason: "WeirPoolLimit",
		Message: `pool "lab" of tree "default" has reached its limit of cpu (resource_limits); kubectl weir explain pod/web-0`,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = `Pod lab/web-0 is waiting.
It waits: WeirPoolLimit: pool "lab" of tree "default" has reached its limit of cpu (resource_limits).
It is a job of operation *lab/Deployment/web in pool lab.
`
	if out.String() != want {
		t.Errorf("%s", out.String())
	}
}
