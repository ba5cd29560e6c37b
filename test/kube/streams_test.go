package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/weirhq/weir/client"
)

// log answers as a kubelet does: what a container has written, and more until it ends.
func (k *kubelets) log(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/") // containerLogs/NAMESPACE/POD/CONTAINER
	fmt.Fprintf(w, "output of %s\n", parts[2])
	if r.URL.Query().Get("follow") != "true" {
		return
	}
	w.(http.Flusher).Flush()
	for r.Context().Err() == nil {
		pod, err := k.client.CoreV1().Pods(parts[1]).Get(r.Context(), parts[2], metav1.GetOptions{})
		if err != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			fmt.Fprintln(w, "the end")
			return
		}
		select {
		case <-r.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// exec runs a command of a container on this machine, with the init of this program, as a kubelet answers the API server.
func (k *kubelets) exec(w http.ResponseWriter, r *http.Request) {
	if _, err := httpstream.Handshake(r, w, []string{"v4.channel.k8s.io"}); err != nil {
		return
	}
	query := r.URL.Query()
	wanted := 1 // the stream of errors
	for _, name := range []string{"input", "output", "error"} {
		if query.Get(name) == "1" {
			wanted++
		}
	}
	streams := make(chan httpstream.Stream, wanted)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if conn == nil {
		return
	}
	defer conn.Close()
	command := exec.Command("/proc/self/exe", query["command"][1:]...)
	var outcome io.Writer
	var in io.WriteCloser
	for range wanted {
		switch s := <-streams; s.Headers().Get(corev1.StreamType) {
		case corev1.StreamTypeStdin:
			to, err := command.StdinPipe()
			if err != nil {
				return
			}
			in = to
			go func() {
				_, _ = io.Copy(in, s) // it ends with the connection
				in.Close()
			}()
		case corev1.StreamTypeStdout:
			command.Stdout = s
		case corev1.StreamTypeStderr:
			command.Stderr = s
		case corev1.StreamTypeError:
			outcome = s
		}
	}
	status := metav1.Status{Status: metav1.StatusSuccess}
	var failed *exec.ExitError
	if err := command.Run(); errors.As(err, &failed) {
		status = metav1.Status{Status: metav1.StatusFailure, Reason: "NonZeroExitCode", Details: &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Type: "ExitCode", Message: fmt.Sprint(failed.ExitCode())}},
		}}
	}
	_ = json.NewEncoder(outcome).Encode(status) // the API server may be gone
}

// The output of a job is followed while its pod runs, and a shell runs in the pod, through the API server and with the
// permissions of packaging/kubernetes/weir.yaml.
func TestLiveOutputAndShellsOfAJobGoThroughTheAPIServer(t *testing.T) {
	s := newScheduler(t)
	machine.node(t, "live-1", "4")
	id := s.begin(1, "sleep", nil)
	s.await("the job runs", func() bool {
		jobs := s.jobs(id)
		return len(jobs) == 1 && jobs[0].State == "running"
	})
	job := s.jobs(id)[0].ID
	ctx := context.Background()
	var text string
	s.await("the output of the job", func() bool {
		part, err := s.ReadJobOutput(ctx, job, client.OutputOptions{Offset: int64(len(text)), Wait: time.Second})
		if err == nil {
			text += string(part.Data)
		}
		return strings.HasPrefix(text, "output of weir-") && strings.HasSuffix(text, "\n")
	})
	shell, err := s.OpenShell(ctx, job, client.ShellOptions{Command: `read line; echo "$WORD $line"; exit 3`, Environment: []string{"WORD=got"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Write(ctx, []byte("it\n")); err != nil {
		t.Fatal(err)
	}
	var out string
	var end *client.ShellExited
	for end == nil {
		data, _, err := shell.Read(ctx)
		out += string(data)
		if err != nil && !errors.As(err, &end) {
			t.Fatal(err)
		}
	}
	if out != "got it\n" || end.Code != 3 {
		t.Errorf("%q, %+v", out, end)
	}
	machine.finish(true)
	defer machine.finish(false)
	s.await("the rest of the output", func() bool {
		part, err := s.ReadJobOutput(ctx, job, client.OutputOptions{Offset: int64(len(text)), Wait: time.Second})
		if err == nil {
			text += string(part.Data)
		}
		return err == nil && part.Ended
	})
}
