package picture

import (
	"github.com/weirhq/weir/internal/node/jobinit"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// Stream is a live connection to open: with the pod of a job, or with nothing but the reason why there is none.
type Stream struct {
	Order *nodev1.OpenStreamOrder
	Node  string
	// Namespace and Pod name the job's pod, if Refusal is not set.
	Namespace, Pod string
	Refusal        *nodev1.StreamEnd
}

// openStream connects a job with somebody who waits at the scheduler.
func (p *Picture) openStream(n *node, order *nodev1.OpenStreamOrder) {
	s := Stream{Order: order, Node: n.name}
	j := p.jobs[order.GetNumber()]
	switch {
	case j == nil || j.node != n || j.phase == leaving || j.lost || order.GetOutput() == nil && (j.phase >= reading || j.exists && isOver(j.pod)):
		s.Refusal = &nodev1.StreamEnd{Reason: nodev1.StreamEndReason_STREAM_END_REASON_NO_JOB, Message: "the pod of the job has ended"}
	case order.GetShell() != nil && p.options.NoShells:
		s.Refusal = &nodev1.StreamEnd{
			Reason: nodev1.StreamEndReason_STREAM_END_REASON_FORBIDDEN, Message: "the operator of the cluster allows no shells in jobs (scheduler/kubernetes/shells)",
		}
	case order.GetSignal() != nil:
		s.Refusal = &nodev1.StreamEnd{
			Reason: nodev1.StreamEndReason_STREAM_END_REASON_UNSUPPORTED, Message: "Kubernetes sends no signals to pods; weir job exec JOB -- kill sends them to processes",
		}
	case !j.exists || startOf(j.pod).IsZero():
		s.Refusal = &nodev1.StreamEnd{Reason: nodev1.StreamEndReason_STREAM_END_REASON_NOT_STARTED, Message: "the pod of the job has not started yet"}
	default:
		s.Namespace, s.Pod = j.pod.Namespace, j.pod.Name
	}
	p.effects.Streams = append(p.effects.Streams, s)
}

// shellOf is how the shell of a job is found: as on a node, bash if the image has it.
const shellOf = `if [ -x /bin/bash ]; then exec /bin/bash "$@"; fi; exec /bin/sh "$@"`

// SessionCommand returns the command that runs a shell in the container of a job. id names the shell for [SessionEnd].
func SessionCommand(id string, wanted *nodev1.OpenShell) []string {
	command := []string{initProgram, jobinit.SessionFlag, id}
	for _, v := range wanted.GetEnvironment() {
		command = append(command, "--env", v.GetName()+"="+v.GetValue())
	}
	command = append(command, "--")
	switch {
	case len(wanted.GetArguments()) > 0:
		return append(command, wanted.GetArguments()...)
	case wanted.GetCommand() != "":
		return append(command, "/bin/sh", "-c", shellOf, "sh", "-c", wanted.GetCommand())
	}
	return append(command, "/bin/sh", "-c", shellOf, "sh")
}

// SessionEnd returns the command that ends what is left of a shell.
func SessionEnd(id string) []string { return []string{initProgram, jobinit.EndSessionFlag, id} }
