package cli

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/feasibility"
	"github.com/weirhq/weir/internal/engine/treefile"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

func newCheckCommand(opts *options) *cobra.Command {
	var jobs []string
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check whether the promises made to pools fit the cluster",
		Long: `Check whether the guarantees of a pool tree can be kept on its cluster, whatever its users do:
strong guarantees at every level, strong and burst guarantees at every moment, strong guarantees
and flows on average, and relaxed pools, which must get their volume within a day even if burst
pools spend theirs in the worst way. The command prints the figures that prove it, or the smallest
set of pools in conflict.

FILE is what weir shares reads; its operations are ignored. With --job the command also checks whether
a job of that size can be placed on the nodes of the file.

Exit code 0: everything fits; 1: something does not, or the file is invalid; 2: usage error.`,
		Example: `  weir check examples/production-research.yaml
  weir check examples/production-research-1900.yaml    # exit 1
  weir check examples/production-research-strong.yaml  # exit 1

  # Check whether jobs of these sizes can be placed on the nodes
  weir check examples/departments.yaml --job cpu=8,memory=64GiB --job cpu=1,memory=4GiB`,
		Args:              oneFile,
		ValidArgsFunction: completeTreeFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := parseJobs(jobs)
			if err != nil {
				return err
			}
			file, err := readTree(cmd, args[0], cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			verdict, err := checkFile(file, wanted)
			if err != nil {
				return err
			}
			stdout := cmd.OutOrStdout()
			out := bufio.NewWriter(stdout)
			report := checkReport{verdict: verdict, file: file, paint: painter(stdout)}
			if err := opts.print(out, verdict, report.write); err != nil {
				return err
			}
			if err := out.Flush(); err != nil {
				return err
			}
			if !verdict.OK {
				return errReported
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&jobs, "job", nil, "job size to place, such as cpu=8,memory=64GiB; takes one of user_slots unless given (repeatable)")
	return cmd
}

// parseJobs reads sizes of jobs.
func parseJobs(texts []string) ([]feasibility.Job, error) {
	var jobs []feasibility.Job
	for _, text := range texts {
		var amounts resource.Partial
		for part := range strings.SplitSeq(text, ",") {
			name, value, ok := strings.Cut(part, "=")
			if !ok {
				return nil, usageErrorf("--job %s: must be a list like cpu=8,memory=64GiB", text)
			}
			kind, ok := resource.ParseKind(document.Normal(strings.TrimSpace(name)))
			if !ok {
				return nil, usageErrorf("--job %s: there is no resource %q; there are user_slots, cpu, gpu, memory and network", text, name)
			}
			if amounts.Has(kind) {
				return nil, usageErrorf("--job %s: %v is given twice", text, kind)
			}
			amount, err := resource.ParseAmount(kind, value)
			if err != nil {
				return nil, usageErrorf("--job %s: %v", text, err)
			}
			amounts = amounts.With(kind, amount)
		}
		if !amounts.Has(resource.UserSlots) {
			amounts = amounts.With(resource.UserSlots, 1)
		}
		jobs = append(jobs, feasibility.Job{Name: text, Amount: amounts.OrZero()})
	}
	return jobs, nil
}

// checkFile runs the feasibility analysis on the promises of a file.
func checkFile(file *treefile.File, jobs []feasibility.Job) (feasibility.Verdict, error) {
	cluster := feasibility.Cluster{Total: file.Tree.Total}
	for _, group := range file.Cluster.Nodes {
		cluster.Nodes = append(cluster.Nodes, feasibility.NodeGroup{Name: group.Name, Count: group.Count, Each: group.Resources})
	}
	if cluster.Total[resource.UserSlots] == 0 {
		// A cluster that does not count slots has enough of them.
		for i := range jobs {
			jobs[i].Amount[resource.UserSlots] = 0
		}
	}
	if len(jobs) > 0 && len(cluster.Nodes) == 0 {
		return feasibility.Verdict{}, fmt.Errorf("--job needs the cluster's nodes; the file has only the total")
	}
	options := file.Tree.Options
	return feasibility.Check(cluster, promises(file), jobs, feasibility.Options{
		MainResource: options.MainResource, SaturationPeriod: options.CapacitySaturationPeriod,
		RelaxedMultiplier: options.RelaxedShareMultiplierLimit,
	})
}

// promises lists the pools of a file, parents before children.
func promises(file *treefile.File) []feasibility.Pool {
	elements := file.Tree.Elements
	var pools []feasibility.Pool
	place := map[int32]int{0: feasibility.Root}
	for _, slot := range parentsFirst(elements) {
		element := &elements[slot]
		pool := feasibility.Pool{
			Name: file.Names[slot], Parent: place[element.Parent],
			Limits: element.Limits, MaxShareRatio: element.MaxShareRatio,
		}
		if s := element.Pool; s != nil {
			pool.Strong = s.Strong
			pool.Type = feasibilityTypes[s.Integral.Type]
			pool.Flow, pool.Burst = s.Integral.Flow, s.Integral.Burst
			pool.RelaxedMultiplier = s.Integral.RelaxedMultiplier
		}
		place[slot] = len(pools)
		pools = append(pools, pool)
	}
	return pools
}

var feasibilityTypes = map[fairshare.GuaranteeType]feasibility.GuaranteeType{
	fairshare.NoIntegral: feasibility.NoIntegral, fairshare.Burst: feasibility.Burst, fairshare.Relaxed: feasibility.Relaxed,
}

// parentsFirst lists the slots of pools below the root by depth, and in file order within a depth.
func parentsFirst(elements []fairshare.Element) []int32 {
	depth := make([]int, len(elements))
	var slots []int32
	for slot := range elements {
		if elements[slot].Kind != fairshare.KindPool || slot == 0 {
			continue
		}
		for at := int32(slot); at != 0; at = elements[at].Parent {
			depth[slot]++
		}
		slots = append(slots, int32(slot))
	}
	slices.SortStableFunc(slots, func(a, b int32) int { return depth[a] - depth[b] })
	return slots
}

// checkReport is a verdict in readable form.
type checkReport struct {
	verdict feasibility.Verdict
	file    *treefile.File
	paint   func(style, string) string
}

func (r *checkReport) write(w io.Writer) error {
	v := &r.verdict
	answer := r.paint(styleGreen, "fits") + ": every promise can be kept"
	if !v.OK {
		answer = r.paint(styleRed, "does not fit")
		switch {
		case !slices.ContainsFunc(v.Findings, func(f feasibility.Finding) bool {
			return f.Severity == feasibility.Broken && f.Code != feasibility.JobTooLarge
		}):
			answer += ": every promise can be kept, but a job cannot be placed"
		case v.Needs.Known:
			answer += fmt.Sprintf(": these promises need %v", v.Needs)
		default:
			answer += ": " + v.Needs.String()
		}
	} else if v.Needs.Known && v.Needs.Total[v.Needs.Main] > 0 {
		answer += fmt.Sprintf("; they need %v", v.Needs)
	}
	fmt.Fprintln(w, answer)
	r.writeFindings(w)
	if err := r.writeSums(w); err != nil {
		return err
	}
	r.writeRelaxed(w)
	return r.writePlacements(w)
}

func (r *checkReport) writeFindings(w io.Writer) {
	if len(r.verdict.Findings) == 0 {
		return
	}
	fmt.Fprintln(w)
	for _, f := range r.verdict.Findings {
		tint := map[feasibility.Severity]style{feasibility.Broken: styleRed, feasibility.Warning: styleYellow, feasibility.Note: styleDim}[f.Severity]
		fmt.Fprintf(w, "%s: %v", r.paint(tint, f.Severity.String()), f)
		if f.Severity == feasibility.Broken && len(f.Conflict) > 0 {
			fmt.Fprintf(w, ", together %s", resource.FormatAmount(f.Resource, f.ConflictRequired))
			if f.Smallest {
				fmt.Fprint(w, "; no smaller set is")
			}
		}
		fmt.Fprintln(w)
	}
}

// writeSums shows the sums that include every promise.
func (r *checkReport) writeSums(w io.Writer) error {
	if len(r.verdict.Proof.Resources) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := newTable(w)
	t.alignRight(1, 2, 3, 4, 5, 6)
	t.row("", "cluster", "strong", "+ burst", "free always", "+ flow", "free on average")
	for _, b := range r.verdict.Proof.Resources {
		amount := func(v int64) string { return resource.FormatAmount(b.Resource, v) }
		free := func(v int64) string {
			if v < 0 {
				return r.paint(styleRed, amount(v))
			}
			return amount(v)
		}
		t.row(b.Resource.String(), amount(b.Total), amount(b.Strong), amount(b.Burst), free(b.FreeAlways()), amount(b.Flow), free(b.FreeOnAverage()))
	}
	return t.flush()
}

// writeRelaxed shows the worst effect of burst pools on relaxed ones.
func (r *checkReport) writeRelaxed(w io.Writer) {
	s := r.verdict.Proof.Relaxed
	if s == nil {
		return
	}
	fmt.Fprintf(w, "\nrelaxed pools are promised %s of %v on average, and may wait %v for it\n",
		resource.FormatAmount(s.Resource, s.Flow), s.Resource, document.FormatDuration(s.Period))
	if !s.CatchesUp {
		fmt.Fprintln(w, "worst case: while burst pools spend their volume, relaxed pools never catch up")
		return
	}
	fmt.Fprintf(w, "worst case: burst pools spend all they saved; after %s relaxed pools are owed %s of the %s that they can keep, and wait %s\n",
		document.FormatDuration(s.Window.Round(time.Second)), resource.FormatVolume(s.Resource, s.Backlog),
		resource.FormatVolume(s.Resource, s.Capacity), document.FormatDuration(s.Delay.Round(time.Second)))
	if !s.Proved {
		fmt.Fprintln(w, "(an upper bound: relaxed pools have different multipliers)")
	}
}

func (r *checkReport) writePlacements(w io.Writer) error {
	if len(r.verdict.Placements) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := newTable(w)
	header := []string{"jobs that fit at once", "cluster"}
	for _, group := range r.file.Cluster.Nodes {
		header = append(header, fmt.Sprintf("each of %d %s", group.Count, group.Name))
	}
	for c := 1; c < len(header); c++ {
		t.alignRight(c)
	}
	t.row(header...)
	for _, p := range r.verdict.Placements {
		row := []string{p.Job, jobCount(p.Count)}
		for _, n := range p.Groups {
			row = append(row, jobCount(n))
		}
		t.row(row...)
	}
	return t.flush()
}

func jobCount(n int64) string {
	if n >= resource.Unlimited {
		return "any number"
	}
	return strconv.FormatInt(n, 10)
}
