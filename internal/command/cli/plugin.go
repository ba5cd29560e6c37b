package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirhq/weir/internal/node/kube"
)

// pluginName is the name of this program as a plugin of kubectl, which calls it for `kubectl weir`.
const pluginName = "kubectl-weir"

// isPlugin reports whether this program was called by a plugin's name: kubectl-weir, or kubectl_weir-linux as krew installs it.
func isPlugin(program string) bool {
	return strings.HasPrefix(strings.ReplaceAll(filepath.Base(program), "_", "-"), pluginName)
}

// throughKubernetes reaches the scheduler in the cluster that kubectl uses, as the user that kubectl is there.
func throughKubernetes(ctx context.Context) (s server, err error) {
	tunnel, err := kube.OpenTunnel(ctx, "", "", pluginName+"/"+readBuild().Version)
	if err != nil {
		return s, err
	}
	context.AfterFunc(ctx, tunnel.Close)
	s.address, s.addressFrom = tunnel.Address, "leads to the Service "+tunnel.Service
	s.token, s.tokenFrom = tunnel.Token, "your kubeconfig"
	return s, nil
}

// callsAsPlugin reports whether the scheduler is to be found through Kubernetes.
func callsAsPlugin() bool { return isPlugin(os.Args[0]) }
