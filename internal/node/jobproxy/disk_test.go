package jobproxy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheFilesOfAJobAreAddedUp(t *testing.T) {
	root := t.TempDir()
	sandbox, temporary := filepath.Join(root, "sandbox"), filepath.Join(root, "tmp")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(sandbox, "a", "b"), 0o755))
	must(os.Mkdir(temporary, 0o755))
	data := make([]byte, 1<<20)
	data[len(data)-1] = 1
	must(os.WriteFile(filepath.Join(sandbox, "a", "b", "file"), data, 0o600))
	must(os.Link(filepath.Join(sandbox, "a", "b", "file"), filepath.Join(temporary, "again")))
	must(os.WriteFile(filepath.Join(temporary, "other"), data, 0o600))
	must(os.Symlink("/usr", filepath.Join(sandbox, "elsewhere")))
	must(os.Truncate(filepath.Join(temporary, "other"), 1<<40)) // a hole takes nothing

	u := measureDisk(Disk{}, sandbox, temporary)
	if u.Files != 5 || u.Space < 2<<20 || u.Space > 2<<20+64<<10 { // two directories, two files, a link
		t.Errorf("%d files take %d bytes", u.Files, u.Space)
	}
	for _, limit := range []Disk{{Space: 1 << 20}, {Files: 4}} {
		if u := measureDisk(limit, sandbox, temporary); !u.exceeds(limit) {
			t.Errorf("%+v does not exceed %+v", u, limit)
		}
	}
	if limit := (Disk{Space: 3 << 20, Files: 5}); u.exceeds(limit) {
		t.Errorf("%+v exceeds %+v", u, limit)
	}
	if u := measureDisk(Disk{}, filepath.Join(root, "nothing")); u.Files != 0 {
		t.Errorf("a directory that is not there has %d files", u.Files)
	}
	must(os.MkdirAll(filepath.Join(sandbox, strings.Repeat("d/", maxDepth+1)), 0o755))
	if u := measureDisk(Disk{}, sandbox); !u.exceeds(Disk{}) {
		t.Errorf("%+v is not too deep", u)
	}
}

func TestAJobWhoseFilesTakeTooMuchFails(t *testing.T) {
	n := hostedNode(t)
	var directories []string
	for _, test := range []struct {
		disk    Disk
		command string
	}{
		{Disk{Space: 4 << 20}, "head -c 8M /dev/zero > $TMPDIR/file; exec sleep 1000"},
		{Disk{Files: 10}, "touch $(seq 20); exec sleep 1000"},
	} {
		job := n.isolated(test.command)
		job.Disk = test.disk
		directories = append(directories, n.launch(t, job))
	}
	for _, directory := range directories {
		if result := n.result(t, directory); result.Outcome != Failed || result.Error.Message != "Disk limit exceeded" {
			t.Errorf("%v, %+v", result.Outcome, result.Error)
		}
	}
}
