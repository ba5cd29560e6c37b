package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

func TestStatesOfADisk(t *testing.T) {
	const gib = 1 << 30
	rules := DefaultDiskRules()
	for _, c := range []struct {
		name   string
		disk   disk
		before diskState
		want   diskState
	}{
		{"half free", disk{size: 1000 * gib, free: 500 * gib, files: 100, freeFiles: 50}, diskFine, diskFine},
		{"below a tenth", disk{size: 1000 * gib, free: 99 * gib, files: 100, freeFiles: 50}, diskFine, diskLow},
		{"below 3 %", disk{size: 1000 * gib, free: 29 * gib, files: 100, freeFiles: 50}, diskLow, diskFull},
		{"full stays full up to a fifth more", disk{size: 1000 * gib, free: 35 * gib, files: 100, freeFiles: 50}, diskFull, diskFull},
		{"and is low above that", disk{size: 1000 * gib, free: 37 * gib, files: 100, freeFiles: 50}, diskFull, diskLow},
		{"2 GiB are full even if they are 4 %", disk{size: 50 * gib, free: 2*gib - 1}, diskFine, diskFull},
		{"a small disk is judged by its size", disk{size: 4 * gib, free: 1 * gib}, diskFine, diskFine},
		{"below 1 %", disk{size: 1000 * gib, free: 9 * gib, files: 100, freeFiles: 50}, diskFull, diskCritical},
		{"critical stays critical up to a fifth more", disk{size: 1000 * gib, free: 11 * gib, files: 100, freeFiles: 50}, diskCritical, diskCritical},
		{"and is full above that", disk{size: 1000 * gib, free: 13 * gib, files: 100, freeFiles: 50}, diskCritical, diskFull},
		{"512 MiB are critical even if they are 2 %", disk{size: 25 * gib, free: gib/2 - 1}, diskFine, diskCritical},
		{"no files left", disk{size: 1000 * gib, free: 500 * gib, files: 100, freeFiles: 0}, diskFine, diskCritical},
		{"hardly any files left", disk{size: 1000 * gib, free: 500 * gib, files: 100, freeFiles: 2}, diskFine, diskFull},
		{"few files left", disk{size: 1000 * gib, free: 500 * gib, files: 100, freeFiles: 9}, diskFine, diskLow},
		{"a file system without a limit of files", disk{size: 1000 * gib, free: 500 * gib}, diskFine, diskFine},
		{"a file system that does not tell", disk{}, diskFine, diskFine},
	} {
		if got := rules.state(c.disk, c.before); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

// mounted mounts a small file system for a test.
func mounted(t *testing.T, size int) string {
	t.Helper()
	at := t.TempDir()
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		if errors.Is(err, unix.EPERM) {
			t.Skip("only root mounts")
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, 0); err != nil {
			t.Error(err)
		}
	})
	return at
}

// look checks the agent's disk at once.
func look(a *Agent) {
	space, err := probe(a.Options.Directory)
	a.judge(space, err)
	a.settle()
}

// settle waits for what the agent does outside its loop, and does what that asks the loop for.
func (a *Agent) settle() {
	a.workers.Wait()
	for {
		select {
		case event := <-a.events:
			event()
		default:
			return
		}
	}
}

// newUnwellNode returns an agent with its own file system.
func newUnwellNode(t *testing.T) *Agent {
	a := newNode(1000)
	a.Options.Directory = mounted(t, 8<<20)
	a.Options.Description = &nodev1.NodeDescription{Name: "n"}
	a.Driver, _ = cgroup.NewProcessLimits("weir")
	a.session = nodeproto.NewNodeSession(a.Options.Description, 1, nil)
	a.ctx, a.events, a.Log = t.Context(), make(chan func(), 8), slog.New(slog.DiscardHandler)
	return a
}

// waits adds a job that waits for disk space, of which there is none.
func (a *Agent) waits(number uint64) *job {
	j := &job{number: number, identity: &nodev1.JobIdentity{Number: number}, given: a.limits, queued: true}
	a.jobs[number] = j
	a.queue = append(a.queue, queued{job: j})
	return j
}

func TestANodeWithAFullDiskSaysSoAndGivesWaitingJobsBack(t *testing.T) {
	a := newUnwellNode(t)
	a.add(10, 10, 1_00)
	waiting := a.waits(7)
	if look(a); a.health.String() != "" || a.status.GetDraining() || waiting.result != nil {
		t.Fatalf("a new disk: %q, draining %v", a.health.String(), a.status.GetDraining())
	}

	filler := filepath.Join(a.Options.Directory, "filler")
	if err := os.WriteFile(filler, make([]byte, 9<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
	look(a)
	if !a.status.GetDraining() || len(a.status.GetAlerts()) != 1 || !strings.HasPrefix(a.status.GetAlerts()[0], "disk_full: ") {
		t.Errorf("status of a full node: draining %v, alerts %q", a.status.GetDraining(), a.status.GetAlerts())
	}
	if r := waiting.result; r.GetState() != nodev1.JobState_JOB_STATE_ABORTED || r.GetAbortReason() != "node_with_disabled_jobs" || r.GetStarted() {
		t.Errorf("result of the waiting job: %v", r)
	}
	a.start(&nodeproto.Start{Identity: &nodev1.JobIdentity{Number: 8}, Spec: &nodev1.JobSpec{}})
	if r := a.jobs[8].result; r.GetAbortReason() != "node_with_disabled_jobs" || !strings.Contains(r.GetError().GetMessage(), "disk_full") {
		t.Errorf("result of a job that came too late: %v", r)
	}
	if running := a.jobs[1]; running.result != nil || running.ending {
		t.Error("a job that ran was ended")
	}

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if look(a); a.status.GetDraining() || len(a.status.GetAlerts()) != 0 {
		t.Errorf("after room was made: draining %v, alerts %q", a.status.GetDraining(), a.status.GetAlerts())
	}
}

func TestANodeWithAReadOnlyDiskTakesNoJobs(t *testing.T) {
	a := newUnwellNode(t)
	if err := unix.Mount("", a.Options.Directory, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	look(a)
	if !a.status.GetDraining() || !strings.HasPrefix(a.health.String(), "disk_broken: ") || !errors.Is(a.health.broken, unix.EROFS) {
		t.Errorf("draining %v: %s", a.status.GetDraining(), a.health.String())
	}
}

// collector is a scheduler that keeps only the size of uploads.
type collector struct {
	Caller
	received int64
}

func (c *collector) Upload(_ context.Context, request *nodev1.UploadRequest) (*nodev1.UploadResponse, error) {
	if request.GetOffset() == c.received {
		c.received += int64(len(request.GetData()))
	}
	return &nodev1.UploadResponse{NextOffset: c.received}, nil
}

func TestLargeOutputDoesNotGoThroughTheAgentsMemory(t *testing.T) {
	dir := t.TempDir()
	const size = 1 << 30
	for _, offset := range []int64{0, size / 2} { // sparse files, as a proxy writes them
		name := filepath.Join(dir, fmt.Sprintf("stderr.%d", offset))
		if err := errors.Join(os.WriteFile(name, nil, 0o600), os.Truncate(name, size/2)); err != nil {
			t.Fatal(err)
		}
	}
	scheduler := &collector{}
	a := &Agent{
		Options: Options{Caller: scheduler, Description: &nodev1.NodeDescription{Name: "n"}, Log: slog.New(slog.DiscardHandler)},
		events:  make(chan func(), 1), jobs: map[uint64]*job{}, uploads: make(chan struct{}, maxUploads), ctx: t.Context(),
	}
	a.Driver, _ = cgroup.NewProcessLimits("weir")
	a.session = nodeproto.NewNodeSession(a.Options.Description, 1, nil)
	j := &job{number: 1, dir: dir, identity: &nodev1.JobIdentity{Number: 1}}
	a.jobs[1] = j
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	a.ended(j, &jobproxy.Result{Outcome: jobproxy.Completed})
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 8<<20 {
		t.Errorf("the agent allocated %d MiB to send %d MiB", allocated>>20, scheduler.received>>20)
	}
	if scheduler.received != maxOutput {
		t.Errorf("%d bytes were uploaded, want %d", scheduler.received, maxOutput)
	}
	(<-a.events)()
	if out := j.result.GetStderr(); !out.GetUploaded() || out.GetSize() != size || out.GetSkipped() != size-maxOutput {
		t.Errorf("the result says %v", out)
	}
}

func TestAJobThatNoNodeCouldStartHasFailed(t *testing.T) {
	j := &job{number: 1, identity: &nodev1.JobIdentity{Number: 1}}
	_, err := jobproxy.Launch([]string{"/bin/true"}, t.TempDir(), &jobproxy.Description{JobID: "1-2-3-4", Environment: []jobproxy.Variable{{Name: "A", Value: "a\x00b"}}})
	if r := cannotStart(j, err); r.GetState() != nodev1.JobState_JOB_STATE_FAILED || !strings.Contains(r.GetError().GetMessage(), "environment") {
		t.Errorf("a description that breaks a rule (%v): %v", err, r)
	}
	if r := cannotStart(j, unix.ENOSPC); r.GetState() != nodev1.JobState_JOB_STATE_ABORTED || r.GetAbortReason() != jobproxy.ProxyFailed {
		t.Errorf("a full disk: %v", r)
	}
}
