package app

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/node/kube"
	"github.com/weirhq/weir/internal/node/pretender"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Plan is what `weir up --kubernetes` would do to a cluster.
type Plan struct {
	// Context and Address name the cluster.
	Context, Address string
	// Harmless reports whether the cluster is one for trying things: its API server is on this machine, or it is one of kwok's.
	Harmless bool
	// Steps are the changes, in the order in which they happen.
	Steps []string
}

// PlanUp returns what `weir up --kubernetes` would do with a configuration. It changes nothing.
func PlanUp(c *config.Config) (*Plan, error) {
	k := &c.Scheduler.Kubernetes
	config, name, err := kube.Configure(k.Kubeconfig.Value(), k.Context.Value(), "weir")
	if err != nil {
		return nil, err
	}
	p := &Plan{Context: name, Address: config.Host, Harmless: strings.HasPrefix(name, "kwok-") || isLoopback(config.Host)}
	p.Steps = append(p.Steps, fmt.Sprintf("create the namespace %s with the service account %s, unless they exist", k.Namespace.Value(), k.ServiceAccount.Value()))
	if n := c.Up.Kwok.Value(); n > 0 {
		p.Steps = append(p.Steps, fmt.Sprintf("create %d pretended nodes, %s to %s, and run jobs on them only", n, pretender.NodeName(1), pretender.NodeName(n)))
	}
	p.Steps = append(p.Steps, fmt.Sprintf("run jobs as pods of the namespace %s", k.Namespace.Value()))
	if c.Up.DataDir.Value() == "" {
		p.Steps = append(p.Steps, "when it stops, delete these pods and the pretended nodes; the namespace stays")
	} else {
		p.Steps = append(p.Steps, "when it stops, leave the pods and the pretended nodes for the next start")
	}
	return p, nil
}

// isLoopback reports whether the address of an API server is on this machine.
func isLoopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

// upKubernetes is the part of a whole cluster that is in Kubernetes.
type upKubernetes struct {
	client    kube.Client
	namespace string
	pretender *pretender.Pretender // nil without pretended nodes
	total     resource.Amounts     // of the pretended nodes
}

// usualPretended is what a pretended node has, unless the user sets something else.
var usualPretended = resource.Amounts{resource.CPU: 32_00, resource.Memory: 128 << 30, resource.UserSlots: 110}

// openKubernetes prepares the cluster.
func (u *Up) openKubernetes(ctx context.Context, c *config.Config, version string) error {
	k := &c.Scheduler.Kubernetes
	client, _, err := kube.Connect(k.Kubeconfig.Value(), k.Context.Value(), "weir/"+version)
	if err != nil {
		return err
	}
	if err := kube.Prepare(ctx, client, k.Namespace.Value(), k.ServiceAccount.Value()); err != nil {
		return err
	}
	u.kubernetes = &upKubernetes{client: client, namespace: k.Namespace.Value()}
	n := c.Up.Kwok.Value()
	if n == 0 {
		return nil
	}
	amounts := c.Up.Resources.Value().Or(usualPretended)
	for range n {
		u.kubernetes.total = u.kubernetes.total.Add(amounts)
	}
	u.kubernetes.pretender, err = pretender.New(ctx, pretender.Options{Client: client, Nodes: n, Resources: amounts, Log: u.log})
	return err
}

// inKubernetes changes the configuration of a scheduler to one that runs jobs as pods, also on pretended nodes.
func inKubernetes(c *config.Scheduler) {
	c.Kubernetes.Enabled = document.Some(true)
	c.Kubernetes.TagLabels = document.Some(append(slices.Clone(c.Kubernetes.TagLabels.Or(usualTagLabels)), pretender.Label))
	c.Kubernetes.Tolerated = document.Some(append(slices.Clone(c.Kubernetes.Tolerated.Value()), pretender.Label))
}

// pools are the pools of a cluster that has none yet.
func (k *upKubernetes) pools() string {
	if k.pretender == nil {
		return firstPools
	}
	return "nodes_filter: " + pretender.Tag + "\n" + examplePools(k.total)
}

// isRegistered reports whether all pretended nodes have registered.
func (k *upKubernetes) isRegistered(s *Scheduler) bool {
	for i := 1; k.pretender != nil && i <= k.pretender.Nodes; i++ {
		if record, there := s.Server.Node(pretender.NodeName(i)); !there || !record.Online {
			return false
		}
	}
	return true
}

// clearPatience is how long the pods and pretended nodes may take to be deleted.
const clearPatience = time.Minute

// clear deletes what is in the cluster.
func (k *upKubernetes) clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearPatience)
	defer cancel()
	_, err := kube.Release(ctx, k.client, k.namespace, true)
	if k.pretender != nil {
		err = errors.Join(err, k.pretender.Remove(ctx))
	}
	return err
}
