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

	"github.com/klauspost/compress/zstd"

	"github.com/weirhq/weir/internal/node/jobproxy"
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
