package expected

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Tool is a program that tests start and that a module beside this one builds. That takes minutes, so it is built once for
// each state of the module's go.sum, and of its own source if that is in the module, and kept in the user's cache.
type Tool struct {
	Name   string
	Module string // its directory below test/
	Source string // its package
}

// The tools of tests with Kubernetes.
var (
	Helm      = Tool{"helm", "helm", "helm.sh/helm/v4/cmd/helm"}
	Etcd      = Tool{"etcd", "controlplane", "go.etcd.io/etcd/server/v3"}
	APIServer = Tool{"kube-apiserver", "controlplane", "k8s.io/kubernetes/cmd/kube-apiserver"}
	Oracle    = Tool{"oracle", "controlplane", "./oracle"} // the filters of kube-scheduler
	// Scheduler is kube-scheduler itself. Only benchmarks start it, and they build it.
	Scheduler = Tool{"kube-scheduler", "controlplane", "k8s.io/kubernetes/cmd/kube-scheduler"}
	// Kubelet and Kubectl are for scripts/kubelet.sh, which builds them.
	Kubelet = Tool{"kubelet", "kubelet", "k8s.io/kubernetes/cmd/kubelet"}
	Kubectl = Tool{"kubectl", "kubelet", "k8s.io/kubernetes/cmd/kubectl"}
)

// Tools are all of them.
var Tools = []Tool{Helm, Etcd, APIServer, Oracle, Scheduler, Kubelet, Kubectl}

var (
	// ErrNotBuilt means that a tool has not been built yet.
	ErrNotBuilt = errors.New("it has not been built: make kube builds it")
	// ErrNoSources means that the sources of a tool cannot be fetched here.
	ErrNoSources = errors.New("its sources cannot be fetched")
)

// fetchLimit is how long the sources of a tool may take to arrive.
const fetchLimit = 10 * time.Minute

// place returns the directory of the tool's module and the file where the tool is once it is built.
func (t Tool) place() (module, program string, err error) {
	root, err := os.Getwd()
	if err != nil {
		return "", "", err
	}
	sums, err := os.ReadFile(filepath.Join(root, "test", t.Module, "go.sum"))
	for errors.Is(err, os.ErrNotExist) && root != filepath.Dir(root) {
		root = filepath.Dir(root)
		sums, err = os.ReadFile(filepath.Join(root, "test", t.Module, "go.sum"))
	}
	if err != nil {
		return "", "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", "", err
	}
	if strings.HasPrefix(t.Source, "./") {
		own, err := os.ReadFile(filepath.Join(root, "test", t.Module, t.Source, "main.go"))
		if err != nil {
			return "", "", err
		}
		sums = append(sums, own...)
	}
	sum := sha256.Sum256(sums)
	return filepath.Join(root, "test", t.Module), filepath.Join(cache, "weir", t.Module, hex.EncodeToString(sum[:8]), t.Name), nil
}

// Find returns the tool, or ErrNotBuilt.
func (t Tool) Find() (program string, err error) {
	_, program, err = t.place()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("%s: %w", t.Name, ErrNotBuilt)
	}
	return program, nil
}

// Need returns the tool, or skips the test.
func (t Tool) Need(test *testing.T) string {
	test.Helper()
	program, err := t.Find()
	if err != nil {
		test.Skip("THIS TEST NEEDS A TOOL: ", err)
	}
	return program
}

// Build builds the tool unless it is there. Where its sources cannot be fetched the error is ErrNoSources.
func (t Tool) Build() error {
	if _, err := t.Find(); err == nil {
		return nil
	}
	module, program, err := t.place()
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "building %s; this takes minutes, once\n", t.Name)
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), fetchLimit)
	defer cancel()
	fetch := exec.CommandContext(ctx, "go", "list", "-deps", t.Source)
	fetch.Dir = module
	if _, err := fetch.Output(); err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, failed.Stderr)
		}
		return fmt.Errorf("%s: %w: %w", t.Name, ErrNoSources, err)
	}
	fresh := fmt.Sprint(program, ".", os.Getpid()) // another process may build it too
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", fresh, t.Source)
	build.Dir, build.Stderr = module, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build %s: %w", t.Source, err)
	}
	return os.Rename(fresh, program)
}
