package cli

import "testing"

func TestThisProgramIsAPluginOfKubectlByItsName(t *testing.T) {
	for name, want := range map[string]bool{
		"/usr/local/bin/kubectl-weir": true, "kubectl_weir": true, "kubectl-weir_linux_amd64": true, "weir": false, "/opt/kubectl-weir/weir": false, "kubectl": false,
	} {
		if got := isPlugin(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
