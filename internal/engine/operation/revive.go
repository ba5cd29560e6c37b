package operation

// A scheduler that takes over knows from its store which jobs of an operation
// have ended, and from the nodes which jobs run. So a revived controller
// starts with no running jobs (Disown) and adopts them one by one (Adopt).

// Disown makes every running job pending again without counting it as
// aborted, because it is not known yet whether the job still runs. The
// controller remembers the job's memory for Adopt.
func (c *Controller) Disown() {
	for i := range c.tasks {
		t := &c.tasks[i]
		for cookie := range t.next {
			if t.running.has(cookie) {
				t.running.remove(cookie)
				if !c.spec.IsExternal() {
					t.putBack(cookie)
				}
			}
		}
		t.runningCount = 0
		t.recountOwn()
	}
	c.recount()
}

// Adopt makes a pending job running, because a node reports that it runs it,
// or because its end is known and will be reported. ErrNotRunning means that
// the job must be stopped: it is done, runs elsewhere, or belongs to an
// earlier incarnation of a gang.
func (c *Controller) Adopt(ref JobRef) error {
	if c.life.State.IsFinished() || ref.Incarnation != c.incarnation || ref.Task < 0 || int(ref.Task) >= len(c.tasks) {
		return ErrNotRunning
	}
	t := &c.tasks[ref.Task]
	if c.spec.IsExternal() {
		return c.adoptExternal(ref)
	}
	if ref.Cookie < 0 || ref.Cookie >= t.count || !t.isPending(ref.Cookie) {
		return ErrNotRunning
	}
	for t.next < ref.Cookie { // the cookies in between keep waiting, as returned ones
		t.returned.add(t.next, t.count)
		t.next++
	}
	c.takePending(int(ref.Task), ref.Cookie, t.resources(ref.Cookie))
	t.running.add(ref.Cookie)
	t.runningCount++
	c.running++
	c.nextIndex++
	t.started++
	return nil
}

// TakeBack makes one running job pending again without counting it as aborted: it was
// ordered by a scheduler that died, and no node ever got it.
func (c *Controller) TakeBack(ref JobRef) error {
	if ref.Incarnation != c.incarnation || ref.Task < 0 || int(ref.Task) >= len(c.tasks) || !c.tasks[ref.Task].running.has(ref.Cookie) {
		return ErrNotRunning
	}
	t := &c.tasks[ref.Task]
	t.running.remove(ref.Cookie)
	if !c.spec.IsExternal() { // else its owner offers it again
		t.putBack(ref.Cookie)
	}
	t.runningCount--
	t.recountOwn()
	c.recount()
	return nil
}

// AdoptReserved is Adopt for a job for which the node reports the memory that
// it was given, as returned by Reserve at its start. Without it, a job that
// started after the snapshot was made counts as having the factors of the
// first jobs.
func (c *Controller) AdoptReserved(ref JobRef, userFactor, proxyFactor float64) error {
	if err := c.Adopt(ref); err != nil {
		return err
	}
	if f := (factors{user: userFactor, proxy: proxyFactor}); f.areValid() {
		c.tasks[ref.Task].memory.remember(ref.Cookie, f)
	}
	return nil
}
