package jobproxy

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/internal/node/cgroup"
)

// interruption is a request that the job end by itself.
type interruption struct {
	reason   string // of the abort if the job does not end
	message  string
	deadline time.Time // zero is never
	failing  bool      // the job fails, however it ends
}

// watch follows the job until its command ends or there is a reason to end it.
func (p *proxy) watch() {
	defer p.alarm.close()
	for p.status == nil && p.cause == nil {
		p.alarm.set(p.nextDeadline())
		select {
		case s := <-p.signals:
			p.signalled(s)
		case order := <-p.orders:
			p.order(order)
		case e := <-p.entries:
			p.enter(e)
		case <-p.oom:
			p.checkMemory(time.Now())
		case <-p.initGone():
			p.initEnded()
		case usage := <-p.diskUsage:
			p.judgeDisk(usage)
		case <-p.alarm.rings:
			p.tick(time.Now())
		}
	}
}

// initGone is closed when the job's init has ended; it is nil without one.
func (p *proxy) initGone() <-chan struct{} {
	if p.init == nil {
		return nil
	}
	return p.init.gone
}

// nextDeadline is when the next timed action is due.
func (p *proxy) nextDeadline() time.Time {
	next := p.nextMemory
	for _, at := range []time.Time{p.nextCPU, p.nextDisk, p.timeLimit(), p.interruptionDeadline()} {
		if !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return next
}

func (p *proxy) timeLimit() time.Time {
	if p.job.TimeLimit == 0 {
		return time.Time{}
	}
	return p.timings.ExecStarted.Add(time.Duration(p.job.TimeLimit))
}

func (p *proxy) interruptionDeadline() time.Time {
	if p.interruption == nil {
		return time.Time{}
	}
	return p.interruption.deadline
}

func due(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

// tick performs the actions that are due.
func (p *proxy) tick(now time.Time) {
	if due(p.timeLimit(), now) {
		p.end(Failed, "", newError(CodeTimeLimitExceeded, "Job time limit exceeded", "limit", time.Duration(p.job.TimeLimit).Milliseconds()))
		return
	}
	if i := p.interruption; i != nil && due(i.deadline, now) {
		p.outOfTime(i)
		return
	}
	if due(p.nextDisk, now) {
		p.checkDisk()
	}
	checkCPU := due(p.nextCPU, now)
	if !checkCPU && !due(p.nextMemory, now) {
		return
	}
	// A CPU check samples memory too: with equal periods the two then coincide.
	p.checkMemory(now)
	if checkCPU && p.cause == nil {
		p.checkCPU(now)
	}
	if !p.hosted && p.shrinks < len(shrinkDelays) && now.Sub(p.timings.ExecStarted) >= shrinkDelays[p.shrinks] {
		p.shrinks++
		if err := shrink(); err != nil {
			p.log.Print(err)
		}
	}
}

func (p *proxy) outOfTime(i *interruption) {
	if i.failing {
		p.end(Failed, "", newError(CodeGeneric, i.message))
		return
	}
	p.end(Aborted, i.reason, newError(CodeGeneric, "the job was asked to end and did not in time", "reason", i.message))
}

// checkMemory takes a sample and acts on it.
func (p *proxy) checkMemory(now time.Time) {
	period := time.Duration(p.job.Memory.WatchdogPeriod)
	if period == 0 {
		period = defaultWatchdogPeriod
	}
	p.look = min(2*p.look, period)
	p.nextMemory = now.Add(p.look)
	p.meetInit()

	verdict, ok := p.sample(now, p.recordDue(now))
	if !ok {
		return
	}
	switch {
	case p.used.OOMKills > 0:
		p.sample(now, true) // the details show which process is to blame
		p.killedByKernel()
	case verdict.limitExceeded:
		p.memoryLimitExceeded(p.memory.now.user+p.memory.now.tmpfs(), p.memory.now.tmpfs())
	case verdict.overdraft != "":
		p.end(Aborted, ResourceOverdraft, newError(CodeGeneric, "memory reserve exceeded", "process", verdict.overdraft,
			"usage", p.memory.now.user+p.memory.now.tmpfs(), "user_job_reserve", p.job.Memory.UserReserve,
			"job_proxy_usage", p.memory.now.proxy, "job_proxy_reserve", p.job.Memory.ProxyReserve+p.job.Memory.Footprint))
	}
	crossed := p.cause == nil && p.setOOMScores()
	p.publish(verdict.grown || crossed || p.recordDue(now))
}

// sample measures the job; detailed includes everything that is known about it.
func (p *proxy) sample(now time.Time, detailed bool) (verdict memoryVerdict, ok bool) {
	var usage cgroup.Usage
	var err error
	if p.container == nil { // of a job that ended while nobody watched it
		return verdict, false
	}
	if detailed {
		usage, err = p.container.Usage()
	} else {
		usage, err = p.container.Glance(p.glanced)
	}
	if err != nil {
		p.log.Print(err)
		return verdict, false
	}
	if !detailed && usage == p.glanced && !usage.Approximate { // no process has run: nothing has changed
		return p.memory.observe(now, p.memory.now), true
	}
	p.glanced, p.used, p.stirred = usage, newer(p.used, usage), true
	s := memorySample{volumes: p.sandbox.usage()}
	s.user = userMemory(usage, s.tmpfs(), p.job.Memory.ExcludeMapped)
	if s.proxy, err = p.own.read(); err != nil {
		p.log.Print(err)
		return verdict, false
	}
	return p.memory.observe(now, s), true
}

// memoryLimitExceeded fails the job, and records which processes used how much while they still exist.
func (p *proxy) memoryLimitExceeded(usage, tmpfs int64) {
	pids, _ := p.container.Processes()
	failed := newError(CodeUserJobFailed, "User job failed")
	failed.Inner = []Error{*newError(CodeMemoryLimitExceeded, "Memory limit exceeded", "usage", usage, "limit", p.job.Memory.Limit,
		"tmpfs_usage", tmpfs, "processes", cgroup.LargestProcesses(pids, 20))}
	p.end(Failed, "", failed)
}

// killedByKernel ends a job after the kernel has killed one of its processes. If the kernel enforced the container's
// limit, and that limit is not below the user's, the job has used more than the user allows. Otherwise the machine, or
// the group that holds all jobs, was out of memory: the kernel reports that group's limit to this container too, but
// then the container was not full.
func (p *proxy) killedByKernel() {
	limit := p.job.Container.MemoryLimit
	own := limit > 0 && p.used.LimitEvents > 0 && p.used.Peak >= limit-limit/20
	if own && limit >= p.job.Memory.Limit {
		p.memoryLimitExceeded(p.used.Peak, p.memory.now.tmpfs())
		return
	}
	p.end(Aborted, ResourceOverdraft, newError(CodeGeneric, "the kernel killed a process of the job for lack of memory",
		"usage", p.memory.now.user+p.memory.now.tmpfs(), "oom_kills", p.used.OOMKills, "container_limit", limit))
}

// checkCPU asks the monitor and applies the limit that it advises.
func (p *proxy) checkCPU(now time.Time) {
	period := p.monitor.Options().CheckPeriod
	if p.nextCPU = p.nextCPU.Add(period); !p.nextCPU.After(now) { // missed checks are not repeated
		p.nextCPU = now.Add(period)
	}
	if p.observeCPU(now) {
		p.publish(true)
	}
}

// observeCPU reports whether the limit has changed. It locks the board, which reads the monitor's history.
func (p *proxy) observeCPU(now time.Time) (changed bool) {
	p.board.mu.Lock()
	defer p.board.mu.Unlock()
	user, system := p.ownCPU()
	advice := p.monitor.Observe(now, p.used.CPUTime+user+system)
	if !advice.Apply {
		return false
	}
	if err := p.container.SetCPU(p.cpu(advice.Limit)); err != nil {
		p.monitor.Refused()
		p.log.Print(err)
		return false
	}
	p.monitor.Applied()
	return true
}

// signalled handles a signal to the proxy itself.
func (p *proxy) signalled(s os.Signal) {
	switch s {
	case unix.SIGCHLD:
		p.reap()
	case unix.SIGTERM:
		p.end(Aborted, OtherReason, newError(CodeGeneric, "the job proxy was asked to stop"))
	}
}

// reap reaps every child that has ended. The proxy starts only the command, but orphans may be reparented to it.
func (p *proxy) reap() {
	for {
		var status syscall.WaitStatus
		var rusage unix.Rusage
		pid, err := wait(-1, &status, unix.WNOHANG, &rusage)
		if err != nil || pid <= 0 {
			return
		}
		p.reaped(pid, status, rusage)
	}
}

func (p *proxy) reaped(pid int, status syscall.WaitStatus, rusage unix.Rusage) {
	if pid == p.root && p.status == nil {
		p.status, p.rusage = &status, rusage
		p.timings.ExecFinished = time.Now()
	}
}

func wait(pid int, status *syscall.WaitStatus, options int, rusage *unix.Rusage) (int, error) {
	for {
		var raw unix.WaitStatus
		got, err := unix.Wait4(pid, &raw, options, rusage)
		*status = syscall.WaitStatus(raw)
		if err != unix.EINTR {
			return got, err
		}
	}
}

// takeOrders handles the orders that have arrived.
func (p *proxy) takeOrders() {
	for {
		select {
		case order := <-p.orders:
			p.order(order)
		case s := <-p.signals:
			p.signalled(s)
		default:
			return
		}
	}
}

// order carries out an order of the agent.
func (p *proxy) order(o Order) {
	switch o.Command {
	case Measure:
		p.checkDiskNow()
	case Abort:
		p.end(Aborted, o.Reason, newError(CodeGeneric, orElse(o.Message, "the job was aborted")))
	case Fail:
		message := orElse(o.Message, "the job was ordered to fail")
		if o.Timeout == 0 || !p.interrupt(&interruption{message: message, deadline: deadline(o.Timeout), failing: true}) {
			p.end(Failed, "", newError(CodeGeneric, message))
		}
	case Interrupt:
		asked := p.interrupt(&interruption{
			reason: orElse(o.Reason, InterruptionTimeout), message: o.Message, deadline: deadline(o.Timeout),
		})
		if !asked {
			p.end(Aborted, orElse(o.Reason, InterruptionUnsupported),
				newError(CodeGeneric, orElse(o.Message, "the job was interrupted"), "interruptible", p.job.Interruption.Signal != ""))
		}
	}
}

// interrupt asks the job to end. It returns false if the job cannot be asked. A repeated request can only bring the
// deadline forward, and sends no second signal.
func (p *proxy) interrupt(wish *interruption) bool {
	if p.phase != Running || p.job.Interruption.Signal == "" {
		return false
	}
	if old := p.interruption; old != nil {
		sooner := !wish.deadline.IsZero() && (old.deadline.IsZero() || wish.deadline.Before(old.deadline))
		if sooner || wish.failing && !old.failing {
			p.interruption = wish
			p.publish(true)
		}
		return true
	}
	p.interruption = wish
	signal := signalNumber(p.job.Interruption.Signal)
	if p.job.Interruption.RootProcessOnly {
		p.signalCommand(signal)
	} else if err := p.container.Signal(signal); err != nil {
		p.log.Print(err)
	}
	p.publish(true)
	return true
}

func deadline(timeout Duration) time.Time {
	if timeout == 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(timeout))
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
