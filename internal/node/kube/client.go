package kube

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Client calls an API server.
type Client = kubernetes.Interface

// Connect returns a client of the cluster that [Configure] chooses, and how it reaches the cluster.
func Connect(kubeconfig, context, agent string) (client kubernetes.Interface, config *rest.Config, err error) {
	config, _, err = Configure(kubeconfig, context, agent)
	if err != nil {
		return nil, nil, err
	}
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("no Kubernetes cluster: %w", err)
	}
	return set, config, nil
}

// Configure returns how to reach a cluster: that of the pod that this process runs in, or the one of a kubeconfig file. With
// neither a file nor a context, the pod's account comes first, then the files that kubectl would use. name is that of the
// kubeconfig's context, empty in a pod.
func Configure(kubeconfig, context, agent string) (config *rest.Config, name string, err error) {
	config, err = rest.InClusterConfig()
	if kubeconfig != "" || context != "" || errors.Is(err, rest.ErrNotInCluster) {
		rules := clientcmd.NewDefaultClientConfigLoadingRules()
		rules.ExplicitPath = kubeconfig
		files := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
		name = context
		if raw, err := files.RawConfig(); err == nil && name == "" {
			name = raw.CurrentContext
		}
		config, err = files.ClientConfig()
	}
	if err != nil {
		return nil, "", fmt.Errorf("no Kubernetes cluster: %w", err)
	}
	config.UserAgent = agent
	config.QPS = -1 // the writer has its own rate; the usual limit of 5 per second makes schedulers slow
	return config, name, nil
}

// Namespace returns the namespace that kubectl uses: that of the kubeconfig's context, "default" if it has none.
func Namespace() string {
	files := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{})
	name, _, err := files.Namespace()
	if err != nil || name == "" {
		return metav1.NamespaceDefault
	}
	return name
}

// ConnectAnyKind returns a client for kinds that this program has no types of, such as custom resources.
func ConnectAnyKind(kubeconfig, context, agent string) (dynamic.Interface, error) {
	config, _, err := Configure(kubeconfig, context, agent)
	if err != nil {
		return nil, err
	}
	return dynamic.NewForConfig(config)
}

// Probe returns a function that asks the API server whether it is there.
func Probe(client kubernetes.Interface) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		return client.Discovery().RESTClient().Get().AbsPath("/livez").Do(ctx).Error()
	}
}
