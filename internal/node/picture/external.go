package picture

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/node/workload"
	"github.com/weirhq/weir/internal/value/resource"
)

// external is an operation whose jobs are pods of others.
type external struct {
	alias    string
	place    workload.Place
	priority int32  // of its first pod
	id       string // empty until the scheduler has it
	tasks    map[string]*guestTask
	starting bool
	ending   bool
	retryAt  time.Time
	attempts int
	problem  *workload.Problem // why the scheduler does not take it
	why      *workload.Problem // why its pods wait
	empty    time.Time         // since when it has no pods
}

const (
	// emptyFor is how long an operation without pods lasts.
	emptyFor = time.Minute
	// offersAgain is how often all waiting pods are offered: an offer whose cookie was still in use is lost.
	offersAgain = 30 * time.Second
	// startPause is the first pause before an operation that was not taken is tried again; startPauseMost is the longest.
	startPause     = time.Second
	startPauseMost = 10 * time.Second
	// whyPause is how often the scheduler is asked why pods wait.
	whyPause = 2 * time.Second
	// maxTasks is how many tasks an operation may have.
	maxTasks = 1000
	// maxStarts is how many operations are started at once.
	maxStarts = 64
)

// Ask is what the scheduler is asked about operations of pods. One is under way at a time; its parts are carried out in the
// order of the fields.
type Ask struct {
	List     bool
	Start    []Opening
	Withdraw []Withdrawal
	Offer    []Offer
	End      []string
	// Tasks asks which tasks of ordinary operations say something about their pods; Classify sets the classes of such tasks.
	Tasks    bool
	Classify []Classification
}

// Opening is an operation to start.
type Opening struct {
	Alias    string
	Place    workload.Place
	Priority int32 // of its first pod: the order in a FIFO pool
}

// Withdrawal is pods that are not to start any more.
type Withdrawal struct {
	Operation, Task string
	Cookies         []int32
}

// Offer is pods of one task that are to start.
type Offer struct {
	Operation, Task string
	Amounts         resource.Amounts
	Class           int32
	Alone           bool
	Priority        int32
	Cookies         []int32
}

// Known is an operation that the scheduler has.
type Known struct {
	ID, Alias string
	Place     workload.Place
}

// Opened is the answer to an Opening: an id, or why there is none.
type Opened struct {
	ID      string
	Problem *workload.Problem
}

// Answer answers an Ask.
type Answer struct {
	// Failed reports that part of it may not have been carried out. It is asked again.
	Failed bool
	Known  []Known
	Opened []Opened // in the order of Start
	// Gone are operations of offers that the scheduler does not have any more.
	Gone []string
	// Tasks are all tasks of ordinary operations that say something about their pods.
	Tasks []TaskSection
}

// samePlace reports whether pods of two places are of one operation.
func samePlace(a, b *workload.Place) bool {
	c := *a
	c.Given = b.Given
	return c == *b
}

// operationOf returns the operation of a place that has a task, or room for one more.
func (p *Picture) operationOf(place *workload.Place, task string, priority int32) *external {
	for number := 1; ; number++ {
		alias := place.Alias(number)
		op := p.guests.operations[alias]
		if op == nil {
			op = &external{alias: alias, place: *place, priority: priority, tasks: map[string]*guestTask{}}
			p.guests.operations[alias] = op
			return op
		}
		if samePlace(&op.place, place) && !op.ending && (op.tasks[task] != nil || len(op.tasks) < maxTasks) {
			op.place.Given = place.Given
			return op
		}
	}
}

// ask returns what to ask the scheduler now, nil for nothing.
func (p *Picture) ask(now time.Time) *Ask {
	if !p.synced || p.guests.asking {
		return nil
	}
	if !p.guests.listed {
		p.guests.asking = true
		return &Ask{List: true}
	}
	if p.guests.moved {
		p.placeGuests(now)
	}
	if p.blind {
		return nil
	}
	again := now.Sub(p.guests.offers) >= offersAgain
	a := &Ask{Withdraw: p.guests.pending, Tasks: p.tasksStale, Classify: p.classifications()}
	for _, alias := range sortedKeys(p.guests.operations) {
		p.askAbout(now, p.guests.operations[alias], again, a)
	}
	if again {
		p.guests.offers = now
	}
	if len(a.Start)+len(a.Withdraw)+len(a.Offer)+len(a.End)+len(a.Classify) == 0 && !a.Tasks {
		return nil
	}
	p.guests.pending, p.guests.asking, p.tasksStale = nil, true, false
	return a
}

// askAbout adds what an operation needs to an Ask.
func (p *Picture) askAbout(now time.Time, op *external, again bool, a *Ask) {
	pods := 0
	for _, t := range op.tasks {
		pods += len(t.pods)
	}
	switch {
	case pods > 0:
		op.empty = time.Time{}
	case op.empty.IsZero():
		op.empty = now
	}
	switch {
	case op.ending:
	case pods == 0 && op.id == "":
		if !op.starting {
			delete(p.guests.operations, op.alias)
		}
	case pods == 0:
		if now.Sub(op.empty) >= emptyFor {
			op.ending = true
			a.End = append(a.End, op.id)
		}
	case op.id == "":
		if !op.starting && !now.Before(op.retryAt) && len(a.Start) < maxStarts {
			op.starting = true
			a.Start = append(a.Start, Opening{op.alias, op.place, op.priority})
		}
	default:
		for _, name := range sortedKeys(op.tasks) {
			if offer := op.tasks[name].offer(now, again); offer != nil {
				a.Offer = append(a.Offer, *offer)
			}
		}
	}
}

// offer returns the pods of a task that the scheduler does not know yet, or with again all that wait; nil if there are none.
func (t *guestTask) offer(now time.Time, again bool) *Offer {
	if !again && !t.fresh {
		return nil
	}
	t.fresh = false
	o := &Offer{Operation: t.of.id, Task: t.name, Amounts: t.amounts, Priority: t.priority}
	for cookie, g := range t.pods {
		switch {
		case g.job != nil || g.offered && !again:
		case now.Before(g.asideUntil):
			t.fresh = true
		default:
			g.offered = true
			o.Cookies = append(o.Cookies, cookie)
		}
	}
	if len(o.Cookies) == 0 {
		return nil
	}
	slices.Sort(o.Cookies)
	o.Class, o.Alone = t.class.number, t.class.constraints.IsDynamic()
	return o
}

// Answered processes the answer to an Ask.
func (p *Picture) Answered(now time.Time, a *Ask, answer *Answer) {
	p.guests.asking = false
	if a.List && !answer.Failed {
		p.list(now, answer.Known)
	}
	if answer.Failed {
		p.guests.pending = append(a.Withdraw, p.guests.pending...)
		p.tasksStale = p.tasksStale || a.Tasks
		p.untold(a.Classify)
	} else if a.Tasks {
		p.listTasks(answer.Tasks)
	}
	for i := range a.Start {
		op := p.guests.operations[a.Start[i].Alias]
		if op == nil {
			continue
		}
		op.starting = false
		if i < len(answer.Opened) && answer.Opened[i].ID != "" {
			op.id, op.problem, op.attempts = answer.Opened[i].ID, nil, 0
			p.guests.ids[op.id] = op
			continue
		}
		if i < len(answer.Opened) {
			op.problem = answer.Opened[i].Problem
		}
		op.attempts++
		op.retryAt = now.Add(min(startPauseMost, startPause<<min(op.attempts-1, 4)))
	}
	for i := range a.Offer {
		if op := p.guests.ids[a.Offer[i].Operation]; op != nil && answer.Failed {
			op.unoffered()
		}
	}
	for _, id := range answer.Gone {
		p.lostOperation(p.guests.ids[id])
	}
	for _, id := range a.End {
		if op := p.guests.ids[id]; op != nil && !answer.Failed {
			delete(p.guests.ids, id)
			delete(p.guests.operations, op.alias)
		} else if op != nil {
			op.ending = false
		}
	}
}

// unoffered forgets what was offered.
func (op *external) unoffered() {
	for _, t := range op.tasks {
		t.fresh = true
		for _, g := range t.pods {
			g.offered = false
		}
	}
}

// lostOperation handles an operation that somebody has ended in the scheduler: its waiting pods need another one.
func (p *Picture) lostOperation(op *external) {
	if op == nil {
		return
	}
	delete(p.guests.ids, op.id)
	op.id, op.retryAt = "", p.latest.Add(startPause)
	op.unoffered()
}

// list takes in the operations that the scheduler has: those of an earlier term.
func (p *Picture) list(now time.Time, known []Known) {
	p.guests.listed, p.guests.offers = true, now
	for i := range known {
		k := &known[i]
		op := &external{alias: k.Alias, place: k.Place, id: k.ID, tasks: map[string]*guestTask{}}
		p.guests.operations[k.Alias], p.guests.ids[k.ID] = op, op
	}
	for _, g := range p.guestList() {
		if j := g.job; j != nil {
			p.adoptedInto(j, g)
		}
	}
	p.placeGuests(now)
}

// adoptedInto gives an adopted job its place in the operation that the scheduler has.
func (p *Picture) adoptedInto(j *job, g *guest) {
	op := p.guests.ids[j.identity.GetOperationId()]
	if op == nil {
		return // the scheduler has ended it, and orders to stop the job
	}
	name := j.identity.GetTaskName()
	t := op.tasks[name]
	if t == nil {
		t = &guestTask{of: op, name: name, amounts: p.holds(j), priority: workload.Priority(g.pod), pods: map[int32]*guest{}}
		op.tasks[name] = t
	}
	t.reserve(j.identity.GetCookie(), g)
	g.task, g.cookie = t, j.identity.GetCookie()
}

// whys returns the operations about whose waiting pods to ask.
func (p *Picture) whys(now time.Time) (ids []string) {
	if p.guests.whying || p.blind || now.Sub(p.guests.whyAt) < whyPause {
		return nil
	}
	p.guests.whyAt = now
	for _, alias := range sortedKeys(p.guests.operations) {
		op := p.guests.operations[alias]
		if op.id != "" && !op.ending && op.hasWaited(now) {
			ids = append(ids, op.id)
		}
	}
	p.guests.whying = len(ids) > 0
	return ids
}

// hasWaited reports whether a pod of the operation has waited for a while.
func (op *external) hasWaited(now time.Time) bool {
	for _, t := range op.tasks {
		for _, g := range t.pods {
			if g.job == nil && now.Sub(g.seen) >= showAfter {
				return true
			}
		}
	}
	return false
}

// Explained records why the pods of operations wait, by id.
func (p *Picture) Explained(reasons map[string]*workload.Problem) {
	p.guests.whying = false
	for id, why := range reasons {
		if op := p.guests.ids[id]; op != nil {
			op.why = why
		}
	}
}

// class is a constraint class in use.
type class struct {
	number      int32
	key         string
	constraints *workload.Constraints
	users       int // tasks
}

// maxClass is the largest number of a class.
const maxClass = 4095

// classify gives a task its constraint class. It reports false if there are too many.
func (p *Picture) classify(t *guestTask, c *workload.Constraints) bool {
	t.class = p.acquire(c)
	return t.class != nil
}

// acquire returns the class of constraints for one more user, nil if there are too many classes.
func (p *Picture) acquire(c *workload.Constraints) *class {
	k := p.guests.classes[c.Key]
	if k == nil {
		k = &class{key: c.Key, constraints: c}
		switch last := len(p.guests.numbers) - 1; {
		case last >= 0:
			k.number, p.guests.numbers = p.guests.numbers[last], p.guests.numbers[:last]
		case p.guests.highest < maxClass:
			p.guests.highest++
			k.number = p.guests.highest
		default:
			return nil
		}
		p.guests.classes[c.Key], p.guests.classed = k, true
	}
	k.users++
	return k
}

// declassify takes the class of a task without pods away.
func (p *Picture) declassify(t *guestTask) {
	p.release(t.class)
	t.class = nil
}

// release gives a class back that acquire returned; nil is none.
func (p *Picture) release(k *class) {
	if k == nil {
		return
	}
	if k.users--; k.users == 0 {
		delete(p.guests.classes, k.key)
		p.guests.numbers = append(p.guests.numbers, k.number)
		p.guests.near.Forget(k.key)
		for _, n := range p.nodes {
			delete(n.refusals, k)
		}
	}
}

// classesChanged tells all nodes which classes they deny now.
func (p *Picture) classesChanged() {
	for _, name := range sortedKeys(p.nodes) {
		if n := p.nodes[name]; n.session != nil {
			p.changed(n)
		}
	}
}

// classList returns the classes in the order of their numbers.
func (p *Picture) classList() []*class {
	list := make([]*class, 0, len(p.guests.classes))
	for _, k := range p.guests.classes {
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b *class) int { return cmp.Compare(a.number, b.number) })
	return list
}
