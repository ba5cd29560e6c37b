package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/node/kube"
)

// podName reads the name of a pod: pod:NAMESPACE/NAME, or pod/NAME as kubectl writes it. namespace is "" if the text has none.
func podName(text string) (namespace, name string, isPod bool) {
	if rest, marked := strings.CutPrefix(text, "pod:"); marked {
		if namespace, name, both := strings.Cut(rest, "/"); both {
			return namespace, name, true
		}
		return "", rest, true
	}
	for _, kind := range []string{"pod/", "pods/", "po/"} {
		if name, marked := strings.CutPrefix(text, kind); marked {
			return "", name, true
		}
	}
	return "", "", false
}

// podNamespace chooses the namespace of a pod: that of its name, that of the flag, or the one that kubectl uses. The first two
// must not differ.
func podNamespace(named, flag string) (string, error) {
	switch {
	case named != "" && flag != "" && named != flag:
		return "", usageErrorf("the pod is in namespace %s by its name, and in %s by --namespace", named, flag)
	case named != "":
		return named, nil
	case flag != "":
		return flag, nil
	}
	return kube.Namespace(), nil
}

// explainPod explains why a pod waits: as its condition does, and then as its operation's jobs do.
func (s *session) explainPod(namespace, name string) error {
	pod, err := s.GetPod(s.ctx, namespace, name)
	if err != nil {
		return err
	}
	var x *client.Explanation
	if pod.OperationID != "" && (pod.State == "waiting" || pod.State == "starting") {
		x, err = s.ExplainOperationFully(s.ctx, pod.OperationID)
		if err != nil && !errors.Is(err, client.CodeNoOperation) && !errors.Is(err, client.CodeOperationState) {
			return err
		}
	}
	return s.print(pod.Raw, func(w io.Writer) error { return writePodExplanation(w, pod, x) })
}

func writePodExplanation(w io.Writer, pod *client.Pod, x *client.Explanation) error {
	paint := painter(w)
	fmt.Fprintf(w, "Pod %s is %s", paint(styleBold, pod.Namespace+"/"+pod.Name), stateStyle(paint, pod.State))
	if pod.Node != "" {
		fmt.Fprintf(w, " on node %s", pod.Node)
	}
	fmt.Fprintln(w, ".")
	if pod.Reason != "" {
		message, _, _ := strings.Cut(pod.Message, "; kubectl weir explain ")
		fmt.Fprintf(w, "It waits: %s: %s.\n", paint(styleBold, pod.Reason), message)
	}
	if pod.Alias == "" {
		return nil
	}
	fmt.Fprintf(w, "It is a job of operation %s in pool %s.\n", pod.Alias, pod.Pool)
	if x == nil {
		return nil
	}
	fmt.Fprintln(w)
	return writeExplanation(w, x, pod.Alias)
}
