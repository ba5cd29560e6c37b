package why

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// needOptions are the options of a task that set what a job needs, with the step in
// which they are reduced.
var needOptions = map[resource.Kind]struct {
	name string
	step func(resource.Kind) int64
}{
	resource.CPU:    {"cpu_limit", func(k resource.Kind) int64 { return max(k.Scale()/10, 1) }},
	resource.Memory: {"memory_limit", func(resource.Kind) int64 { return 16 << 20 }},
	resource.GPU:    {"gpu_limit", func(k resource.Kind) int64 { return k.Scale() }},
}

// need starts the operation again with jobs that need less, but not less than its
// jobs have used.
func (a *adviser) need(i int, b *Blocker) {
	o, reducible := needOptions[b.Resource]
	if !reducible || !b.HasResource || b.Spare || !a.mayRestart() {
		return
	}
	spec := a.spec()
	task := &spec.Tasks[b.task]
	from := map[resource.Kind]int64{
		resource.CPU: task.Value.CPULimit.Value(), resource.Memory: task.Value.MemoryLimit.Value(), resource.GPU: task.Value.GPULimit.Value(),
	}[b.Resource]
	step := o.step(b.Resource)
	short := b.Short
	if b.Code == Limit {
		short = (b.Used + b.Need*a.missing() - b.Limit + a.missing() - 1) / a.missing()
	}
	c := Change{
		Knob: KnobNeed, Who: User, Tree: b.Tree, Task: task.Name, Option: o.name, Resource: b.Resource, HasResource: true,
		FromAmount: from, From: amountValue(b.Resource, from),
	}
	steps := (from - max(a.used(int(b.task), b.Resource), step)) / step
	if steps < 1 {
		return
	}
	a.turn(i, knob{
		seed: (short + step - 1) / step, steps: steps, scale: float64(step) / float64(from),
		at: func(d int64) Change {
			c := c
			c.ToAmount = from - d*step
			c.To = amountValue(b.Resource, c.ToAmount)
			made, ok := a.restarted(c, func(spec document.Value) document.Value {
				tasks, _ := spec.Get("tasks")
				own, _ := tasks.Get(task.Name)
				return spec.With("tasks", tasks.With(task.Name, own.With(o.name, c.To)))
			})
			if !ok {
				return c // without inputs it does not help
			}
			return made
		},
	})
}

// used returns the most that a job of a task has used of a resource, zero if
// unknown.
func (a *adviser) used(task int, k resource.Kind) int64 {
	if k != resource.Memory {
		return 0
	}
	statistics := a.scene.before.ControllerOf(a.question.Operation).TaskJobStatistics(task)
	return statistics.Max("user_job/max_memory")
}

// nodes adds nodes like one that is there and, if a job is larger than all of
// them, nodes of the job's size.
func (a *adviser) nodes(i int, b *Blocker) {
	type class struct {
		resources resource.Amounts
		tags      string
	}
	seen := map[class]bool{}
	for _, id := range a.scene.core.OpenNodes() {
		tree, _ := a.scene.core.NodeTree(id)
		resources, tags := a.scene.core.NodeResources(id), a.scene.core.NodeTags(id)
		if tree != b.tree || len(seen) == 2 || seen[class{resources, fmt.Sprint(tags)}] {
			continue
		}
		like := a.scene.core.NodeName(id)
		if b.Code == JobLargerThanAnyNode {
			resources, like = resources.Max(b.need), ""
		} else if !resources.Dominates(b.need) {
			continue
		}
		seen[class{resources, fmt.Sprint(tags)}] = true
		a.addNodes(i, b, like, resources, tags)
	}
}

func (a *adviser) addNodes(i int, b *Blocker, like string, resources resource.Amounts, tags []string) {
	each := int64(math.MaxInt32)
	for _, k := range resource.Kinds {
		if b.need[k] > 0 {
			each = min(each, resources[k]/b.need[k])
		}
	}
	first := a.scene.before.NextNode()
	a.turn(i, knob{
		seed: (a.missing() + each - 1) / max(each, 1), steps: mostNodes, scale: 1,
		at: func(d int64) Change {
			c := Change{Knob: KnobNodes, Who: Administrator, Tree: b.Tree, Node: like, Count: int(d), Resources: resources}
			for n := range core.NodeID(d) {
				c.inputs = append(c.inputs,
					&core.NodeInput{Node: first + n, Name: fmt.Sprintf("new-%d", n+1), Resources: resources, Tags: tags}, &core.SeenInput{Node: first + n})
			}
			return c
		},
	})
}

// waitFor waits until jobs end. They complete on the fork.
func (a *adviser) waitFor(i int, jobs []core.JobInfo, node string) {
	c := Change{Knob: KnobWait, Who: Nobody, Node: node, Jobs: jobs, Operation: core.NoOperation}
	var ends []core.Finished
	known := len(jobs) > 0
	for _, j := range jobs {
		ends = append(ends, core.Finished{Job: j.Job, State: core.JobCompleted})
		limit, limited := a.timeLimit(&j)
		if known = known && limited; known {
			c.Until = latest(c.Until, j.Started.Add(limit))
		}
	}
	if !known {
		c.Until = time.Time{}
	}
	c.inputs = []core.Input{&core.ReportInput{Finished: ends}}
	a.choice(i, c)
}

// timeLimit returns how long a job may run.
func (a *adviser) timeLimit(j *core.JobInfo) (time.Duration, bool) {
	controller := a.scene.before.ControllerOf(j.Operation)
	if controller == nil {
		return 0, false
	}
	return controller.Spec().Tasks[j.JobRef.Task].Value.JobTimeLimit.Get()
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// waitBelow waits for the oldest jobs below a pool that together hold what is
// short.
func (a *adviser) waitBelow(i int, b *Blocker) {
	if b.Code != Limit {
		return
	}
	var jobs []core.JobInfo
	holders := b.Holders
	if b.Pool == "" {
		holders = []core.Holding{{Operation: a.question.Operation}}
	}
	for _, h := range holders {
		for _, j := range a.scene.before.JobsOf(h.Operation) {
			if j.Tree == b.tree && j.Stopping == operation.NotAborted {
				jobs = append(jobs, j)
			}
		}
	}
	slices.SortStableFunc(jobs, func(x, y core.JobInfo) int { return cmp.Or(x.Started.Compare(y.Started), cmp.Compare(x.Job, y.Job)) })
	freed, short := int64(0), b.Used+b.Need*a.missing()-b.Limit
	for n := range jobs {
		if freed += jobs[n].Resources[b.Resource]; freed >= short {
			a.waitFor(i, jobs[:n+1], "")
			return
		}
		if n == mostWaits {
			return
		}
	}
}

// waitOnNode waits for the fewest jobs of one node that leave room for a job.
func (a *adviser) waitOnNode(i int, b *Blocker) {
	var best []core.JobInfo
	name := ""
	for n, at := range b.at {
		if n == mostWaitNodes {
			break
		}
		id := a.scene.before.NodeAt(b.tree, at)
		free := a.scene.before.NodeFree(id)
		jobs := a.scene.before.JobsOn(id)
		slices.SortStableFunc(jobs, func(x, y core.JobInfo) int {
			return cmp.Or(cmp.Compare(y.Resources[b.Resource], x.Resources[b.Resource]), x.Started.Compare(y.Started), cmp.Compare(x.Job, y.Job))
		})
		for taken := range jobs {
			if best != nil && taken+1 >= len(best) || taken == mostWaits {
				break
			}
			if free = free.Add(jobs[taken].Resources); free.Dominates(b.need) {
				best, name = slices.Clone(jobs[:taken+1]), a.scene.before.NodeName(id)
				break
			}
		}
	}
	if best != nil {
		a.waitFor(i, best, name)
	}
}
