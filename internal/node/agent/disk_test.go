package agent

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/internal/node/jobproxy"
)

func TestTheJobWithTheLargestExcessOfDiskSpaceIsEndedFirst(t *testing.T) {
	uses := map[string][2]int64{"within": {90, 100}, "small": {30, 20}, "large": {80, 20}, "other": {60, 0}, "gone": {}}
	measure := func(dir string) (used, requested int64, err error) {
		if dir == "gone" {
			return 1 << 40, 0, os.ErrNotExist
		}
		return uses[dir][0], uses[dir][1], nil
	}
	jobs := func(dirs ...string) (list []diskUse) {
		for i, dir := range dirs {
			list = append(list, diskUse{number: uint64(i + 1), dir: dir})
		}
		return list
	}
	for _, test := range []struct {
		dirs []string
		want uint64
	}{
		{[]string{"within", "small", "large"}, 3},
		{[]string{"large", "other"}, 2}, // the newest of equals
		{[]string{"gone", "small"}, 2},
		{[]string{"within"}, 0},
		{nil, 0},
	} {
		got := uint64(0)
		if victim := worst(jobs(test.dirs...), measure); victim != nil {
			got = victim.number
		}
		if got != test.want {
			t.Errorf("%v: job %d is ended, want %d", test.dirs, got, test.want)
		}
	}
}

func TestTheReserveIsGivenUpWhenTheDiskIsFullAndComesBack(t *testing.T) {
	a := newUnwellNode(t)
	reserve := filepath.Join(a.Options.Directory, reserveFile)
	look(a)
	info, err := os.Stat(reserve)
	if err != nil || info.Size() != 8<<20/reserveShare {
		t.Fatalf("the reserve: %v, %v", info, err)
	}
	filler := filepath.Join(a.Options.Directory, "filler")
	if err := os.WriteFile(filler, make([]byte, 9<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
	if err := os.WriteFile(filepath.Join(a.Options.Directory, "result"), make([]byte, 10_000), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("a result is written to a full disk: %v", err)
	}
	if look(a); a.health.disk != diskCritical {
		t.Errorf("the disk is %d", a.health.disk)
	}
	if err := os.WriteFile(filepath.Join(a.Options.Directory, "result"), make([]byte, 10_000), 0o600); err != nil {
		t.Errorf("a result cannot be written after the reserve is given up: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	look(a)
	if _, err := os.Stat(reserve); err != nil {
		t.Errorf("the reserve did not come back: %v", err)
	}
}

func TestANodeWithoutDiskSpaceEndsTheJobThatTookIt(t *testing.T) {
	a := newUnwellNode(t)
	a.add(10, 10, 1_00)
	victim := a.jobs[1]
	victim.launched, victim.dir = true, filepath.Join(a.Options.Directory, "job")
	sandbox := filepath.Join(victim.dir, "sandbox")
	description := []byte(`{"version": 1, "job_id": "1-2-3-4", "operation_id": "5-6-7-8", "command": "x", "max_stderr_size": 1, "container": {"parent": "p", "mode": "process_limits"},
		"memory": {"memory_limit": 1, "allocation_memory": 1, "ahead_memory_reserve": 1, "user_job_reserve": 1}, "cpu_limit": 1, "disk_request": 1000000,
		"job_index": 0, "task_job_index": 0, "job_cookie": 0}`)
	if err := errors.Join(os.MkdirAll(sandbox, 0o755), os.WriteFile(filepath.Join(victim.dir, "job.json"), description, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(sandbox, "large"), make([]byte, 9<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
	if used, requested, err := jobproxy.DiskUse(victim.dir); err != nil || used < 7<<20 || requested != 1_000_000 {
		t.Fatalf("the job takes %d of %d, %v", used, requested, err)
	}
	ordered := ""
	victim.stop = func(order jobproxy.Order) { ordered = order.Reason }
	look(a)
	if ordered != "disk_overdraft" || !victim.ending {
		t.Errorf("the job is ended with %q", ordered)
	}
	ordered = ""
	if look(a); ordered != "" {
		t.Error("the job is ended twice")
	}
}
