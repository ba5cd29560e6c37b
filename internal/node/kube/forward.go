package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/weirhq/weir/internal/node/picture"
)

// ServiceLabel with the value "api" is on the Service of the scheduler. HomeNamespace is where it is usually.
const (
	ServiceLabel  = picture.Prefix + "service"
	HomeNamespace = "weir-system"
)

// Tunnel is a connection to the scheduler inside a cluster.
type Tunnel struct {
	// Address is a URL on this machine, Token the token of the kubeconfig's user, empty if they have none, and Service the
	// scheduler's Service.
	Address, Token, Service string
	Close                   func()
}

// OpenTunnel finds the scheduler of a cluster by the label of its Service and forwards a port of this machine to one of its
// pods, with the permissions of the kubeconfig's user.
func OpenTunnel(ctx context.Context, kubeconfig, kubeContext, agent string) (*Tunnel, error) {
	config, _, err := Configure(kubeconfig, kubeContext, agent)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	token, err := tokenOf(config)
	if err != nil {
		return nil, err
	}
	service, err := findService(ctx, client)
	if err != nil {
		return nil, err
	}
	pod, port, err := findPod(ctx, client, service)
	if err != nil {
		return nil, err
	}
	local, closeTunnel, err := forward(ctx, config, client, pod, port)
	if err != nil {
		return nil, fmt.Errorf("no connection to pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	scheme := "http"
	if protocol := service.Spec.Ports[0].AppProtocol; protocol != nil && *protocol == "https" {
		scheme = "https"
	}
	return &Tunnel{
		Address: fmt.Sprintf("%s://127.0.0.1:%d", scheme, local), Token: token, Service: service.Namespace + "/" + service.Name, Close: closeTunnel,
	}, nil
}

// findService returns the Service of the only scheduler. Users who may not list Services of the whole cluster find it in its
// usual namespace.
func findService(ctx context.Context, client Client) (*corev1.Service, error) {
	options := metav1.ListOptions{LabelSelector: ServiceLabel + "=api"}
	list, err := client.CoreV1().Services("").List(ctx, options)
	where := "the cluster"
	if apierrors.IsForbidden(err) {
		where = "the namespace " + HomeNamespace + " (you may not list Services elsewhere)"
		list, err = client.CoreV1().Services(HomeNamespace).List(ctx, options)
	}
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(list.Items, func(s corev1.Service) bool { return len(s.Spec.Ports) == 0 || len(s.Spec.Selector) == 0 })
	switch len(found) {
	case 1:
		return &found[0], nil
	case 0:
		return nil, fmt.Errorf("%s has no Weir: no Service has the label %s=api", where, ServiceLabel)
	}
	var names []string
	for i := range found {
		names = append(names, found[i].Namespace+"/"+found[i].Name)
	}
	slices.Sort(names)
	return nil, fmt.Errorf("%s has several schedulers: %s. Forward a port to one of them with kubectl port-forward and name it by --addr", where, strings.Join(names, ", "))
}

// findPod returns a ready pod of a Service, and its port.
func findPod(ctx context.Context, client Client, service *corev1.Service) (*corev1.Pod, int32, error) {
	list, err := client.CoreV1().Pods(service.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(service.Spec.Selector).String()})
	if err != nil {
		return nil, 0, err
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for i := range list.Items {
		pod := &list.Items[i]
		ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil || !ready {
			continue
		}
		if port := portOf(service.Spec.Ports[0], pod); port != 0 {
			return pod, port, nil
		}
	}
	return nil, 0, fmt.Errorf("no pod of the Service %s/%s is ready", service.Namespace, service.Name)
}

// portOf returns the port of a pod that a port of a Service leads to, zero if there is none.
func portOf(of corev1.ServicePort, pod *corev1.Pod) int32 {
	if of.TargetPort.Type == intstr.Int {
		if of.TargetPort.IntVal == 0 {
			return of.Port
		}
		return of.TargetPort.IntVal
	}
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			if port.Name == of.TargetPort.StrVal {
				return port.ContainerPort
			}
		}
	}
	return 0
}

// forward forwards a free port of this machine to a port of a pod.
func forward(ctx context.Context, config *rest.Config, client *kubernetes.Clientset, pod *corev1.Pod, port int32) (local uint16, stop func(), err error) {
	address := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return 0, nil, err
	}
	older := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, address)
	newer, err := portforward.NewSPDYOverWebsocketDialer(address, config)
	if err != nil {
		return 0, nil, err
	}
	dialer := portforward.NewFallbackDialer(newer, older, func(err error) bool { return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err) })
	end, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, end, ready, io.Discard, io.Discard)
	if err != nil {
		return 0, nil, err
	}
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ctx.Done():
		close(end)
		return 0, nil, ctx.Err()
	case err := <-ended:
		if err == nil {
			err = errors.New("the connection was closed")
		}
		return 0, nil, err
	case <-ready:
	}
	ports, err := forwarder.GetPorts()
	if err != nil || len(ports) == 0 {
		close(end)
		return 0, nil, errors.Join(err, errors.New("no port is forwarded"))
	}
	return ports[0].Local, func() { close(end); <-ended }, nil
}

// tokenOf returns the token with which the API server knows the user: that of the kubeconfig, of its file, or of the program
// that it names. It is empty if the user has another proof, such as a certificate.
func tokenOf(config *rest.Config) (token string, err error) {
	wrapped, err := rest.HTTPWrappersForConfig(config, carrier(func(r *http.Request) {
		token = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	}))
	if err != nil {
		return "", err
	}
	request, err := http.NewRequest(http.MethodGet, "https://kubernetes.invalid/", nil)
	if err != nil {
		return "", err
	}
	response, err := wrapped.RoundTrip(request)
	if err != nil {
		return "", err
	}
	return token, response.Body.Close()
}

// carrier looks at a request and sends it nowhere.
type carrier func(*http.Request)

// RoundTrip answers at once.
func (c carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	c(r)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}
