package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/control/api"
	"github.com/weirhq/weir/internal/control/auth"
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
	usualGPUs           = []string{"nvidia.com/gpu", "amd.com/gpu"}
	usualAdministrators = []string{"system:masters"}
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

// Stream opens the live connection that a virtual node was asked for.
func (c localCaller) Stream(ctx context.Context, first *nodev1.NodeFrame) (nodeproto.NodeStream, error) {
	return nodeproto.OpenLocal(ctx, c.service, nodeproto.Peer{Node: first.GetNodeName()}, first), nil
}

// FetchContent returns a piece of a file that a job of a virtual node needs.
func (c localCaller) FetchContent(ctx context.Context, request *nodev1.FetchContentRequest) (*nodev1.FetchContentResponse, error) {
	return c.service.FetchContent(ctx, nodeproto.Peer{Node: request.GetNodeName()}, request)
}

// openKubernetes returns the driver of the configured cluster, nil if there is none.
func (s *Scheduler) openKubernetes(c *config.Scheduler) (*kube.Driver, error) {
	k := &c.Kubernetes
	if !k.Enabled.Value() {
		return nil, nil
	}
	client, cluster, err := kube.Connect(k.Kubeconfig.Value(), k.Context.Value(), "weir/"+s.version)
	if err != nil {
		return nil, err
	}
	settings := pictureOf(c, s.version)
	if name, given := k.PodsCA.Get(); given {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("scheduler/kubernetes/pods_ca: %w", err)
		}
		settings.CA = string(text)
	}
	figures, err := kube.FiguresWith(cluster, k.KubeletInsecure.Value())
	if err != nil {
		return nil, fmt.Errorf("scheduler/kubernetes: %w", err)
	}
	guests, err := kube.ConnectGuests(cluster, client.Discovery(), podOperations{s})
	if err != nil {
		return nil, err
	}
	s.log.Info("jobs are pods of a Kubernetes cluster", "api_server", cluster.Host, "namespace", k.Namespace.Value())
	s.onLead(s.beginKubernetes)
	objects, err := kube.ConnectAnyKind(k.Kubeconfig.Value(), k.Context.Value(), "weir/"+s.version)
	if err != nil {
		return nil, err
	}
	if k.ReviewTokens.Value() {
		s.reviewer = kube.NewReviewer(client, k.Administrators.Or(usualAdministrators))
	}
	s.steward = steward.New(steward.Options{Client: objects, Server: s.Server, Labels: k.TagLabels.Or(usualTagLabels), Log: s.log})
	return kube.New(kube.Options{
		Client: client, Caller: localCaller{s.Server.NodeService()}, Exec: kube.ExecWith(cluster), Term: s.Server.Term, Probe: kube.Probe(client), Picture: settings, Guests: guests,
		MaxWrites: float64(k.MaxWrites.Value()), Log: s.log,
		Alert:   func(message string) { s.Server.SetAlert(server.AlertKubernetes, message) },
		Figures: figures, FiguresAlert: func(message string) { s.Server.SetAlert(server.AlertFigures, message) },
	})
}

// review returns how tokens of Kubernetes are reviewed, nil if they are not accepted.
func (s *Scheduler) review() func(ctx context.Context, token string) (auth.Visitor, error) {
	if s.reviewer == nil {
		return nil
	}
	return func(ctx context.Context, token string) (auth.Visitor, error) {
		user, err := s.reviewer.Review(ctx, token)
		if errors.Is(err, kube.ErrToken) {
			err = fmt.Errorf("%w: %w", api.ErrForeignToken, err)
		}
		return auth.Visitor{User: user.User, Groups: user.Groups, Powerful: user.Administrator}, err
	}
}

// kubeCounts are the counts of the driver, nil without Kubernetes.
func (s *Scheduler) kubeCounts() func() kube.Counts {
	if s.kube == nil {
		return nil
	}
	return s.kube.Counts
}

// pods lists pods of others, nil without Kubernetes.
func (s *Scheduler) pods() func(ctx context.Context, namespace, name string) ([]picture.Pod, error) {
	if s.kube == nil {
		return nil
	}
	return s.kube.Pods
}

// pictureOf derives the settings of a picture from the configuration.
func pictureOf(c *config.Scheduler, version string) picture.Options {
	k := &c.Kubernetes
	settings := settingsOf(c)
	return picture.Options{
		Namespace: k.Namespace.Value(), ServiceAccount: k.ServiceAccount.Value(), DefaultImage: k.DefaultImage.Value(), InitImage: k.InitImage.Value(),
		TagLabels: k.TagLabels.Or(usualTagLabels), GPUResources: k.GPUResources.Or(usualGPUs), ToleratedTaints: k.Tolerated.Value(),
		NoShells: !k.Shells.Value(), URL: strings.TrimSuffix(k.PodsURL.Value(), "/"), Reserve: k.Reserve.Value().OrZero(), LostAfter: settings.Core.NodeTimeout, Version: version,
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
