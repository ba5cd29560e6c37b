package picture

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirhq/weir/internal/node/archive"
	"github.com/weirhq/weir/internal/node/jobinit"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/node/podfiles"
)

const (
	// maxMounted is how much of a task's files is in its ConfigMap: etcd keeps at most a mebibyte of an object.
	maxMounted = 512 << 10
	// maxPlan bounds the environment variable that tells a pod about its files. The kernel accepts 128 KiB.
	maxPlan = 100 << 10
	// filesDirectory is where the ConfigMap is mounted.
	filesDirectory = "/weir-files"
	// filesKept is how long the ConfigMap of a task stays that has no jobs.
	filesKept = time.Minute
	// keepGrace is how long a pod that is being deleted may take to store its files.
	keepGrace = time.Minute
	// interruptedGrace is how long the command of such a pod has to end after its interruption signal.
	interruptedGrace = time.Minute
)

// FilesMap is the ConfigMap with the small files of a task. It is immutable, and its name says what it holds.
type FilesMap struct {
	Name, Operation string
	Contents        []MountedFile
}

// MountedFile is a file of a ConfigMap: its bytes, or the name of a content that the scheduler has.
type MountedFile struct {
	Key     string
	Data    []byte
	Content *nodev1.Content
}

// files is what the pod of a job gets and leaves.
type files struct {
	plan *podfiles.Plan
	// mounted is nil if no file is small.
	mounted *FilesMap
	// killAfter is how long the command may run after the pod was asked to end; zero: until the pod is killed.
	killAfter time.Duration
}

// filesOf says how the files of a job come into its pod, nil if it has none. The error is the job's fault.
func (o *Options) filesOf(start *nodeproto.Start) (*files, error) {
	spec := start.Spec
	if len(spec.GetFiles()) == 0 && spec.GetArtifacts() == nil && start.Restore == nil {
		return nil, nil
	}
	f := &files{plan: &podfiles.Plan{Sandbox: jobinit.SandboxPath}}
	if err := f.place(start.Identity, spec.GetFiles()); err != nil {
		return nil, err
	}
	if r := start.Restore; r != nil {
		f.plan.Restore = &podfiles.Content{SHA256: hex.EncodeToString(r.GetSha256()), Size: r.GetSize()}
	}
	if a := spec.GetArtifacts(); a != nil {
		f.plan.Artifacts = &podfiles.Artifacts{
			Rules:         archive.Rules{Patterns: a.GetPatterns(), MaxSize: a.GetMaxSize(), MaxCount: a.GetMaxCount()},
			OnlyCompleted: a.GetOnlyCompleted(), OfAborted: a.GetOfAborted(),
		}
		f.killAfter = abortGrace
		if spec.GetInterruption().GetSignal() != "" {
			f.killAfter = interruptedGrace
		}
	}
	if f.plan.NeedsScheduler() {
		if o.URL == "" {
			return nil, fmt.Errorf("file_paths, artifacts: pods must reach the scheduler for artifacts and for files above %d KiB in all: set scheduler/kubernetes/pods_url", maxMounted>>10)
		}
		f.plan.URL, f.plan.CA, f.plan.Job = o.URL, o.CA, start.Identity.GetNumber()
		f.plan.Token = podfiles.TokenOf(f.plan.Job, start.Identity.GetProof())
	}
	if size := len(f.plan.String()); size > maxPlan {
		return nil, fmt.Errorf("file_paths: there are too many files for a pod: their description has %d bytes, and %d are possible", size, maxPlan)
	}
	return f, nil
}

// place divides the files of a task: the smallest are mounted, as many as fit, and the others are fetched.
func (f *files) place(identity *nodev1.JobIdentity, list []*nodev1.File) error {
	sizes, contents := make([]int64, len(list)), make([]*nodev1.Content, len(list))
	for i, file := range list {
		switch {
		case file.GetArchive() != nil:
			sizes[i], contents[i] = file.GetArchive().GetSize(), file.GetArchive()
		case len(file.GetSha256()) > 0:
			sizes[i], contents[i] = file.GetSize(), &nodev1.Content{Sha256: file.GetSha256(), Size: file.GetSize()}
		case file.GetNodePath() != "" || file.GetUrl() != "":
			return fmt.Errorf("file_paths: %s is a file of the nodes, and pods do not see those: put it into the image, or store it with weir file upload", cmp.Or(file.GetNodePath(), file.GetUrl()))
		default:
			sizes[i] = int64(len(file.GetContent()))
		}
	}
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(len(contents[a].GetSha256()), len(contents[b].GetSha256())), cmp.Compare(sizes[a], sizes[b]), cmp.Compare(a, b))
	})
	left := int64(maxMounted)
	isMounted := make([]bool, len(list))
	for _, i := range order { // those that the specification holds come first: nobody else has them
		if contents[i] != nil && sizes[i] > left {
			break
		}
		isMounted[i] = true
		left -= sizes[i]
	}
	name := sha256.New()
	fmt.Fprintf(name, "%s %q", identity.GetOperationId(), identity.GetTaskName())
	var mounted []MountedFile
	for i, file := range list {
		p := podfiles.File{Path: file.GetPath(), Executable: file.GetExecutable(), Copy: file.GetCopy(), Unpack: file.GetArchive() != nil}
		if isMounted[i] {
			p.Mounted = strconv.Itoa(i)
			content := MountedFile{Key: p.Mounted, Data: file.GetContent(), Content: contents[i]}
			sum := sha256.Sum256(content.Data)
			fmt.Fprintf(name, " %d %x %x", i, sum, content.Content.GetSha256())
			mounted = append(mounted, content)
		} else {
			p.Content = &podfiles.Content{SHA256: hex.EncodeToString(contents[i].GetSha256()), Size: sizes[i]}
		}
		f.plan.Files = append(f.plan.Files, p)
	}
	if len(mounted) > 0 {
		f.plan.Mounted = filesDirectory
		f.mounted = &FilesMap{Name: "weir-files-" + hex.EncodeToString(name.Sum(nil)[:16]), Operation: identity.GetOperationId(), Contents: mounted}
	}
	return nil
}

// addTo gives a pod its files.
func (f *files) addTo(pod *corev1.Pod) {
	if f == nil {
		return
	}
	container := &pod.Spec.Containers[0]
	container.Env = append(container.Env, corev1.EnvVar{Name: podfiles.Variable, Value: literal(f.plan.String())})
	if f.mounted != nil {
		pod.Annotations[AnnotationFiles] = f.mounted.Name
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: volumeFiles, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: f.mounted.Name},
		}}})
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: volumeFiles, MountPath: filesDirectory, ReadOnly: true})
	}
	if f.plan.Artifacts != nil {
		grace := int64((usualGrace + keepGrace).Seconds())
		pod.Spec.TerminationGracePeriodSeconds = &grace
	}
}

// graceOf is how long the pod of a job may take to end: as ordered, and longer if its files are stored.
func graceOf(spec *nodev1.JobSpec, order *stop) time.Duration {
	a := spec.GetArtifacts()
	switch {
	case a == nil || a.GetOnlyCompleted() || !order.keeps || !order.interrupt && !a.GetOfAborted():
		return order.grace
	case spec.GetInterruption().GetSignal() != "":
		return max(order.grace, interruptedGrace) + keepGrace
	}
	return order.grace + keepGrace
}

// keptOf is what became of the files that a job left.
func keptOf(kept *podfiles.Kept) *nodev1.ArtifactList {
	if kept == nil {
		return nil
	}
	list := &nodev1.ArtifactList{Truncated: kept.Truncated, Message: kept.Message, Failure: kept.Failure}
	for range kept.Count { // the archive was sent with their names
		list.Files = append(list.Files, &nodev1.Artifact{})
	}
	return list
}

// taskFiles is the ConfigMap of a task.
type taskFiles struct {
	wanted   *FilesMap // nil for one that was found
	jobs     map[uint64]bool
	exists   bool
	deleting bool // its deletion was asked for, and perhaps carried out
	writing  bool
	retryAt  time.Time
	attempts int
	idle     time.Time // since when no job has it; zero while one does
}

// useFiles makes a job use a ConfigMap.
func (p *Picture) useFiles(j *job, name string, wanted *FilesMap) {
	f := p.files[name]
	if f == nil {
		f = &taskFiles{jobs: map[uint64]bool{}, exists: wanted == nil}
		p.files[name] = f
	}
	if wanted != nil {
		f.wanted = wanted
	}
	f.jobs[j.number], f.idle, j.files = true, time.Time{}, name
}

// dropFiles ends a job's use of its ConfigMap.
func (p *Picture) dropFiles(j *job) {
	if f := p.files[j.files]; f != nil {
		delete(f.jobs, j.number)
	}
}

// hasFiles reports whether the ConfigMap of a job exists. If it does not, it is created.
func (p *Picture) hasFiles(now time.Time, j *job) bool {
	f := p.files[j.files]
	if f == nil || f.exists && !f.deleting {
		return true
	}
	if !f.writing && !now.Before(f.retryAt) {
		f.writing = true
		p.effects.Writes = append(p.effects.Writes, Write{
			Kind: CreateFiles, Job: j.number, Namespace: p.options.Namespace, Name: j.files, Files: f.wanted,
			Node: j.node.name, Incarnation: j.node.session.Incarnation(),
		})
	}
	return false
}

// FilesSeen records a ConfigMap that was there when the term began. One that no job needs is removed.
func (p *Picture) FilesSeen(name string) {
	if p.files[name] == nil {
		p.files[name] = &taskFiles{jobs: map[uint64]bool{}, exists: true}
	}
}

// tickFiles removes the ConfigMaps that no job has used for a while.
func (p *Picture) tickFiles(now time.Time) {
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		f := p.files[name]
		switch {
		case len(f.jobs) > 0 || f.writing || p.blind:
		case !f.exists:
			delete(p.files, name)
		case f.idle.IsZero():
			f.idle = now
		case now.Sub(f.idle) >= filesKept && !now.Before(f.retryAt):
			f.writing, f.deleting = true, true
			p.effects.Writes = append(p.effects.Writes, Write{Kind: DeleteFiles, Namespace: p.options.Namespace, Name: name})
		}
	}
}

// filesWritten processes the outcome of a write of a ConfigMap.
func (p *Picture) filesWritten(now time.Time, w *Write, outcome *Outcome) {
	f := p.files[w.Name]
	if f == nil {
		return
	}
	f.writing = false
	switch {
	case outcome.Kind == Temporary:
		f.attempts++
		f.retryAt = now.Add(backoff(f.attempts))
		return
	case w.Kind == DeleteFiles:
		f.exists, f.deleting = outcome.Kind == Refused, false
		if f.exists {
			p.note("the files %s/%s cannot be removed: %s", w.Namespace, w.Name, outcome.Message)
			f.retryAt = now.Add(time.Hour)
			return
		}
	case outcome.Kind == Done:
		f.exists, f.deleting = true, false
	}
	f.attempts, f.retryAt = 0, time.Time{}
	for _, number := range slices.Sorted(maps.Keys(f.jobs)) {
		j := p.jobs[number]
		if j == nil || j.phase != creating {
			continue
		}
		if w.Kind == CreateFiles && outcome.Kind != Done {
			p.finish(now, j, refused(j.identity, "the files of the task cannot be stored in the cluster: "+outcome.Message, now))
			continue
		}
		p.look(now, j)
	}
}
