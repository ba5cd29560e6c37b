// Package kube tests the Kubernetes driver against a real API server and etcd, with pretended kubelets. Both programs come
// from the module test/controlplane; make test and make kube build them where their sources can be fetched. Without them the
// tests are skipped.
package kube

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/weirhq/weir/test/expected"
)

// Tokens of the test's users: an administrator, and the scheduler's account.
const (
	adminToken = "admin-token"
	weirToken  = "weir-token"
)

// findPrograms returns the directory of the programs, and why there is none.
func findPrograms() (directory string, err error) {
	if _, err := expected.Etcd.Find(); err != nil {
		return "", err
	}
	program, err := expected.APIServer.Find()
	return filepath.Dir(program), err
}

// process is a program that a test has started.
type process struct {
	command *exec.Cmd
	ended   chan struct{}
	log     string
}

func startProcess(log, program string, arguments ...string) (*process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	command := exec.Command(program, arguments...)
	command.Stdout, command.Stderr = file, file
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &process{command: command, ended: make(chan struct{}), log: log}
	go func() {
		_ = command.Wait() // however it ended
		close(p.ended)
	}()
	return p, nil
}

// kill ends the process at once.
func (p *process) kill() {
	_ = p.command.Process.Kill() // it may have ended by itself
	<-p.ended
}

// controlPlane is an API server with its etcd.
type controlPlane struct {
	directory, programs string
	records             bool
	address             string
	etcdAddress         string
	etcd, server        *process
	admin               *kubernetes.Clientset
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

// startControlPlane starts both programs on fresh ports and applies what packaging/kubernetes/weir.yaml has. The API server
// records the scheduler's calls if that is wanted.
func startControlPlane(programs, directory string, records bool) (c *controlPlane, err error) {
	c = &controlPlane{directory: directory, programs: programs, records: records}
	if c.address, err = freeAddress(); err != nil {
		return nil, err
	}
	if c.etcdAddress, err = freeAddress(); err != nil {
		return nil, err
	}
	peer, err := freeAddress()
	if err != nil {
		return nil, err
	}
	if err := writeKeys(directory); err != nil {
		return nil, err
	}
	tokens := adminToken + ",admin,1,system:masters\n" + weirToken + ",system:serviceaccount:weir-system:weir,2,system:serviceaccounts\n"
	if err := os.WriteFile(filepath.Join(directory, "tokens.csv"), []byte(tokens), 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(directory, "audit.yaml"), []byte(auditPolicy), 0o600); err != nil {
		return nil, err
	}
	c.etcd, err = startProcess(filepath.Join(directory, "etcd.log"), filepath.Join(programs, "etcd"),
		"--data-dir", filepath.Join(directory, "etcd"), "--unsafe-no-fsync", "--listen-client-urls", "http://"+c.etcdAddress,
		"--advertise-client-urls", "http://"+c.etcdAddress, "--listen-peer-urls", "http://"+peer,
		"--initial-advertise-peer-urls", "http://"+peer, "--initial-cluster", "default=http://"+peer)
	if err != nil {
		return nil, err
	}
	if err := c.startServer(); err != nil {
		return nil, err
	}
	c.admin, err = kubernetes.NewForConfig(c.config(adminToken))
	if err != nil {
		return nil, err
	}
	if err := c.awaitReady(); err != nil {
		return nil, err
	}
	return c, c.apply("../../packaging/kubernetes/weir.yaml")
}

// config is how a user reaches the API server.
func (c *controlPlane) config(token string) *rest.Config {
	return &rest.Config{Host: "https://" + c.address, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1}
}

// kubeconfig writes the scheduler's kubeconfig and returns its name.
func (c *controlPlane) kubeconfig() (string, error) { return c.kubeconfigOf(weirToken) }

// kubeconfigOf writes the kubeconfig of a user and returns its name.
func (c *controlPlane) kubeconfigOf(token string) (string, error) {
	return c.kubeconfigAt("https://"+c.address, token, filepath.Join(c.directory, "kubeconfig-"+token))
}

// kubeconfigAt writes the kubeconfig of a user who reaches the API server at an address.
func (c *controlPlane) kubeconfigAt(address, token, name string) (string, error) {
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: weir}}]
clusters: [{name: test, cluster: {server: "%s", insecure-skip-tls-verify: true}}]
users: [{name: weir, user: {token: %s}}]
`, address, token)
	return name, os.WriteFile(name, []byte(text), 0o600)
}

func (c *controlPlane) startServer() (err error) {
	_, port, _ := net.SplitHostPort(c.address)
	file := func(name string) string { return filepath.Join(c.directory, name) }
	arguments := []string{
		"--etcd-servers=http://" + c.etcdAddress, "--bind-address=127.0.0.1", "--secure-port=" + port, "--cert-dir=" + file("certs"),
		"--service-account-key-file=" + file("sa.pub"), "--service-account-signing-key-file=" + file("sa.key"),
		"--service-account-issuer=https://weir.test", "--token-auth-file=" + file("tokens.csv"), "--authorization-mode=RBAC",
		"--service-cluster-ip-range=10.0.0.0/24", "--feature-gates=GenericWorkload=true,GangScheduling=true", "--runtime-config=scheduling.k8s.io/v1alpha2=true",
	}
	if c.records {
		arguments = append(arguments, "--audit-policy-file="+file("audit.yaml"), "--audit-log-path="+file("audit.log"))
	}
	c.server, err = startProcess(file("apiserver.log"), filepath.Join(c.programs, "kube-apiserver"), arguments...)
	return err
}

func (c *controlPlane) awaitReady() error {
	var err error
	ready := expected.Soon(func() bool {
		select {
		case <-c.server.ended:
			return true
		default:
		}
		_, err = c.admin.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(context.Background())
		return err == nil
	})
	select {
	case <-c.server.ended:
		return errors.New("the API server has ended:\n" + tail(c.server.log))
	default:
	}
	if !ready {
		return fmt.Errorf("the API server is not ready: %w\n%s", err, tail(c.server.log))
	}
	return nil
}

// apply applies the objects of a file as an administrator, as kubectl apply --server-side does.
func (c *controlPlane) apply(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return c.applyText(text, metav1.ApplyOptions{FieldManager: "test"})
}

// applyText applies the objects of a text. In a dry run, objects whose namespace is only part of the text are checked in
// the namespace default.
func (c *controlPlane) applyText(text []byte, o metav1.ApplyOptions) error {
	client, err := dynamic.NewForConfig(c.config(adminToken))
	if err != nil {
		return err
	}
	groups, err := restmapper.GetAPIGroupResources(c.admin.Discovery())
	if err != nil {
		return err
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var object unstructured.Unstructured
		if err := documents.Decode(&object.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if len(object.Object) == 0 {
			continue
		}
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return err
		}
		resource := dynamic.ResourceInterface(client.Resource(mapping.Resource))
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			if len(o.DryRun) > 0 {
				object.SetNamespace("default")
			}
			resource = client.Resource(mapping.Resource).Namespace(object.GetNamespace())
		}
		if _, err := resource.Apply(context.Background(), object.GetName(), &object, o); err != nil {
			return fmt.Errorf("%s %s: %w", kind.Kind, object.GetName(), err)
		}
	}
}

// writeKeys writes the key with which the API server signs tokens of service accounts.
func writeKeys(directory string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(directory, "sa.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(directory, "sa.pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o600)
}

// tail returns the last lines of a file.
func tail(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}

func (c *controlPlane) stop() {
	for _, p := range []*process{c.server, c.etcd} {
		if p != nil {
			p.kill()
		}
	}
}

// outage kills the API server and starts it again on the same address.
func (c *controlPlane) outage(t *testing.T, during func()) {
	t.Helper()
	c.server.kill()
	during()
	if err := c.startServer(); err != nil {
		t.Fatal(err)
	}
	if err := c.awaitReady(); err != nil {
		t.Fatal(err)
	}
}
