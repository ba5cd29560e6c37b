package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// poolPrefix marks a pool whose name could also be an operation's.
const poolPrefix = "pool:"

// wholeCluster is the name that explains all trees.
const wholeCluster = "cluster"

// explain explains an operation, a job, a pool, a pod or the cluster.
func (s *session) explain(tree, namespace, name string) error {
	if name == wholeCluster {
		return s.explainCluster()
	}
	if pool, marked := strings.CutPrefix(name, poolPrefix); marked {
		return s.explainPool(tree, pool)
	}
	if named, pod, marked := podName(name); marked {
		namespace, err := podNamespace(named, namespace)
		if err != nil {
			return err
		}
		return s.explainPod(namespace, pod)
	}
	if names, err := s.PoolNames(s.ctx, tree); err == nil && slices.Contains(names, name) && !beginningOfID.MatchString(name) {
		return s.explainPool(tree, name)
	}
	id, err := s.operation(name)
	if err != nil {
		return err
	}
	x, err := s.ExplainOperationFully(s.ctx, id)
	if errors.Is(err, client.CodeNoOperation) && !strings.HasPrefix(name, "*") {
		job, failed := s.ExplainJob(s.ctx, name)
		if failed == nil {
			return s.print(job.Raw, func(w io.Writer) error { return writeJobExplanation(w, job) })
		}
		if !errors.Is(failed, client.CodeNoJob) {
			return failed
		}
	}
	if errors.Is(err, client.CodeOperationState) {
		return s.explainEnded(id)
	}
	if err != nil {
		return err
	}
	return s.print(x.Raw, func(w io.Writer) error { return writeExplanation(w, x, name) })
}

// explainEnded writes how an operation ended: nothing of it waits.
func (s *session) explainEnded(id string) error {
	o, err := s.GetOperation(s.ctx, id)
	if err != nil {
		return err
	}
	return s.print(o.Raw, func(w io.Writer) error {
		fmt.Fprintf(w, "Operation %s has ended: %s at %s. Nothing of it waits.\n", o.ID, o.State, stamp(o.Finished))
		if err := o.Err(); err != nil {
			fmt.Fprintln(w, err)
		}
		fmt.Fprintf(w, "weir op get %s shows more.\n", o.ID)
		return nil
	})
}

// explainCluster explains what waits in all trees.
func (s *session) explainCluster() error {
	x, err := s.ExplainCluster(s.ctx)
	if err != nil {
		return err
	}
	return s.print(x.Raw, func(w io.Writer) error {
		for _, g := range x.Gates {
			fmt.Fprintf(w, "No node gets jobs: %s%s.\n", strings.ReplaceAll(g.Code, "_", " "), sinceText(g.Since, x.AsOf, ", since "))
		}
		for _, n := range x.Nodes {
			fmt.Fprintf(w, "Node %s gets no jobs: %s.\n", n.Node, strings.ReplaceAll(n.Code, "_", " "))
		}
		for i := range x.Trees {
			fmt.Fprintf(w, "Tree %s:\n", x.Trees[i].Tree)
			if err := writeWaterfall(w, &x.Trees[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeGuarantee writes what a pool gets of its guarantee now, and what it waits for first if it
// lacks some of it.
func writeGuarantee(w io.Writer, x *client.PoolExplanation) {
	g := x.Guarantee
	if g == nil {
		return
	}
	fmt.Fprintf(w, "  It is guaranteed %s %s; it demands %s of that", amountText(g.Resource, g.Amount), g.Resource, amountText(g.Resource, g.Due))
	switch {
	case g.Short == 0:
		fmt.Fprintln(w, " and has it.")
	case len(x.Waterfall) > 0:
		fmt.Fprintf(w, " and lacks %s, first because: %s.\n", amountText(g.Resource, g.Short), strings.ReplaceAll(x.Waterfall[0].Code, "_", " "))
	default:
		fmt.Fprintf(w, " and lacks %s.\n", amountText(g.Resource, g.Short))
	}
}

// writeWaterfall writes what a pool demands and does not have, by first blocker.
func writeWaterfall(w io.Writer, x *client.PoolExplanation) error {
	if len(x.Waterfall) == 0 {
		fmt.Fprintln(w, "  Nothing waits.")
		return nil
	}
	fmt.Fprintf(w, "  Of %s it demands %s and does not have %s:\n", x.Resource, amountText(x.Resource, x.Demand.Of(x.Resource)), amountText(x.Resource, x.Gap))
	t := newTable(w)
	t.row("  "+x.Resource, "jobs", "operations", "waits for")
	t.alignRight(1, 2)
	for _, row := range x.Waterfall {
		text := "starts at the next heartbeats"
		if row.Blocker != nil {
			text = row.Code + ": " + row.Blocker.Text
		}
		t.row("  "+amountText(x.Resource, row.Amount), strconv.FormatInt(row.Jobs, 10), strconv.FormatInt(row.Operations, 10), text)
	}
	return t.flush()
}

// writeJobExplanation writes where a job runs and what may preempt it, or how it ended.
func writeJobExplanation(w io.Writer, j *client.JobExplanation) error {
	if !j.Running {
		fmt.Fprintf(w, "Job %s of operation %s has ended: %s. weir job get %s shows more.\n", j.JobID, j.OperationID, j.State, j.JobID)
		return nil
	}
	fmt.Fprintf(w, "Job %s of task %s has run on %s since %s, in pool %s; the stage %s started it.\n", j.JobID, j.Task, j.Node, stamp(j.Started), j.Pool, orNothing(j.Stage))
	switch {
	case j.Preempted:
		fmt.Fprintln(w, "It is being preempted.")
	case j.Class == "non_preemptible":
		fmt.Fprintf(w, "It is not preempted for others: with it, its operation is within its fair share (satisfaction %.2f).\n", j.Satisfaction)
	case j.Class == "aggressively_preemptible":
		fmt.Fprintf(w, "Only operations that starve aggressively may preempt it (satisfaction %.2f); %s preempted before it.\n",
			j.Satisfaction, plural(j.PreemptedBefore, "job of the operation is", "jobs of the operation are"))
	default:
		fmt.Fprintf(w, "It is preemptible: its operation has more than its share (satisfaction %.2f); %s preempted before it.\n",
			j.Satisfaction, plural(j.PreemptedBefore, "job of the operation is", "jobs of the operation are"))
	}
	return nil
}

// explainPool explains what a pool uses, what it is entitled to and what bounds it. The answer
// contains the live state of the pool and of all its ancestors.
func (s *session) explainPool(tree, name string) error {
	var chain []*client.Pool
	all := map[string]any{}
	for at := name; at != ""; at = chain[len(chain)-1].Parent {
		p, err := s.GetPool(s.ctx, tree, at)
		if err != nil {
			return s.noPool(tree, name, err)
		}
		chain, all[at] = append(chain, p), p.Raw
	}
	x, err := s.ExplainPool(s.ctx, tree, name)
	if err != nil {
		return err
	}
	answer, err := client.ValueOf(map[string]any{"pool": name, "pools": all, "explanation": x.Raw})
	if err != nil {
		return err
	}
	return s.print(answer, func(w io.Writer) error {
		if err := writePoolExplanation(w, chain); err != nil {
			return err
		}
		fmt.Fprintln(w)
		writeGuarantee(w, x)
		return writeWaterfall(w, x)
	})
}

// noPool returns the error for a pool that cannot be read: if it does not exist, the nearest name that
// does.
func (s *session) noPool(tree, name string, err error) error {
	if !errors.Is(err, client.CodeResolve) {
		return err
	}
	names, failed := s.PoolNames(s.ctx, tree)
	if failed != nil || slices.Contains(names, name) {
		return err
	}
	message := fmt.Sprintf("there is no pool %s", name)
	if tree != "" {
		message += " in tree " + tree
	}
	if near, found := document.Nearest(name, names); found {
		message += fmt.Sprintf("; did you mean %s?", near)
	}
	return errors.New(message)
}

func writePoolExplanation(w io.Writer, chain []*client.Pool) error {
	paint, p := painter(w), chain[0]
	below := ""
	if p.Parent != "" && p.Parent != client.RootPool {
		below = " below " + p.Parent
	}
	fmt.Fprintf(w, "Pool %s%s, %s, weight %s.\n", paint(styleBold, p.Name), below, p.Mode, strconv.FormatFloat(p.Weight, 'g', 4, 64))
	writeHoldings(w, p)
	writePoolCounts(w, p)
	for _, sentence := range boundsOfPool(p) {
		fmt.Fprintf(w, "  %s.\n", sentence)
	}
	split := p.Raw.Get("detailed_dominant_fair_share")
	fmt.Fprintf(w, "  Fair share %s = strong %s + integral %s + by weight %s.\n\n", percent(floatOf(split, "total")), percent(floatOf(split, "strong_guarantee")),
		percent(floatOf(split, "integral_guarantee")), percent(floatOf(split, "weight_proportional")))
	t := newTable(w)
	t.row("  from", "weight", "usage", "demand", "guarantee", "limit", "fair share")
	t.alignRight(1, 2, 3, 4, 5, 6)
	for _, link := range chain {
		limits, demand := resourcesOf(link.Raw, "limits_share"), link.DemandShare
		t.row("  pool "+link.Name, strconv.FormatFloat(link.Weight, 'g', 4, 64), percent(largest(link.UsageShare)), percent(largest(demand)),
			percent(largest(resourcesOf(link.Raw, "strong_guarantee_share"))), percent(tightest(limits, demand)), percent(largest(link.FairShare)))
	}
	return t.flush()
}

// writeHoldings writes what the pool uses, demands and is entitled to, of every resource that it
// uses or demands.
func writeHoldings(w io.Writer, p *client.Pool) {
	fair := resourcesOf(p.Raw, "fair_resources")
	idle := true
	for kind, demand := range p.Demand.All() {
		if usage := p.Usage.Of(kind); usage > 0 || demand > 0 {
			idle = false
			fmt.Fprintf(w, "  Of %s it uses %s, demands %s and is entitled to %s.\n", kind, amountText(kind, usage), amountText(kind, demand), amountText(kind, fair.Of(kind)))
		}
	}
	if idle {
		fmt.Fprintln(w, "  It uses nothing and demands nothing: nothing in it runs or waits.")
	}
}

// writePoolCounts writes how many operations the pool has, and how many jobs wait in it.
func writePoolCounts(w io.Writer, p *client.Pool) {
	most, mostRunning := intOf(p.Raw, "max_operation_count"), intOf(p.Raw, "max_running_operation_count")
	fmt.Fprintf(w, "  It has %d of at most %s and runs %d of at most %d.\n", p.Operations, plural(most, "operation", "operations"), p.RunningOperations, mostRunning)
	if waiting := intOf(p.Raw, "waiting_operation_count"); waiting > 0 && p.RunningOperations >= mostRunning {
		fmt.Fprintf(w, "  %s for its limit max_running_operation_count = %d.\n", plural(waiting, "operation waits", "operations wait"), mostRunning)
	}
	if running, waiting := intOf(p.Raw, "running_job_count"), intOf(p.Raw, "pending_job_count"); running+waiting > 0 {
		fmt.Fprintf(w, "  %s and %s.\n", plural(running, "job runs", "jobs run"), plural(waiting, "waits", "wait"))
	}
}

// boundsOfPool returns sentences about what keeps a pool from getting more, and what would help.
func boundsOfPool(p *client.Pool) (sentences []string) {
	limits := resourcesOf(p.Raw, "limits_share")
	promised, kept := resourcesOf(p.Raw, "strong_guarantee_resources"), resourcesOf(p.Raw, "effective_strong_guarantee_resources")
	for kind, amount := range promised.All() {
		const rounding = 0.99
		if p.Parent != "" && kept.Of(kind) < amount*rounding {
			sentences = append(sentences, fmt.Sprintf("Its strong guarantee of %s %s is only %s now: the nodes cannot keep all promises of the tree; weir export | weir diff -f - names those in conflict",
				amountText(kind, amount), kind, amountText(kind, kept.Of(kind))))
		}
	}
	for kind, usage := range p.UsageShare.All() {
		const rounding = 1e-9
		if limit := limits.Of(kind); limit < 1 && usage >= limit-rounding && p.DemandShare.Of(kind) > usage+rounding {
			sentences = append(sentences, fmt.Sprintf("It has reached its limit of %s: %s of the tree", kind, percent(limit)))
		}
	}
	switch p.Starvation {
	case "starving", "aggressively_starving":
		sentences = append(sentences, fmt.Sprintf("It is %s: its operations may preempt others", strings.ReplaceAll(p.Starvation, "_", " ")))
	default:
		if status, _ := p.Raw.Get("scheduling_status").Text(); status == "below_fair_share" {
			sentences = append(sentences, fmt.Sprintf("It is below its fair share; it starves if it stays below %s of it for %s",
				percent(floatOf(p.Raw, "effective_fair_share_starvation_tolerance")), shortDuration(time.Duration(intOf(p.Raw, "effective_fair_share_starvation_timeout"))*time.Millisecond)))
		}
	}
	if p.IntegralType != "none" && p.IntegralType != "" {
		sentences = append(sentences, savingsOfPool(p))
	}
	return sentences
}

// savingsOfPool describes what an integral pool has saved, in resources times seconds.
func savingsOfPool(p *client.Pool) string {
	text := fmt.Sprintf("Its integral guarantee is %s", p.IntegralType)
	saved, capacity := resourcesOf(p.Raw, "accumulated_resource_volume"), resourcesOf(p.Raw, "integral_pool_capacity")
	if most := capacity.CPU; most > 0 {
		text = fmt.Sprintf("%s: it has saved %s of at most %s", text, resource.FormatVolume(resource.CPU, saved.CPU), resource.FormatVolume(resource.CPU, most))
		if smooth := time.Duration(intOf(p.Raw, "integral_smooth_period")) * time.Millisecond; smooth > 0 {
			text += fmt.Sprintf("; savings are spent over at least %s, so they buy at most %.4g cpu now", shortDuration(smooth), saved.CPU/smooth.Seconds())
		}
		return text
	}
	return text
}

func floatOf(v client.Value, key string) float64 {
	number, _ := v.Get(key).Float()
	return number
}

func intOf(v client.Value, key string) int64 {
	number, _ := v.Get(key).Int()
	return number
}

func resourcesOf(v client.Value, key string) client.Resources {
	r := v.Get(key)
	return client.Resources{
		UserSlots: floatOf(r, "user_slots"), CPU: floatOf(r, "cpu"), GPU: floatOf(r, "gpu"), Memory: floatOf(r, "memory"), Network: floatOf(r, "network"),
	}
}
