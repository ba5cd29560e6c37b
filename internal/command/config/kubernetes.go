package config

import (
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Kubernetes configures the scheduler's nodes in a Kubernetes cluster.
type Kubernetes struct {
	Enabled                            opt[bool]
	Kubeconfig, Context                opt[string]
	Namespace, ServiceAccount          opt[string]
	DefaultImage, InitImage            opt[string]
	PodsURL, PodsCA                    opt[string]
	TagLabels, GPUResources, Tolerated opt[[]string]
	ReviewTokens                       opt[bool]
	Administrators                     opt[[]string]
	Reserve                            opt[resource.Partial]
	Shells, KubeletInsecure            opt[bool]
	MaxWrites                          opt[int]
}

// texts is a list of different texts.
var texts = document.Distinct(document.ListOf(document.Words), func(a, b string) bool { return a == b })

func kubernetesGroup() *group[Kubernetes] {
	return newGroup([]row[Kubernetes]{
		fixed("enabled", "Run jobs as pods of a Kubernetes cluster: every node of the cluster is a node of Weir.",
			func(c *Kubernetes) *opt[bool] { return &c.Enabled }, document.Bools.Default(false)).flag("kubernetes").common(),
		fixed("kubeconfig", "File that says how to reach the cluster. Unset: the account of the pod that the scheduler runs in, else what kubectl uses.",
			func(c *Kubernetes) *opt[string] { return &c.Kubeconfig }, document.Words).flag("kubeconfig").common(),
		fixed("context", "The context of the kubeconfig. Unset: the current one.",
			func(c *Kubernetes) *opt[string] { return &c.Context }, document.Words).flag("kube-context").common(),
		fixed("namespace", "Where the pods of jobs are. It must exist.",
			func(c *Kubernetes) *opt[string] { return &c.Namespace }, document.Words.Default("weir-jobs")),
		fixed("service_account", "The account of the pods, in the same namespace. It needs no permissions.",
			func(c *Kubernetes) *opt[string] { return &c.ServiceAccount }, document.Words.Default("weir-job")),
		fixed("default_image", "The image of jobs whose task has no docker_image. It must have /bin/sh.",
			func(c *Kubernetes) *opt[string] { return &c.DefaultImage }, document.Words.Default("debian:stable-slim")),
		fixed("init_image", "The image of Weir, which brings the first process of every job into its pod: the target scheduler of packaging/Containerfile.",
			func(c *Kubernetes) *opt[string] { return &c.InitImage }, document.Words.Default("weir")),
		fixed("pods_url", "Where pods reach the scheduler, such as http://weir.weir-system:7070: for files above 512 KiB and for artifacts. Unset: jobs that need it fail with the reason.",
			func(c *Kubernetes) *opt[string] { return &c.PodsURL }, document.Words),
		fixed("pods_ca", "File with the certificates, in PEM, by which pods know the scheduler at pods_url. Unset: those of their images.",
			func(c *Kubernetes) *opt[string] { return &c.PodsCA }, document.Words),
		fixed("tag_labels", "Labels of nodes that become tags KEY=VALUE, for the filters of trees, pools and operations. Unset: zone, instance type, host name, architecture and the model of GPUs.",
			func(c *Kubernetes) *opt[[]string] { return &c.TagLabels }, texts),
		fixed("gpu_resources", "Extended resources that are GPUs. A node offers the first of them that it has. Unset: nvidia.com/gpu and amd.com/gpu.",
			func(c *Kubernetes) *opt[[]string] { return &c.GPUResources }, texts),
		fixed("tolerated_taints", "Keys of taints in spite of which nodes get jobs. Nodes with other taints that forbid scheduling get none.",
			func(c *Kubernetes) *opt[[]string] { return &c.Tolerated }, texts),
		fixed("reserve", "What each node keeps for things other than jobs, beyond what its pods request.",
			func(c *Kubernetes) *opt[resource.Partial] { return &c.Reserve }, resources),
		fixed("shells", "Users may open shells in their jobs (weir job shell, weir job exec).",
			func(c *Kubernetes) *opt[bool] { return &c.Shells }, document.Bools.Default(true)),
		fixed("kubelet_insecure_tls", "Do not check the certificates of kubelets, which are asked for the use of memory and CPU. Many clusters give kubelets certificates that nobody has signed.",
			func(c *Kubernetes) *opt[bool] { return &c.KubeletInsecure }, document.Bools.Default(false)),
		fixed("review_tokens", "Accept tokens of Kubernetes: its API server says whose they are, and access lists may have its users and groups.",
			func(c *Kubernetes) *opt[bool] { return &c.ReviewTokens }, document.Bools.Default(true)),
		fixed("administrators", "Users and groups of Kubernetes who may do everything here. Unset: system:masters.",
			func(c *Kubernetes) *opt[[]string] { return &c.Administrators }, texts),
		fixed("max_writes_per_second", "The most writes per second that the API server gets. It gets fewer when it says that it gets too many, or takes more than a second to answer.",
			func(c *Kubernetes) *opt[int] { return &c.MaxWrites }, document.Between(document.Ints, 5, 100_000).Default(1500)),
	})
}
