package picture

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/node/podfiles"
)

func inline(path, text string) *nodev1.File {
	return &nodev1.File{Path: path, Source: &nodev1.File_Content{Content: []byte(text)}}
}

func stored(path string, mark byte, size int64) *nodev1.File {
	return &nodev1.File{Path: path, Sha256: bytes.Repeat([]byte{mark}, 32), Size: size, Source: &nodev1.File_NodePath{NodePath: "sha256:"}}
}

// startWith orders a job whose task has files.
func (w *world) startWith(number uint64, change func(s *nodev1.JobSpec), restore *nodev1.Content) {
	w.Helper()
	w.order("n1", func(s *nodeproto.Session) {
		own := spec()
		change(own)
		if err := s.Start(identity(number), own, nil, restore); err != nil {
			w.Fatal(err)
		}
	})
}

// planOf reads the plan of a pod.
func planOf(t *testing.T, pod *corev1.Pod) *podfiles.Plan {
	t.Helper()
	for _, v := range pod.Spec.Containers[0].Env {
		if v.Name == podfiles.Variable {
			plan, err := podfiles.Read(strings.ReplaceAll(v.Value, "$$", "$"))
			if err != nil {
				t.Fatal(err)
			}
			return plan
		}
	}
	t.Fatal("the pod has no plan")
	return nil
}

// The small files of a task are one ConfigMap for all its jobs. It exists before the first pod, and goes some time after the last.
func TestSmallFilesAreOneConfigMapForAllJobsOfATask(t *testing.T) {
	w := settled(t)
	files := func(s *nodev1.JobSpec) { s.Files = []*nodev1.File{inline("a", "text $HOME"), stored("b", 1, 1000)} }
	w.startWith(1, files, nil)
	create := w.took(CreateFiles)
	if create.Job != 1 || create.Node != "n1" || create.Incarnation == 0 || create.Namespace != "weir-jobs" {
		t.Errorf("%+v", create)
	}
	contents := create.Files.Contents
	if len(contents) != 2 || string(contents[0].Data) != "text $HOME" || contents[1].Content.GetSize() != 1000 || contents[1].Key != "1" {
		t.Errorf("%+v", contents)
	}
	w.startWith(2, files, nil)
	if len(w.writes) != 0 {
		t.Errorf("no pod before its files: %v", w.kinds())
	}
	w.Written(w.now, create, &Outcome{Kind: Temporary})
	w.pass(time.Second)
	w.Written(w.now, w.took(CreateFiles), &Outcome{Kind: Done})
	w.settle()
	if got := w.kinds(); !slices.Equal(got, []string{"create", "create"}) {
		t.Fatalf("%v", got)
	}
	var pods []*corev1.Pod
	for _, write := range w.writes {
		plan := planOf(t, write.Pod)
		mount := write.Pod.Spec.Containers[0].VolumeMounts[len(write.Pod.Spec.Containers[0].VolumeMounts)-1]
		if len(plan.Files) != 2 || plan.Files[0].Mounted != "0" || plan.Token != "" || plan.Mounted != mount.MountPath || write.Pod.Annotations[AnnotationFiles] != create.Name {
			t.Errorf("%+v, %+v", plan, mount)
		}
		pods = append(pods, w.created(&write))
	}
	w.writes = nil
	for i, pod := range pods {
		number := uint64(i + 1)
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		done := over(pod, 0, `{"exit_code": 0}`)
		w.see(done)
		w.writes = nil
		w.finish(w.now, w.jobs[number], w.jobs[number].result)
		w.settle()
		w.acknowledge(number)
		w.done(w.took(Release))
		w.done(w.took(Delete))
		w.PodGone(w.now, done)
	}
	w.pass(filesKept - time.Second)
	if len(w.writes) != 0 {
		t.Errorf("another job may come: %v", w.kinds())
	}
	w.pass(2 * time.Second)
	remove := w.took(DeleteFiles)
	// A job that comes now cannot rely on it.
	w.startWith(3, files, nil)
	w.done(remove)
	if again := w.took(CreateFiles); again.Name != create.Name {
		t.Errorf("%s, then %s", create.Name, again.Name)
	}
}

func TestFilesThatTheAPIServerRefusesFailTheirJobs(t *testing.T) {
	w := settled(t)
	w.startWith(1, func(s *nodev1.JobSpec) { s.Files = []*nodev1.File{inline("a", "text")} }, nil)
	w.Written(w.now, w.took(CreateFiles), &Outcome{Kind: Refused, Message: "exceeded quota"})
	w.settle()
	if r := w.results[1]; w.result(1) != "failed" || !strings.Contains(r.GetError().GetMessage(), "exceeded quota") {
		t.Errorf("%v", r)
	}
}

func TestFilesOfEarlierTermsThatNobodyNeedsAreRemoved(t *testing.T) {
	w := newWorld(t)
	w.NodeSeen(w.now, machine("n1", "4", "8Gi"))
	w.FilesSeen("weir-files-old")
	w.Synced(w.now)
	w.pass(filesKept + time.Second)
	if remove := w.took(DeleteFiles); remove.Name != "weir-files-old" {
		t.Errorf("%+v", remove)
	}
}

// Large files are fetched with a token that only this job has, and so are those of an earlier attempt.
func TestLargeFilesAndArtifactsUseTheSchedulersAddress(t *testing.T) {
	w := settled(t)
	w.options.URL, w.options.CA = "http://weir:7070", "pem"
	w.startWith(1, func(s *nodev1.JobSpec) {
		s.Files = []*nodev1.File{stored("big", 1, maxMounted+1), stored("c", 2, maxMounted), stored("small", 3, 10)}
		for i, size := range []int64{maxMounted + 1, 11} { // directories
			s.Files = append(s.Files, &nodev1.File{
				Path: "d", Source: &nodev1.File_NodePath{NodePath: "archive:"}, Archive: &nodev1.Content{Sha256: bytes.Repeat([]byte{byte(4 + i)}, 32), Size: size},
			})
		}
		s.Artifacts = &nodev1.Artifacts{Patterns: []string{"out/**"}, OfAborted: true, MaxSize: 77}
	}, &nodev1.Content{Sha256: bytes.Repeat([]byte{9}, 32), Size: 5})
	w.done(w.took(CreateFiles))
	pod := w.took(Create).Pod
	plan := planOf(t, pod)
	if plan.URL != "http://weir:7070" || plan.CA != "pem" || plan.Job != 1 || plan.Token != podfiles.TokenOf(1, identity(1).GetProof()) || plan.Token == "" {
		t.Errorf("%+v", plan)
	}
	if plan.Files[0].Content == nil || plan.Files[1].Content == nil || plan.Files[2].Mounted != "2" {
		t.Errorf("the smallest are mounted, as many as fit: %+v", plan.Files)
	}
	if large, small := plan.Files[3], plan.Files[4]; !large.Unpack || large.Content == nil || large.Content.Size != maxMounted+1 || !small.Unpack || small.Mounted != "4" {
		t.Errorf("directories come like other files: %+v, %+v", large, small)
	}
	if plan.Restore.SHA256 != hex.EncodeToString(bytes.Repeat([]byte{9}, 32)) || plan.Artifacts.MaxSize != 77 || !plan.Artifacts.OfAborted {
		t.Errorf("%+v, %+v", plan.Restore, plan.Artifacts)
	}
	if c := pod.Spec.Containers[0].Command; !slices.Contains(c, "--kill-after") || *pod.Spec.TerminationGracePeriodSeconds <= int64(keepGrace.Seconds()) {
		t.Errorf("%q, %d", c, *pod.Spec.TerminationGracePeriodSeconds)
	}
}

func TestFilesThatPodsCannotHaveFailTheJobWithTheReason(t *testing.T) {
	for want, change := range map[string]func(*nodev1.JobSpec){
		"scheduler/kubernetes/pods_url": func(s *nodev1.JobSpec) { s.Files = []*nodev1.File{stored("big", 1, maxMounted+1)} },
		"pods must reach the scheduler": func(s *nodev1.JobSpec) { s.Artifacts = &nodev1.Artifacts{Patterns: []string{"x"}} },
		"/opt/tool is a file of the nodes": func(s *nodev1.JobSpec) {
			s.Files = []*nodev1.File{{Path: "tool", Source: &nodev1.File_NodePath{NodePath: "/opt/tool"}}}
		},
		"too many files": func(s *nodev1.JobSpec) {
			for range 3000 {
				s.Files = append(s.Files, inline(strings.Repeat("x", 40), ""))
			}
		},
	} {
		w := settled(t)
		w.startWith(1, change, nil)
		if w.result(1) != "failed" || !strings.Contains(w.results[1].GetError().GetMessage(), want) {
			t.Errorf("%v, want %s", w.results[1], want)
		}
	}
}

// A pod whose files are kept has time for that, unless there is no other attempt.
func TestAPodThatIsAskedToEndHasTimeToKeepItsFiles(t *testing.T) {
	kept := &nodev1.JobSpec{Artifacts: &nodev1.Artifacts{OfAborted: true}}
	interruptible := &nodev1.JobSpec{Artifacts: kept.Artifacts, Interruption: &nodev1.Interruption{Signal: "SIGUSR1"}}
	for _, c := range []struct {
		spec  *nodev1.JobSpec
		order stop
		want  time.Duration
	}{
		{&nodev1.JobSpec{}, stop{keeps: true, grace: time.Second}, time.Second},
		{kept, stop{keeps: true, grace: time.Second}, time.Second + keepGrace},
		{kept, stop{grace: time.Second}, time.Second},
		{&nodev1.JobSpec{Artifacts: &nodev1.Artifacts{}}, stop{keeps: true, grace: time.Second}, time.Second},
		{&nodev1.JobSpec{Artifacts: &nodev1.Artifacts{}}, stop{keeps: true, interrupt: true, grace: time.Second}, time.Second + keepGrace},
		{&nodev1.JobSpec{Artifacts: &nodev1.Artifacts{OnlyCompleted: true}}, stop{keeps: true, interrupt: true, grace: time.Second}, time.Second},
		{interruptible, stop{keeps: true, interrupt: true, grace: 2 * time.Minute}, 2*time.Minute + keepGrace},
		{interruptible, stop{keeps: true, grace: time.Second}, interruptedGrace + keepGrace},
	} {
		if got := graceOf(c.spec, &c.order); got != c.want {
			t.Errorf("%v, %+v: %v, want %v", c.spec, c.order, got, c.want)
		}
	}
}

func TestTheEndOfAPodSaysWhatBecameOfItsFiles(t *testing.T) {
	w := settled(t)
	pod := w.running(1)
	w.see(over(pod, 1, `{"exit_code": 1, "artifacts": {"count": 2, "truncated": true, "message": "1 file is left out"}}`))
	w.Written(w.now, w.took(ReadLog), &Outcome{Kind: Done})
	w.settle()
	if a := w.results[1].GetArtifacts(); len(a.GetFiles()) != 2 || !a.GetTruncated() || a.GetMessage() == "" || a.GetFailure() != "" {
		t.Errorf("%v", a)
	}
	pod = w.running(2)
	w.see(over(pod, 125, `{"exit_code": 125, "unprepared": "file x: no room"}`))
	if r := w.results[2]; w.result(2) != "aborted other" || r.GetStarted() || r.GetError().GetMessage() != "file x: no room" {
		t.Errorf("%v", r)
	}
}
