package jobproxy

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/internal/node/cgroup"
)

// memorySample is one measurement of a job's memory, in bytes.
type memorySample struct {
	user    int64   // anonymous memory and mapped files, without tmpfs
	volumes []int64 // usage of each tmpfs volume
	proxy   int64   // of the proxy itself, without shared pages
}

func (s memorySample) tmpfs() (total int64) {
	for _, v := range s.volumes {
		total += v
	}
	return total
}

// userMemory is the memory of the user's processes without tmpfs. The kernel also counts mapped pages of tmpfs files as
// mapped files; userMemory subtracts as many mapped pages as may be tmpfs, because these are counted as tmpfs already.
func userMemory(u cgroup.Usage, tmpfs int64, excludeMapped bool) int64 {
	if excludeMapped {
		return u.Anonymous
	}
	files := max(0, u.Cache-u.Shared)
	sharedElsewhere := max(0, u.Shared-tmpfs)
	return u.Anonymous + min(u.Mapped, files+sharedElsewhere)
}

// memoryWatch compares a job's memory usage with its reserves and limits.
//
// Invariants: requested never falls and is at least the allocation; every maximum is the maximum of the samples.
type memoryWatch struct {
	promised Memory

	last       time.Time
	now        memorySample
	maxUser    int64
	maxTmpfs   int64
	maxVolumes []int64
	maxProxy   int64
	totalMax   int64
	requested  int64
	// bytes · seconds; a float because the product does not fit an integer
	userTime, proxyTime float64
}

func newMemoryWatch(promised Memory, volumes int, now time.Time) *memoryWatch {
	return &memoryWatch{
		promised: promised, last: now, maxVolumes: make([]int64, volumes),
		totalMax: promised.Allocation - promised.Ahead, requested: promised.Allocation,
	}
}

// memoryVerdict is the conclusion from a sample.
type memoryVerdict struct {
	limitExceeded bool   // the user's limit: the job fails
	overdraft     string // whose reserve, if the job must be aborted for it
	grown         bool   // requested has grown
}

func (w *memoryWatch) observe(now time.Time, s memorySample) memoryVerdict {
	passed := max(0, now.Sub(w.last).Seconds())
	w.userTime += float64(s.user) * passed
	w.proxyTime += float64(s.proxy) * passed
	w.last, w.now = now, s
	w.maxUser, w.maxProxy, w.maxTmpfs = max(w.maxUser, s.user), max(w.maxProxy, s.proxy), max(w.maxTmpfs, s.tmpfs())
	for i, v := range s.volumes {
		w.maxVolumes[i] = max(w.maxVolumes[i], v)
	}
	usage := s.user + s.tmpfs()
	w.totalMax = max(w.totalMax, usage+s.proxy)

	var verdict memoryVerdict
	if want := w.totalMax + w.promised.Ahead; want > w.requested {
		w.requested, verdict.grown = want, true
	}
	p := w.promised
	verdict.limitExceeded = p.Limit > 0 && usage > p.Limit
	switch {
	case p.AbortOnOverdraft && w.userIsAbove():
		verdict.overdraft = "user_job"
	case p.AbortOnOverdraft && w.proxyIsAbove(),
		p.ProxyOvercommit > 0 && s.proxy > p.ProxyReserve+p.Footprint+p.ProxyOvercommit:
		verdict.overdraft = "job_proxy"
	}
	return verdict
}

// userIsAbove reports whether the user's processes use more than their reserve, by the last sample.
func (w *memoryWatch) userIsAbove() bool { return w.now.user+w.now.tmpfs() > w.promised.UserReserve }

// proxyIsAbove reports the same about the proxy.
func (w *memoryWatch) proxyIsAbove() bool {
	return w.now.proxy > w.promised.ProxyReserve+w.promised.Footprint
}

// ended applies the peak resident size of a process that has ended. It covers what a short job used between two
// samples. The kernel's peak bounds it, because it might include shared pages. It would include mapped tmpfs as well.
func (w *memoryWatch) ended(residentPeak, containerPeak int64) {
	if w.maxTmpfs == 0 && containerPeak > 0 {
		w.maxUser = max(w.maxUser, min(residentPeak, containerPeak))
	}
}

// ownMemory reads the unshared memory of the processes that are there for the job: this one, and its init.
type ownMemory struct {
	files  []ownFile
	buffer [128]byte
}

// ownFile is the memory of one process, which serves some number of jobs.
type ownFile struct {
	file *os.File
	jobs func() int64
}

func openOwnMemory(jobs func() int64) (*ownMemory, error) {
	o := &ownMemory{}
	return o, o.add("self", jobs)
}

// add counts one more process.
func (o *ownMemory) add(process string, jobs func() int64) error {
	file, err := os.Open("/proc/" + process + "/statm")
	if err != nil {
		return fmt.Errorf("memory of the proxy: %w", err)
	}
	o.files = append(o.files, ownFile{file, jobs})
	return nil
}

func (o *ownMemory) close() {
	for _, f := range o.files {
		f.file.Close()
	}
	o.files = nil
}

// read returns the job's part of the memory of these processes. A process that has ended has none.
func (o *ownMemory) read() (total int64, err error) {
	for _, f := range o.files {
		n, err := cgroup.ReadCounter(f.file.Fd(), o.buffer[:])
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("memory of the proxy: %w", err)
		}
		fields := bytes.Fields(o.buffer[:n]) // size resident shared ..., in pages
		if len(fields) < 3 {
			return 0, fmt.Errorf("memory of the proxy: %q", o.buffer[:n])
		}
		resident, _ := strconv.ParseInt(string(fields[1]), 10, 40)
		shared, _ := strconv.ParseInt(string(fields[2]), 10, 40)
		total += (resident - shared) * int64(os.Getpagesize()) / max(f.jobs(), 1)
	}
	return total, nil
}

// one is how many jobs a process serves that is there for one.
func one() int64 { return 1 }
