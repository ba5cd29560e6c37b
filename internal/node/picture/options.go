package picture

import (
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// Options are the settings of a picture.
type Options struct {
	// Epoch is the leader's term.
	Epoch uint64
	// Namespace is where pods are created.
	Namespace string
	// DefaultImage runs tasks without docker_image; InitImage has weir.
	DefaultImage, InitImage string
	// ServiceAccount is the pods' account; it needs no permissions.
	ServiceAccount string
	// TagLabels are the labels of nodes that become tags key=value.
	TagLabels []string
	// GPUResources are the extended resources that are GPUs. A node offers one of them.
	GPUResources []string
	// ToleratedTaints are the keys of taints in spite of which nodes get jobs.
	ToleratedTaints []string
	// NoShells forbids shells in jobs.
	NoShells bool
	// Reserve is what every node keeps for other things.
	Reserve resource.Amounts
	// LostAfter is how long a node may be not ready before its jobs are given up.
	LostAfter time.Duration
	// URL is where pods reach the scheduler, empty if they do not, and CA the certificates that it may have, in PEM.
	URL, CA string
	// Version is that of this program.
	Version string
	// Random returns a number from [0, 1), for the pauses between heartbeats.
	Random func() float64
}

const (
	// settle is how long a new leader waits before it creates pods, so that it sees what its predecessor did last.
	settle = 2 * time.Second
	// deletionSlack is how long after the end of its grace period a pod on a node that is not ready is given up.
	deletionSlack = 30 * time.Second
	// usualGrace is the grace period of a pod that somebody else deletes.
	usualGrace = 30 * time.Second
	// abortGrace is the grace period of an abort: the pod's processes are killed after it.
	abortGrace = time.Second
	// retryFirst and retryMost bound the pauses between attempts of a write that failed for the time being.
	retryFirst = 200 * time.Millisecond
	retryMost  = 10 * time.Second
	// readAttempts is how often a log is asked for.
	readAttempts = 5
	// longestWait is how long a job may wait on its node although the API server has not accepted all deletions there.
	longestWait = 5 * time.Minute
	// changePause is the shortest time between two reports of a node.
	changePause = 5 * time.Millisecond
	// unlimitedGrace is the grace period of an interruption without a limit.
	unlimitedGrace = 24 * time.Hour
)
