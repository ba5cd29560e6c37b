package app

import (
	"context"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/steward"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/node/kube"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/node/picture"
	"github.com/weirhq/weir/internal/value/notation"
)

// Defaults of lists in the section kubernetes.
var (
	usualTagLabels = []string{
		"kubernetes.io/hostname", "kubernetes.io/arch", "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
		"node.kubernetes.io/instance-type", "nvidia.com/gpu.product",
	}
	usualGPUs = []string{"nvidia.com/gpu", "amd.com/gpu"}
)

// localCaller calls the scheduler of this process.
type localCaller struct{ service nodeproto.Service }

// Register opens the session of a virtual node.
func (c localCaller) Register(ctx context.Context, request *nodev1.RegisterRequest) (*nodev1.RegisterResponse, error) {
	return c.service.Register(ctx, nodeproto.Peer{Node: request.GetNode().GetName()}, request)
}

// Heartbeat reports what has changed on a virtual node.
func (c localCaller) Heartbeat(ctx context.Context, request *nodev1.HeartbeatRequest) (*nodev1.HeartbeatResponse, error) {
	return c.service.Heartbeat(ctx, nodeproto.Peer{Node: request.GetNodeName()}, request)
}

// openKubernetes returns the driver of the configured cluster, nil if there is none.
func (s *Scheduler) openKubernetes(c *config.Scheduler) (*kube.Driver, error) {
	k := &c.Kubernetes
	if !k.Enabled.Value() {
		return nil, nil
	}
	client, address, err := kube.Connect(k.Kubeconfig.Value(), k.Context.Value(), "weir/"+s.version)
	if err != nil {
		return nil, err
	}
	reach, _, err := kube.Configure(k.Kubeconfig.Value(), k.Context.Value(), "weir/"+s.version)
	if err != nil {
		return nil, err
	}
	guests, err := kube.ConnectGuests(reach, client.Discovery(), podOperations{s})
	if err != nil {
		return nil, err
	}
	s.log.Info("jobs are pods of a Kubernetes cluster", "api_server", address, "namespace", k.Namespace.Value())
	s.onLead(s.beginKubernetes)
	objects, err := kube.ConnectAnyKind(k.Kubeconfig.Value(), k.Context.Value(), "weir/"+s.version)
	if err != nil {
		return nil, err
	}
	s.steward = steward.New(steward.Options{Client: objects, Server: s.Server, Labels: k.TagLabels.Or(usualTagLabels), Log: s.log})
	return kube.New(kube.Options{
		Client: client, Caller: localCaller{s.Server.NodeService()}, Term: s.Server.Term, Probe: kube.Probe(client), Picture: pictureOf(c, s.version), Guests: guests,
		MaxWrites: float64(k.MaxWrites.Value()), Log: s.log,
		Alert: func(message string) { s.Server.SetAlert(server.AlertKubernetes, message) },
	})
}

// pictureOf derives the settings of a picture from the configuration.
func pictureOf(c *config.Scheduler, version string) picture.Options {
	k := &c.Kubernetes
	settings := settingsOf(c)
	return picture.Options{
		Namespace: k.Namespace.Value(), ServiceAccount: k.ServiceAccount.Value(), DefaultImage: k.DefaultImage.Value(), InitImage: k.InitImage.Value(),
		TagLabels: k.TagLabels.Or(usualTagLabels), GPUResources: k.GPUResources.Or(usualGPUs), ToleratedTaints: k.Tolerated.Value(),
		Reserve: k.Reserve.Value().OrZero(), LostAfter: settings.Core.NodeTimeout, Version: version,
	}
}

// firstPools is the tree of a cluster that has none yet: every user has a pool below users.
const firstPools = `
default_parent_pool: users
pools:
  users: {}
`

// beginKubernetes creates a tree for all nodes if there is none.
func (s *Scheduler) beginKubernetes() error {
	if len(s.Server.Trees().List) > 0 {
		return nil
	}
	v, err := notation.Parse("", []byte(firstPools))
	if err != nil {
		return err
	}
	tree, _, err := pooltree.FromValue(v, pooltree.Options{})
	if err != nil {
		return err
	}
	return s.Server.EditTrees(context.Background(), server.Caller{User: "root", Command: "kubernetes"}, func(trees *server.Trees) (*server.Trees, error) {
		if len(trees.List) > 0 {
			return trees, nil
		}
		next := trees.Put("default", tree)
		next.Default = "default"
		return next, nil
	})
}
