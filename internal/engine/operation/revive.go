package operation

// A scheduler that takes over knows from its store which jobs of an operation
// have ended, and from the nodes which of them run. So a revived controller
// begins with no running jobs (Disown) and hears of them one after the other
// (Adopt).

// Disown makes every running job pending again without counting it as aborted:
// nobody knows yet whether it still runs. What memory it was given is remembered
// for Adopt.
func (c *Controller) Disown() {
	for i := range c.tasks {
		t := &c.tasks[i]
		for cookie := range t.next {
			if t.running.has(cookie) {
				t.running.remove(cookie)
				t.putBack(cookie)
			}
		}
		t.runningCount = 0
		t.recountOwn()
	}
	c.recount()
}

// Adopt makes a pending job running, because a node says that it runs it, or
// because its end is known and is going to be reported. ErrNotRunning means that
// the job must be stopped: it is done, runs elsewhere, or is of a gang that has
// begun anew.
func (c *Controller) Adopt(ref JobRef) error {
	if c.life.State.IsFinished() || ref.Incarnation != c.incarnation || ref.Task < 0 || int(ref.Task) >= len(c.tasks) {
		return ErrNotRunning
	}
	t := &c.tasks[ref.Task]
	if ref.Cookie < 0 || ref.Cookie >= t.count || !t.isPending(ref.Cookie) {
		return ErrNotRunning
	}
	for t.next < ref.Cookie { // those in between wait on, as returned ones
		t.returned.add(t.next, t.count)
		t.next++
	}
	c.takePending(int(ref.Task), ref.Cookie, t.resources(ref.Cookie))
	t.running.add(ref.Cookie)
	t.runningCount++
	c.running++
	c.nextIndex++
	return nil
}

// AdoptReserved is Adopt for a job of which the node says what memory it was
// given, as Reserve said when it started. Without it a job that was started after
// the snapshot was taken counts as having the factors of the first jobs.
func (c *Controller) AdoptReserved(ref JobRef, userFactor, proxyFactor float64) error {
	if err := c.Adopt(ref); err != nil {
		return err
	}
	if f := (factors{user: userFactor, proxy: proxyFactor}); f.areValid() {
		c.tasks[ref.Task].memory.remember(ref.Cookie, f)
	}
	return nil
}
