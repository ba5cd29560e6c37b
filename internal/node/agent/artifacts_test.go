package agent

import (
	"archive/tar"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/weirhq/weir/internal/node/archive"
	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/value/resource"
)

// packed returns the names in the archive of a sandbox.
func packed(t *testing.T, dir string, d *jobproxy.Description) (names []string, truncated bool, message string) {
	t.Helper()
	archive, list, err := pack(dir, d)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	unpacked, err := zstd.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer unpacked.Close()
	for files := tar.NewReader(unpacked); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
	}
	if len(names) != len(list.GetFiles()) {
		t.Errorf("the archive has %v, the list %v", names, list.GetFiles())
	}
	return names, list.GetTruncated(), list.GetMessage()
}

// sandboxWith makes the directory of a job whose sandbox has files.
func sandboxWith(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range files {
		path := filepath.Join(jobproxy.SandboxOf(dir), name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("0123456789"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestPatternsNameFilesAndDirectories(t *testing.T) {
	dir := sandboxWith(t, "a.txt", "b.log", "out/c", "out/deep/d.txt", "outer/e")
	for pattern, want := range map[string]string{
		"a.txt": "a.txt", "*.txt": "a.txt", "**/*.txt": "a.txt out/deep/d.txt", "out/": "out/c out/deep/d.txt", "out": "out/c out/deep/d.txt",
		"out/**": "out/c out/deep/d.txt", "out/*": "out/c out/deep/d.txt", "o*/?": "out/c outer/e", "none": "", "**": "a.txt b.log out/c out/deep/d.txt outer/e",
	} {
		names, truncated, _ := packed(t, dir, &jobproxy.Description{Artifacts: &jobproxy.Artifacts{Patterns: []string{pattern}}})
		if got := strings.Join(names, " "); got != want || truncated {
			t.Errorf("%s: got %q, truncated %v, want %q", pattern, got, truncated, want)
		}
	}
}

// A job cannot make the agent read what it could not read itself.
func TestOnlyPlainFilesOfTheJobAreKept(t *testing.T) {
	dir := sandboxWith(t, "plain", "shown")
	sandbox := jobproxy.SandboxOf(dir)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", filepath.Join(sandbox, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for _, err := range []error{
		os.Symlink(secret, filepath.Join(sandbox, "link")), os.Symlink("/etc", filepath.Join(sandbox, "directory")), os.Link(secret, filepath.Join(sandbox, "hard")),
		syscall.Mkfifo(filepath.Join(sandbox, "pipe"), 0o644), os.Truncate(filepath.Join(sandbox, "plain"), 20),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	names, truncated, message := packed(t, dir, &jobproxy.Description{
		Credential: &jobproxy.Credential{UID: 12345, GID: 12345}, Artifacts: &jobproxy.Artifacts{Patterns: []string{"**"}},
		Files: []jobproxy.File{{Path: "shown", SHA256: "x", Bind: true}},
	})
	if got := strings.Join(names, " "); got != "plain" || !truncated || !strings.Contains(message, "5 files are left out") {
		t.Errorf("got %q, %v, %q", got, truncated, message)
	}
}

func TestArtifactsAreBounded(t *testing.T) {
	dir := sandboxWith(t, "a", "b", "c")
	if err := os.Truncate(filepath.Join(jobproxy.SandboxOf(dir), "a"), 10<<30); err != nil { // sparse
		t.Fatal(err)
	}
	names, truncated, message := packed(t, dir, &jobproxy.Description{Artifacts: &jobproxy.Artifacts{Patterns: []string{"*"}}})
	if strings.Join(names, " ") != "b c" || !truncated || !strings.Contains(message, "max_artifact_size") {
		t.Errorf("by size: got %v, %v, %q", names, truncated, message)
	}
	names, truncated, message = packed(t, dir, &jobproxy.Description{Artifacts: &jobproxy.Artifacts{Patterns: []string{"*"}, MaxCount: 1, MaxSize: 100}})
	if strings.Join(names, " ") != "b" || !truncated || !strings.Contains(message, "max_artifact_count is 1") {
		t.Errorf("by count: got %v, %v, %q", names, truncated, message)
	}
}

// unpackInto unpacks an archive of artifacts into a new directory.
func unpackInto(t *testing.T, name, directory string, rules *jobproxy.Artifacts) error {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := os.Mkdir(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	return archive.Unpack(t.Context(), file, directory, rulesOf(rules))
}

func TestTheNextAttemptGetsTheFilesAsTheyWere(t *testing.T) {
	dir := sandboxWith(t, "out/step", "out/deep/model", "other")
	if err := os.Chmod(filepath.Join(jobproxy.SandboxOf(dir), "out/step"), 0o750); err != nil {
		t.Fatal(err)
	}
	rules := &jobproxy.Artifacts{Patterns: []string{"out/"}}
	packed, _, err := pack(dir, &jobproxy.Description{Artifacts: rules})
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	restored := filepath.Join(t.TempDir(), "restored")
	if err := unpackInto(t, packed.Name(), restored, rules); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"out/step": 0o750, "out/deep/model": 0o644} {
		content, err := os.ReadFile(filepath.Join(restored, name))
		if err != nil || string(content) != "0123456789" {
			t.Errorf("%s has %q, %v", name, content, err)
		}
		if info, err := os.Stat(filepath.Join(restored, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if _, err := os.Stat(filepath.Join(restored, "other")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not kept is there: %v", err)
	}
	for name, limits := range map[string]*jobproxy.Artifacts{"size": {MaxSize: 15}, "count": {MaxCount: 1}} {
		if err := unpackInto(t, packed.Name(), filepath.Join(t.TempDir(), name), limits); err == nil || !strings.Contains(err.Error(), "exceed") {
			t.Errorf("above the limit of %s: %v", name, err)
		}
	}
}

// A node that an attacker controls uploads what it likes. It must not write elsewhere on another node.
func TestArchivesThatLeaveTheSandboxAreRefused(t *testing.T) {
	for name, header := range map[string]tar.Header{
		"a path": {Name: "../x", Typeflag: tar.TypeReg}, "a link": {Name: "x", Linkname: "/etc", Typeflag: tar.TypeSymlink}, "a device": {Name: "x", Typeflag: tar.TypeChar},
	} {
		path := filepath.Join(t.TempDir(), "archive")
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		packed, err := zstd.NewWriter(file)
		if err != nil {
			t.Fatal(err)
		}
		out := tar.NewWriter(packed)
		if err := errors.Join(out.WriteHeader(&header), out.Close(), packed.Close(), file.Close()); err != nil {
			t.Fatal(err)
		}
		if err := unpackInto(t, path, filepath.Join(t.TempDir(), "restored"), &jobproxy.Artifacts{}); err == nil || !strings.Contains(err.Error(), "not a plain file inside the sandbox") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheFilesOfAbortedJobsAreKeptForAnotherAttempt(t *testing.T) {
	for _, test := range []struct {
		outcome jobproxy.Outcome
		reason  string
		rules   jobproxy.Artifacts
		kept    bool
	}{
		{jobproxy.Completed, "", jobproxy.Artifacts{}, true},
		{jobproxy.Failed, "", jobproxy.Artifacts{}, true},
		{jobproxy.Failed, "", jobproxy.Artifacts{OnlyCompleted: true}, false},
		{jobproxy.Aborted, "preemption", jobproxy.Artifacts{}, false},
		{jobproxy.Aborted, "preemption", jobproxy.Artifacts{OfAborted: true}, true},
		{jobproxy.Aborted, "operation_aborted", jobproxy.Artifacts{OfAborted: true}, false},
		{jobproxy.Aborted, jobproxy.GPUCheckFailed, jobproxy.Artifacts{OfAborted: true}, false},
	} {
		result := &jobproxy.Result{Outcome: test.outcome, AbortReason: test.reason}
		result.Timings.ExecStarted = time.Now()
		if got := keepsArtifacts(&test.rules, result); got != test.kept {
			t.Errorf("%+v: kept %v", test, got)
		}
		if result.Timings.ExecStarted = (time.Time{}); keepsArtifacts(&test.rules, result) {
			t.Errorf("%+v: kept though it never ran", test)
		}
	}
}

func TestAJobHoldsNothingWhileItsFilesAreKept(t *testing.T) {
	j := &job{given: resource.Amounts{resource.UserSlots: 1, resource.CPU: 100, resource.Memory: 1 << 30}, state: &jobproxy.State{RequestedMemory: 2 << 30, UserMemory: 1 << 20}}
	if held := j.holds(); held[resource.Memory] != 2<<30 || held[resource.UserSlots] != 1 {
		t.Errorf("it holds %v while it runs", held)
	}
	j.released = true
	if j.holds() != (resource.Amounts{}) || j.uses() != 0 || j.requested() != 0 {
		t.Errorf("it holds %v, uses %d, requests %d", j.holds(), j.uses(), j.requested())
	}
	if usage := j.statusMessage().GetUsage(); usage == nil || nodeproto.FromAmounts(usage) != (resource.Amounts{}) {
		t.Errorf("it reports %v", usage)
	}
}
