package jobproxy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// quotaDisk mounts a small file system with project quotas.
func quotaDisk(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("NOT ROOT: project quotas are not tested")
	}
	image, disk := filepath.Join(t.TempDir(), "disk"), t.TempDir()
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 64<<20); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{
		{"mkfs.ext4", "-q", "-F", "-O", "quota,project", "-E", "quotatype=prjquota", image},
		{"mount", "-o", "loop,prjquota", image, disk},
	} {
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Skipf("NO PROJECT QUOTAS HERE: %s: %v: %s", strings.Join(words, " "), err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", disk).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	if err := os.Chmod(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	return disk
}

// A job that writes too much gets an error of the kernel, at once and exactly; it does not fail for it by itself.
func TestAProjectQuotaHoldsAJobToItsDisk(t *testing.T) {
	disk := quotaDisk(t)
	if err := ProbeQuota(disk, 1_900_000_001); err != nil {
		t.Fatal(err)
	}
	n := hostedNodeIn(t, disk)
	job := n.isolated(`head -c 8M /dev/zero > $TMPDIR/file; echo "wrote $?"; stat -c %s $TMPDIR/file; touch $(seq 100); echo "touched $?"; ls | wc -l`)
	job.Disk, job.Project = Disk{Space: 4 << 20, Files: 20}, job.Credential.UID
	got := n.completed(t, job)
	has(t, got, "Disk quota exceeded", "wrote 1\n", "touched 1\n")
	if strings.Contains(got, "8388608") {
		t.Errorf("the job wrote everything:\n%s", got)
	}
	// The next job with this project has the whole limit again.
	again := n.isolated(`head -c 3M /dev/zero > file && echo fits`)
	again.Disk, again.Project = Disk{Space: 4 << 20}, again.Credential.UID
	has(t, n.completed(t, again), "fits\n")
}

func TestAFileSystemWithoutProjectQuotasIsNoticed(t *testing.T) {
	disk := t.TempDir()
	err := ProbeQuota(disk, 1_900_000_001)
	if err == nil {
		t.Skip("PROJECT QUOTAS HERE: what a file system without them answers is not tested")
	}
	if !strings.Contains(err.Error(), "project") {
		t.Errorf("%v does not say what is missing", err)
	}
	if left, err := os.ReadDir(disk); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
