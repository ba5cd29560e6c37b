package jobproxy

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/internal/node/cgroup"
)

// finish ends what is left of the job, writes the result, cleans up, and then notifies the listeners.
func (p *proxy) finish(tell func()) error {
	p.phase = Finishing
	p.publish(true)
	p.killAll()
	p.awaitStreams()
	now := time.Now()
	if p.container != nil && p.root != 0 {
		if _, ok := p.sample(now, true); !ok {
			p.warn("the last figures of the job could not be read")
		}
		p.memory.ended(p.rusage.Maxrss<<10, p.used.Peak)
		p.addRusage()
		if p.cause == nil && p.used.OOMKills > 0 {
			p.killedByKernel()
		}
	}
	if p.cause == nil {
		p.cause = p.endOf(*p.status)
	}
	p.timings.Finished = now
	result := p.result(now)
	err := p.writeResult(result)
	if err == nil {
		p.clear()
	}
	p.phase = Finished
	p.publish(true)
	tell()
	return err
}

// crowd is the process count above which killAll raises the container's CPU guarantee to crowdGuarantee cores.
const (
	crowd          = 100
	crowdGuarantee = 16
)

// killAll returns when the container is empty. The job has not ended before that.
func (p *proxy) killAll() {
	if p.container == nil {
		if p.init != nil {
			p.awaitInit()
		}
		return
	}
	if pids, err := p.container.Processes(); err == nil && len(pids) > crowd {
		// Processes need CPU to end. With a small guarantee many of them would need long.
		if err := p.container.SetCPU(cgroup.CPU{Guarantee: crowdGuarantee}); err != nil {
			p.log.Print(err)
		}
	}
	for {
		ctx, cancel := context.WithTimeout(context.Background(), killPatience)
		err := p.container.Kill(ctx)
		cancel()
		if err == nil {
			break
		}
		p.warn("%v", err)
		p.publish(true)
	}
	if p.init != nil {
		p.awaitInit()
		return
	}
	for p.root != 0 && p.status == nil {
		var status syscall.WaitStatus
		var rusage unix.Rusage
		pid, err := wait(p.root, &status, 0, &rusage)
		if err != nil { // nobody else waits, so this cannot happen
			p.warn("wait for the command: %v", err)
			status = 0
			p.status = &status
			return
		}
		p.reaped(pid, status, rusage)
	}
}

// awaitStreams waits until the command's output has been stored.
func (p *proxy) awaitStreams() {
	patience := time.NewTimer(streamPatience)
	defer patience.Stop()
	for i, done := range p.drained {
		select {
		case <-done:
			p.streams[i].Close()
			if err := p.streams[i].err; err != nil {
				p.warn("%s of the job is not complete: %v", p.streams[i].name, err)
			}
		case <-patience.C:
			p.warn("%s of the job is still open in a process outside its container", p.streams[i].name)
			return
		}
	}
}

// addRusage adds what the kernel reports about the command and the children it waited for, where the container's
// accounting might have missed it.
func (p *proxy) addRusage() {
	user, system := time.Duration(p.rusage.Utime.Nano()), time.Duration(p.rusage.Stime.Nano())
	if p.used.Approximate && user+system > p.used.CPUTime {
		p.used.UserTime, p.used.SystemTime, p.used.CPUTime = user, system, user+system
	}
}

// endOf returns what the command's exit status means for the job.
func (p *proxy) endOf(status syscall.WaitStatus) *ending {
	if failed := p.failedCheck(); failed != nil {
		return failed
	}
	i := p.interruption
	if i != nil && i.failing {
		return &ending{Failed, "", newError(CodeGeneric, i.message)}
	}
	if i != nil && p.stoppedAsAsked(status) {
		return &ending{outcome: Interrupted}
	}
	if status.Exited() && status.ExitStatus() == 0 {
		return &ending{outcome: Completed}
	}
	var inner *Error
	if status.Signaled() {
		inner = newError(CodeSignal, fmt.Sprintf("Process terminated by signal %d (%s)", int(status.Signal()), signalName(status.Signal())),
			"signal", int(status.Signal()), "core_dumped", status.CoreDump())
	} else {
		inner = newError(CodeExitCode, fmt.Sprintf("Process exited with code %d", status.ExitStatus()), "exit_code", status.ExitStatus())
	}
	failed := newError(CodeUserJobFailed, "User job failed")
	failed.Inner = []Error{*inner}
	return &ending{Failed, "", failed}
}

// stoppedAsAsked reports whether an interrupted command ended because it was asked to and should be restarted: with
// restart_exit_code, or by the signal it was sent, which a shell reports as 128 plus its number.
func (p *proxy) stoppedAsAsked(status syscall.WaitStatus) bool {
	signal := signalNumber(p.job.Interruption.Signal)
	if status.Signaled() {
		return status.Signal() == signal
	}
	code := status.ExitStatus()
	return code == 128+int(signal) || p.job.RestartExitCode != nil && code == *p.job.RestartExitCode
}

func (p *proxy) result(now time.Time) *Result {
	r := &Result{
		Version: DescriptionVersion, JobID: p.job.JobID, OperationID: p.job.OperationID,
		Outcome: p.cause.outcome, AbortReason: p.cause.reason, Error: p.cause.err,
		Interrupted: p.interruption != nil, Timings: p.timings, Statistics: p.statistics(now), Warnings: p.warnings,
	}
	if p.status != nil {
		if p.status.Signaled() {
			signal := int(p.status.Signal())
			r.Signal = &signal
		} else {
			code := p.status.ExitStatus()
			r.ExitCode = &code
		}
	}
	if p.monitor != nil { // the checks that changed something
		limit := p.monitor.HardLimit()
		for _, check := range p.monitor.History(nil) {
			if check.Limit != limit {
				r.CPUHistory = append(r.CPUHistory, check)
				limit = check.Limit
			}
		}
	}
	return r
}

// writeResult must succeed: without a result the job would run again. On a full disk it deletes the job's own files to
// make room.
func (p *proxy) writeResult(r *Result) error {
	const attempts = 10
	pause := 100 * time.Millisecond
	var err error
	for range attempts {
		if err = writeJSON(p.dir, resultFile, r, true); err == nil {
			return nil
		}
		p.log.Print(err)
		if p.sandbox != nil {
			p.sandbox.remove(false)
		}
		time.Sleep(pause)
		pause *= 2
	}
	return err
}

// clear removes the container and the sandbox. It leaves what it cannot remove to Recover.
func (p *proxy) clear() {
	if p.container != nil {
		if err := p.container.Remove(); err != nil {
			p.log.Print(err)
		}
	}
	if p.sandbox != nil {
		if err := p.sandbox.remove(p.job.KeepSandbox); err != nil {
			p.log.Print(err)
		}
	}
}
