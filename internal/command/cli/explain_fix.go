package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
)

// fixFlags are the flags that ask what would help.
type fixFlags struct {
	fix      bool
	jobs, as string
	by       time.Duration
}

func (f *fixFlags) addTo(r *remote, cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.fix, "fix", false, "list the least changes that start jobs of the operation now")
	cmd.Flags().StringVar(&f.jobs, "jobs", "", "with --fix: how many jobs must start, or all; one if unset, all of a gang")
	cmd.Flags().DurationVar(&f.by, "by", 0, "with --fix: how long the jobs may take to start, such as 30m; now if unset")
	cmd.Flags().StringVar(&f.as, "as", "", "with --fix: only what this actor can change: user, owner or admin")
	r.mustComplete(cmd, "as", cobra.FixedCompletions([]cobra.Completion{"user", "owner", "admin"}, cobra.ShellCompDirectiveNoFileComp))
}

// options reads the flags.
func (f *fixFlags) options(cmd *cobra.Command) (o client.AdviseOptions, err error) {
	if !f.fix {
		for _, name := range []string{"jobs", "as", "by"} {
			if cmd.Flags().Changed(name) {
				return o, usageErrorf("--%s needs --fix", name)
			}
		}
		return o, nil
	}
	if o.By = f.by; o.By < 0 {
		return o, usageErrorf("--by must not be negative, it is %v", f.by)
	}
	switch f.as {
	case "", "user", "owner":
		o.Upto = f.as
	case "admin", "administrator":
		o.Upto = "administrator"
	default:
		return o, usageErrorf("--as must be user, owner or admin, not %q", f.as)
	}
	switch f.jobs {
	case "":
	case "all":
		o.Jobs = -1
	default:
		if o.Jobs, err = strconv.Atoi(f.jobs); err != nil || o.Jobs < 1 {
			return o, usageErrorf("--jobs must be a positive number or all, not %q", f.jobs)
		}
	}
	return o, nil
}

// advise prints the least changes that start jobs of an operation now.
func (s *session) advise(name string, options client.AdviseOptions) error {
	if name == wholeCluster || strings.HasPrefix(name, poolPrefix) {
		return usageErrorf("--fix is about an operation, not about %s", name)
	}
	id, err := s.operation(name)
	if err != nil {
		return err
	}
	a, err := s.AdviseOperation(s.ctx, id, options)
	if errors.Is(err, client.CodeOperationState) {
		return s.explainEnded(id)
	}
	if err != nil {
		return err
	}
	when := "now"
	if options.By > 0 {
		when = "within " + shortDuration(options.By)
	}
	return s.print(a.Raw, func(w io.Writer) error { return writeAdvice(w, a, name, when) })
}

// writeAdvice writes the fixes, what to do first at the top.
func writeAdvice(w io.Writer, a *client.Advice, name, when string) error {
	for _, g := range a.Gates {
		fmt.Fprintf(w, "No node gets jobs now (%s)%s; the answer is about the time after that.\n", strings.ReplaceAll(g.Code, "_", " "), untilText(a, g))
	}
	if a.Outcome != "starts_now" && len(a.Blockers) > 0 {
		fmt.Fprintf(w, "%s waits:\n", name)
		writeBlockers(w, a.Blockers, a.AsOf)
	}
	jobs := plural(a.Jobs, "job", "jobs")
	switch a.Outcome {
	case "starts_now":
		if !a.First.IsZero() {
			fmt.Fprintf(w, "%s %s without any change, the first at %s.\n", plural(a.Starts, "job starts", "jobs start"), when, clockText(a.AsOf, a.First))
			break
		}
		fmt.Fprintf(w, "%s at the next heartbeats without any change.\n", plural(a.Starts, "job starts", "jobs start"))
	case "found":
		fmt.Fprintf(w, "Least changes that start %s %s (each alone; checked on a copy of the cluster):\n", jobs, when)
	case "wait":
		if len(a.Fixes) > 0 {
			fmt.Fprintf(w, "No change that was tried starts %s %s. It starts by itself:\n", jobs, when)
		}
	case "never":
		fmt.Fprintf(w, "It can never start as it is, even in an empty cluster.%s\n", map[bool]string{true: " What would help:"}[len(a.Fixes) > 0])
	default:
		fmt.Fprintf(w, "Nothing that was tried starts %s %s.\n", jobs, when)
	}
	for i := range a.Fixes {
		f := &a.Fixes[i]
		fmt.Fprintf(w, "%-3d%s\n", i+1, f.Text)
		for _, command := range f.Commands {
			fmt.Fprintf(w, "     %s\n", command)
		}
		effect := f.Effect
		if !f.Until.IsZero() {
			effect = "at " + clockText(a.AsOf, f.Until) + " at the latest; " + effect
		}
		if !f.First.IsZero() {
			effect += ", the first at " + clockText(a.AsOf, f.First)
		}
		if f.Who != "nobody" {
			effect = f.Who + ": " + effect
		}
		fmt.Fprintf(w, "     %s\n", effect)
	}
	if f := a.Forecast; f != nil && f.Start != nil && a.Outcome != "starts_now" {
		fmt.Fprintf(w, "By itself it starts %s%s.\n", etaText(time.Now(), f.Start), recordText(f.Start))
	}
	if a.Further > 0 {
		fmt.Fprintf(w, "%s; --as and -o json narrow the list.\n", plural(a.Further, "more change helps", "more changes help"))
	}
	if len(a.Fixes) == 0 || a.Outcome == "never" || a.Outcome == "wait" {
		for _, t := range a.Tried {
			if t.Refused != "" {
				fmt.Fprintf(w, "Refused: %s: %s\n", t.Text, t.Refused)
			} else {
				fmt.Fprintf(w, "Does not help: %s\n", t.Text)
			}
		}
	}
	for _, text := range a.NotTried {
		fmt.Fprintf(w, "Not tried: %s\n", text)
	}
	return nil
}

func untilText(a *client.Advice, g client.ClusterGate) string {
	if g.Until.IsZero() {
		return ""
	}
	return ", until " + clockText(a.AsOf, g.Until) + " at the latest"
}
