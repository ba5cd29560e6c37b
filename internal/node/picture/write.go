package picture

import (
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// WriteKind is a kind of call of the API server.
type WriteKind uint8

// Kinds of writes, and of the reads that writes depend on.
const (
	Create       WriteKind = iota // the pod; if it exists, it is read
	Find                          // reads the pod
	Delete                        // the pod with this UID, with a grace period
	Release                       // takes the finalizer off the pod with this UID
	ReadLog                       // the last Limit bytes of the output of the job
	CreateFiles                   // a ConfigMap with files; that it exists is as good
	DeleteFiles                   // a ConfigMap with files
	Resize                        // changes the CPU that the pod with this UID requests
	Bind                          // the pod with this UID to Node, with Annotation; if it is bound already, it is read
	Evict                         // the pod with this UID, unless a disruption budget protects it
	Explain                       // sets the condition PodScheduled of the pod with this UID
	ExplainGroup                  // sets the condition of the PodGroup with this UID that states whether it is Scheduled
)

var writeNames = [...]string{"create", "find", "delete", "release", "read_log", "create_files", "delete_files", "resize", "bind", "evict", "explain", "explain_group"}

// String returns the name of the kind.
func (k WriteKind) String() string { return writeNames[k] }

// Write is a call of the API server to make.
type Write struct {
	Kind            WriteKind
	Job             uint64 // zero for a pod that no job has
	Namespace, Name string
	UID             types.UID
	Pod             *corev1.Pod
	Grace           int64 // seconds
	Limit           int64 // bytes
	CPU             int64 // hundredths of a core
	// Files is what CreateFiles stores. Its contents are those of Job, which is on a virtual node.
	Files           *FilesMap
	Incarnation     uint64
	Node            string
	Annotation      string // of the job
	Reason, Message string
	Preempted       bool // an eviction is a preemption
	Scheduled       bool // a PodGroup has its pods on nodes
}

// OutcomeKind is how a write ended.
type OutcomeKind uint8

// Outcomes of writes.
const (
	Done      OutcomeKind = iota
	Refused               // it will never succeed
	Missing               // there is no such pod, or one with another UID
	Temporary             // it may or may not have been carried out; another attempt may succeed
	Protected             // a disruption budget forbids the eviction for the time being
)

// Outcome is what the API server answered.
type Outcome struct {
	Kind    OutcomeKind
	Message string         // the server's words
	Pod     *corev1.Pod    // of Create, Find, and of Bind if the pod was bound before
	Output  *nodev1.Output // of ReadLog
}

// backoff is the pause after a number of failed attempts.
func backoff(attempts int) time.Duration {
	return min(retryMost, retryFirst<<min(attempts-1, 10))
}

// Written processes the outcome of a write.
func (p *Picture) Written(now time.Time, w *Write, outcome *Outcome) {
	if w.Kind == CreateFiles || w.Kind == DeleteFiles {
		p.filesWritten(now, w, outcome)
		return
	}
	if w.Kind == Explain {
		p.explained(now, w, outcome)
		return
	}
	if w.Kind == ExplainGroup {
		p.groupExplained(now, w, outcome)
		return
	}
	if w.Job == 0 {
		p.orphanWritten(now, w.UID, w.Kind, outcome)
		return
	}
	j := p.jobs[w.Job]
	if j == nil {
		return
	}
	j.writing = false
	if w.Kind == Resize {
		p.resized(j, outcome)
	}
	if outcome.Kind == Temporary {
		j.attempts++
		j.retryAt = now.Add(backoff(j.attempts))
		if w.Kind == ReadLog && j.phase == reading && j.attempts >= readAttempts && !p.blind {
			p.finish(now, j, j.result)
		}
		return
	}
	j.attempts, j.retryAt = 0, time.Time{}
	if j.guest != nil {
		p.guestWritten(now, j, w, outcome)
		return
	}
	switch w.Kind {
	case Create, Find:
		p.created(now, j, outcome)
	case Delete, Release:
		p.removed(now, j, w, outcome)
	case ReadLog:
		if j.phase == reading {
			j.result.Stderr = outcome.Output // nil if the log is gone
			p.finish(now, j, j.result)
		}
	}
	if p.jobs[w.Job] == j {
		p.look(now, j)
	}
}

// created processes the answer to a create, or to the search for a pod that may have been created.
func (p *Picture) created(now time.Time, j *job, outcome *Outcome) {
	if outcome.Kind == Done {
		identity, err := identityOf(outcome.Pod)
		if err == nil && proto.Equal(identity, j.identity) {
			if j.phase == creating || !j.exists && j.phase < ended {
				p.seen(now, j, outcome.Pod)
			}
			return
		}
		p.note("pod %s/%s exists and is not the job's: %v", j.pod.Namespace, j.pod.Name, err)
	}
	if j.phase != creating {
		return // the watch has shown it meanwhile, or the job has ended
	}
	switch {
	case outcome.Kind == Done:
		p.finish(now, j, notStarted(j.identity, "other", "another pod has the name of the job's pod", now))
	case outcome.Kind == Missing && j.ordered != nil:
		p.finish(now, j, notStarted(j.identity, j.ordered.reason, j.ordered.message, now))
	default:
		p.finish(now, j, refused(j.identity, "the API server refuses the pod: "+outcome.Message, now))
	}
}

// removed processes the answer to a deletion or to the release of a finalizer.
func (p *Picture) removed(now time.Time, j *job, w *Write, outcome *Outcome) {
	switch {
	case outcome.Kind == Missing:
		p.gone(now, j)
	case outcome.Kind == Refused:
		p.note("pod %s/%s cannot be removed: %s", j.pod.Namespace, j.pod.Name, outcome.Message)
		j.attempts, j.retryAt = 1, now.Add(retryMost)
	case w.Kind == Delete:
		p.leaves(now, j, time.Duration(w.Grace)*time.Second)
		if j.phase == placed && j.node.session.JobChanged(p.statusOf(j, false)) {
			p.hot[j.node.name] = true
		}
	default:
		j.released = true
	}
}
