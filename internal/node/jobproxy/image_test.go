package jobproxy

import (
	"archive/tar"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/weirhq/weir/internal/node/image"
	"github.com/weirhq/weir/internal/node/jobinit"
	"github.com/weirhq/weir/internal/value/imagename"
	"github.com/weirhq/weir/test/expected"
	"github.com/weirhq/weir/test/fakeimage"
)

// inImage makes a job run in an image of layers over the base.
func inImage(t testing.TB, job *Description, config v1.Config, paths []string, layers ...[]byte) *Description {
	t.Helper()
	preload := t.TempDir()
	img := fakeimage.Image(t, config, append([][]byte{fakeimage.Base(t)}, layers...)...)
	digest := fakeimage.Save(t, filepath.Join(preload, "test.tar"), "test:v1", img)
	o := image.DefaultOptions()
	o.Directory, o.Preload, o.Registries, o.Log = filepath.Join(t.TempDir(), "images"), []string{preload}, &image.Registries{}, slog.New(slog.DiscardHandler)
	cache, err := image.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	for _, path := range paths {
		shown[path] = path
	}
	if job.GPUs != nil {
		for _, m := range job.GPUs.Mounts {
			shown[m.Target] = m.Source
		}
	}
	points, err := cache.Points(jobinit.Points, shown)
	if err != nil {
		t.Fatal(err)
	}
	found, err := cache.Prepare(t.Context(), imagename.Name{Repository: "test", Tag: "v1", Digest: digest}, job.JobID)
	if err != nil {
		t.Fatal(err)
	}
	job.Image = &Image{
		Name: "test:v1", Digest: digest, Directory: o.Directory, Layers: append([]string{points}, found.Layers...),
		Environment: found.Environment, WorkingDir: found.Directory, Shell: found.Shell,
	}
	uid := 1_900_000_007 // of isolated jobs
	files, err := cache.Files(uid, uid, jobinit.SandboxPath)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		job.Image.Files = append(job.Image.Files, ImageFile(f))
	}
	return job
}

func TestAJobRunsInItsImage(t *testing.T) {
	n := hostedNode(t)
	job := inImage(t, n.isolated(`id -u; echo $PATH $MODEL $HOME $SHELL; pwd; echo root $(ls /); cat /etc/release /etc/passwd /etc/group
		echo hosts $(stat -c %s /etc/hosts); cat /job/file; touch /x; touch /etc/y; touch /job/z $TMPDIR/z /dev/shm/z && echo written; ls /usr; ls -A /sys`),
		v1.Config{Env: []string{"PATH=/opt:/bin", "MODEL=small", "HOME=/root"}, WorkingDir: "/work", User: "1000"}, nil)
	job.Files = []File{{Path: "file", Content: []byte("content\n")}}
	info, err := os.Stat("/etc/hosts")
	if err != nil {
		t.Fatal(err)
	}
	has(t, n.completed(t, job), "1900000007\n/opt:/bin small /job /bin/sh\n/work\nroot bin dev etc job lib", "fake\nroot:x:0:0:root:/:/bin/sh\nweir:x:1900000007:1900000007::/job:/bin/sh\n",
		fmt.Sprintf("hosts %d\ncontent\n", info.Size()), "/x': Read-only file system", "/etc/y': Read-only file system", "\nwritten\n", "'/usr': No such file")
}

func TestAWritableImageIsWrittenToUntilTheJobEnds(t *testing.T) {
	n := hostedNode(t)
	job := inImage(t, n.isolated("touch /mine && cat /etc/release && ls -n / && touch /bin/evil; exit 0"), v1.Config{}, nil)
	job.Image.Writable = true
	has(t, n.completed(t, job), "fake\n", " mine\n", "/bin/evil': Permission denied")
	for _, layer := range job.Image.Layers {
		if _, err := os.Lstat(filepath.Join(job.Image.Directory, layer, "mine")); err == nil {
			t.Errorf("the job wrote into %s", layer)
		}
	}
	if _, err := os.Stat(filepath.Join(n.root, job.JobID, changesDir)); err == nil {
		t.Error("its changes are left")
	}
}

// A job whose container runc makes sees and may do the same.
func TestAnOCIRuntimeRunsAJobInItsImage(t *testing.T) {
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Skipf("NO RUNC HERE: jobs in containers of an OCI runtime are not tested: %v", err)
	}
	n := hostedNode(t)
	made := inImage(t, n.isolated(""), v1.Config{Env: []string{"FROM_IMAGE=yes"}, WorkingDir: "/made"}, nil).Image
	in := func(command string, writable bool) *Description {
		job, own := n.isolated(command), *made
		own.Runtime, own.Writable = runc, writable
		job.Image = &own
		return job
	}
	job := in(`id -u; cat /etc/release file volume/f; echo $FROM_IMAGE; cat /proc/self/status
		touch here $TMPDIR/there && echo written; touch /etc/x; echo $PWD $HOME; ls /dev`, false)
	job.Tmpfs = []Tmpfs{{Path: "volume", Size: mib}}
	job.Files = []File{{Path: "volume/f", Content: []byte("filled\n")}, {Path: "file", Content: []byte("content\n")}}
	job.Image.WorkingDir = ""
	none := "0000000000000000"
	got := n.completed(t, job)
	has(t, got, "1900000007\n", "fake\ncontent\nfilled\nyes\n", "written\n", "/job /job\n", "Read-only file system", "CapEff:\t"+none, "CapBnd:\t"+none, "NoNewPrivs:\t1", "Seccomp:\t2")
	has(t, n.completed(t, in("touch /etc/x 2>&1; mkdir /made/x 2>&1; echo end", true)), "end\n")
	attack := in("./attack", false)
	attack.Files, attack.Image.WorkingDir = []File{{Path: "attack", Executable: true, Source: attackProgram}}, ""
	if got, want := n.completed(t, attack), strings.Join(answers, "\n")+"\n"; got != want {
		t.Errorf("the job wrote\n%s\nwant\n%s", got, want)
	}
	// The exit code is the command's, and what it leaves behind ends with it.
	left := n.launch(t, in("sleep 1000 & exit 7", false))
	if result := n.result(t, left); result.Outcome != Failed || !strings.Contains(result.Error.Error(), "code 7") {
		t.Errorf("%+v, %v", result, result.Error)
	}
	// An interruption reaches the command.
	asked := in("trap 'echo asked >&2; exit 0' TERM; echo begun >&2; while :; do sleep 0.05; done", false)
	asked.Interruption.Signal = "SIGTERM"
	dir := n.launch(t, asked)
	if !expected.Soon(func() bool { return strings.Contains(stderrOf(t, dir), "begun") }) {
		t.Error("the job does not begin")
	}
	// A session is in the container, as the job's user.
	session, err := OpenSession(dir, &SessionRequest{Command: "cat /etc/release; id -u; cat /proc/self/status; ls /"}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	session.Input.Close()
	said, err := io.ReadAll(session.Output)
	if err != nil {
		t.Error(err)
	}
	has(t, string(said), "fake\n1900000007\n", "CapEff:\t"+none, "Seccomp:\t2", "\njob\n")
	session.Close()
	do(t, dir, Order{Command: Interrupt, Reason: OtherReason})
	if result := n.result(t, dir); !strings.Contains(stderrOf(t, dir), "asked") {
		t.Errorf("the command was not asked to end: %+v, %s", result, stderrOf(t, dir))
	}
	// An aborted job leaves nothing: the node of this test checks it.
	running := n.launch(t, in("echo begun; sleep 1000", false))
	follow(t, running, isRunning)
	do(t, running, Order{Command: Abort, Reason: OtherReason})
	if result := n.result(t, running); result.Outcome != Aborted {
		t.Errorf("%+v", result)
	}
}

func TestWhatAJobWritesIntoItsImageCountsAsItsDisk(t *testing.T) {
	job := &Description{Image: &Image{Writable: true}}
	if changesOf("/d", job) != "/d/changes" || changesOf("/d", &Description{Image: &Image{}}) != "" || changesOf("/d", &Description{}) != "" {
		t.Error("changes are somewhere else")
	}
}

func TestFilesOfLowerLayersCanBeDeletedAndReplaced(t *testing.T) {
	n := hostedNode(t)
	upper := fakeimage.Layer(t, fakeimage.Entry{Name: "etc/.wh.release"}, fakeimage.Entry{Name: "bin/true", Content: "#!/bin/sh\necho replaced\n"},
		fakeimage.Entry{Name: "work/.wh..wh..opq"}, fakeimage.Entry{Name: "su", Content: "x", Mode: 0o4755})
	job := inImage(t, n.isolated("ls /etc; true; /bin/true; stat -c %a /su"), v1.Config{}, nil, upper)
	text := n.completed(t, job)
	has(t, text, "replaced\n755\n")
	if strings.Contains(text, "release") {
		t.Errorf("a deleted file is there:\n%s", text)
	}
}

// An image with links where things are mounted gets neither what is mounted elsewhere nor files of the machine.
func TestLinksOfAnImageLeadNowhere(t *testing.T) {
	n := hostedNode(t)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret of the node\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var links []fakeimage.Entry
	for _, name := range []string{"dev", "proc", "sys", "job", "tmp", "opt", "out"} {
		links = append(links, fakeimage.Entry{Name: name, Link: outside, Kind: tar.TypeSymlink})
	}
	links = append(links, fakeimage.Entry{Name: "etc/passwd", Link: filepath.Join(outside, "secret"), Kind: tar.TypeSymlink},
		fakeimage.Entry{Name: "etc/resolv.conf", Link: filepath.Join("/proc/1/root", "etc/shadow"), Kind: tar.TypeSymlink})
	shown, inTemporary := "/opt", t.TempDir() // whose place in the image is a link
	if info, err := os.Stat(shown); err != nil || !info.IsDir() {
		t.Skipf("NO %s HERE: %v", shown, err)
	}
	job := n.isolated("cat /out/secret " + filepath.Join("/proc/1/root", outside, "secret") + "; ls /dev /job; cat /etc/passwd; stat -c '%n %F' " + shown + " " + inTemporary)
	job.Isolation.ReadOnly = []string{shown, inTemporary}
	text := n.completed(t, inImage(t, job, v1.Config{}, []string{shown}, fakeimage.Layer(t, links...)))
	has(t, text, "urandom", "weir:x:", shown+" directory\n", inTemporary+" directory\n")
	if strings.Contains(text, "secret of the node") {
		t.Errorf("the job reads a file of the node:\n%s", text)
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 1 {
		t.Errorf("on the node there are %v, %v", left, err)
	}
}

// More layers than their names fit into a page.
func TestAnImageMayHaveManyLayers(t *testing.T) {
	n := hostedNode(t)
	var layers [][]byte
	for i := range 99 {
		layers = append(layers, fakeimage.Layer(t, fakeimage.Entry{Name: fmt.Sprintf("many/%03d", i)}))
	}
	first := inImage(t, n.isolated("set -- /many/*; echo $# files"), v1.Config{}, nil, layers...)
	has(t, n.completed(t, first), "99 files\n")
	second := n.isolated(first.Command)
	second.Image = first.Image
	second.Image.Writable = true
	has(t, n.completed(t, second), "99 files\n")
}

func TestDescriptionsOfImagesAreChecked(t *testing.T) {
	full := &Isolation{Level: jobinit.Full}
	good := Image{Directory: "/d", Layers: []string{"a", "b"}, Shell: "/bin/sh"}
	if problems := good.check(full); len(problems) > 0 {
		t.Error(problems)
	}
	for says, change := range map[string]func(*Image) *Isolation{
		"needs the isolation level full": func(*Image) *Isolation { return &Isolation{Level: jobinit.SharedFiles} },
		"an absolute directory":          func(i *Image) *Isolation { i.Directory = "d"; return full },
		"image/layers/1":                 func(i *Image) *Isolation { i.Layers = []string{"a", "../b"}; return full },
		"image/layers/0":                 func(i *Image) *Isolation { i.Layers = []string{"a:/etc", "b"}; return full },
		"image/files/0":                  func(i *Image) *Isolation { i.Files = []ImageFile{{"/etc/hosts", "etc"}}; return full },
		"must be absolute paths":         func(i *Image) *Isolation { i.Shell = "sh"; return full },
	} {
		i := good
		isolation := change(&i)
		if problems := i.check(isolation); len(problems) != 1 || !strings.Contains(problems[0].Error(), says) {
			t.Errorf("%v, want %q", problems, says)
		}
	}
}
