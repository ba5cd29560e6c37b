package jobproxy

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestFilesOfTheNodeAreReadOnlyInsideTheAllowedDirectory(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "allowed")
	inside, outside := filepath.Join(root, "inside"), filepath.Join(dir, "outside")
	for _, err := range []error{
		os.Mkdir(root, 0o755), os.WriteFile(inside, []byte("yes"), 0o644), os.WriteFile(outside, []byte("no"), 0o644),
		os.WriteFile(filepath.Join(root, "private"), []byte("no"), 0o600), os.Symlink(outside, filepath.Join(root, "link")),
		os.Symlink("inside", filepath.Join(root, "near")), syscall.Mkfifo(filepath.Join(root, "pipe"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	job := &Credential{UID: 1, GID: 1}
	for _, test := range []struct {
		name  string
		owner *Credential
		want  string // the content, or words of the error
		fails bool
	}{
		{"inside", job, "yes", false}, {"near", job, "yes", false}, {"private", nil, "no", false},
		{"private", job, "not every user", true}, {"link", job, "escapes", true}, {"pipe", job, "not a plain file", true},
		{"../outside", job, "escapes", true}, {"none", job, "no such file", true}, {".", job, "not a plain file", true},
	} {
		file, err := openSource(File{Source: root + "/" + test.name, Root: root}, test.owner)
		if err != nil {
			if !test.fails || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, want %q", test.name, err, test.want)
			}
			continue
		}
		data, err := io.ReadAll(file)
		file.Close()
		if err != nil || test.fails || string(data) != test.want {
			t.Errorf("%s: got %q, %v; want %q, refused %v", test.name, data, err, test.want, test.fails)
		}
	}
}
