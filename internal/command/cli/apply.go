package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
)

// poolsFile is the flags of commands that read a whole tree from a file.
type poolsFile struct {
	file, tree string
}

func (p *poolsFile) addTo(r *remote, cmd *cobra.Command) {
	cmd.Flags().StringVarP(&p.file, "file", "f", "", "file with the tree, YAML or JSON; - means standard input")
	cmd.Flags().StringVar(&p.tree, "tree", "", "pool tree; the default one if unset")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 0 && p.file == "":
			return usageErrorf("name the file with -f: weir %s -f %s", cmd.Name(), args[0])
		case len(args) > 0:
			return usageErrorf("%s takes no arguments, got %q", cmd.Name(), args[0])
		case p.file == "":
			return usageErrorf("%s needs a file: -f pools.yaml, or -f - for standard input", cmd.Name())
		}
		return nil
	}
	r.mustComplete(cmd, "file", completeTreeFiles)
	r.mustComplete(cmd, "tree", r.completeTrees())
}

// read reads the file. The server parses the text itself, so that its errors have lines.
func (p *poolsFile) read(cmd *cobra.Command) (client.PoolsFile, error) {
	input, label, closeInput, err := openInput(cmd, p.file)
	if err != nil {
		return client.PoolsFile{}, err
	}
	defer closeInput()
	data, err := readBounded(input, label)
	return client.PoolsFile{Tree: p.tree, Text: string(data), File: label}, err
}

func newApplyCommand(opts *options) *cobra.Command {
	r, p := newRemote(opts), &poolsFile{}
	var strict, dryRun, whatIf bool
	var horizon time.Duration
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Apply a pool tree from a file, as a whole or not at all",
		Long: `Apply a pool tree from a file: add, move, change and remove pools until the tree matches the file. The
server applies the file as a whole or not at all. The command prints the changes and whether the present
nodes can keep the promises. weir diff prints the same and changes nothing; weir export writes a file.`,
		Example: `  weir export > pools.yaml
  weir diff -f examples/cluster/pools.yaml  # exit 1
  weir apply -f examples/cluster/pools.yaml
  weir apply -f examples/cluster/pools.yaml --require-feasible --dry-run
  weir apply -f examples/cluster/pools.yaml --what-if --for 30m`,
		RunE: r.do(func(s *session, _ []string) error {
			given, err := p.read(s.cmd)
			if err != nil {
				return err
			}
			if whatIf {
				return s.effectOf(given, horizon)
			}
			if dryRun {
				plan, err := s.plan(given)
				if err == nil && strict && plan.Feasible != nil && !*plan.Feasible {
					return errReported
				}
				return err
			}
			given.RequireFeasible = strict
			plan, err := s.ApplyPools(s.ctx, given)
			if err != nil {
				return err
			}
			return s.print(plan.Raw, func(w io.Writer) error { return writePlan(w, plan, "Applied") })
		}),
	}
	p.addTo(r, cmd)
	cmd.Flags().BoolVar(&strict, "require-feasible", false, "refuse promises that the nodes cannot keep")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only print what would change, as weir diff does")
	cmd.Flags().BoolVar(&whatIf, "what-if", false, "only print what it would do in the next hours, as weir what-if does")
	cmd.Flags().DurationVar(&horizon, "for", 0, "with --what-if: how far to look ahead, at most 24h; 2h if unset")
	return r.addTo(cmd)
}

// plan prints the changes that a file would make.
func (s *session) plan(file client.PoolsFile) (*client.PoolsPlan, error) {
	plan, err := s.PlanPools(s.ctx, file)
	if err != nil {
		return nil, err
	}
	return plan, s.print(plan.Raw, func(w io.Writer) error { return writePlan(w, plan, "Would change") })
}

func newDiffCommand(opts *options) *cobra.Command {
	r, p := newRemote(opts), &poolsFile{}
	cmd := &cobra.Command{
		Use:   "diff -f FILE",
		Short: "Show what weir apply would change, and whether the promises fit",
		Long: `Show what weir apply would change, and whether the present nodes can keep the promises in the file.
Nothing changes. The exit code is 1 if there are differences, as that of diff.`,
		Example: `  weir export > pools.yaml
  weir diff -f pools.yaml && echo unchanged
  weir diff -f examples/cluster/pools.yaml  # exit 1`,
		RunE: r.do(func(s *session, _ []string) error {
			given, err := p.read(s.cmd)
			if err != nil {
				return err
			}
			plan, err := s.plan(given)
			if err == nil && !plan.Empty {
				return errReported
			}
			return err
		}),
	}
	p.addTo(r, cmd)
	return r.addTo(cmd)
}

func writePlan(w io.Writer, plan *client.PoolsPlan, verb string) error {
	paint, tree := painter(w), plan.Tree
	if plan.Empty {
		fmt.Fprintf(w, "Nothing differs in tree %s.\n", tree)
	} else {
		if plan.New {
			tree += ", which is new"
		}
		fmt.Fprintf(w, "%s in tree %s:\n", verb, tree)
		for _, line := range plan.Changes {
			fmt.Fprintln(w, "  "+paint(changeStyle(line), line))
		}
	}
	for _, warning := range plan.Warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
	switch {
	case plan.Feasible == nil:
		fmt.Fprintln(w, "The tree has no nodes, so the promises cannot be checked.")
	case *plan.Feasible:
		fmt.Fprintln(w, "The promises fit the nodes of the tree.")
	default:
		fmt.Fprintln(w, paint(styleRed, "The promises do not fit the nodes of the tree:"))
		for _, finding := range plan.Findings {
			fmt.Fprintln(w, "  "+firstNonEmpty(finding.Message, finding.Raw.String()))
		}
	}
	return nil
}

func changeStyle(line string) style {
	switch {
	case strings.HasPrefix(line, "+"):
		return styleGreen
	case strings.HasPrefix(line, "-"):
		return styleRed
	}
	return styleYellow
}

func newExportCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	var tree string
	cmd := &cobra.Command{
		Use:   "export [TREE]",
		Short: "Print a pool tree as a file for weir apply",
		Example: `  weir export
  weir export default -o json`,
		Args:              oneTree(&tree),
		ValidArgsFunction: r.completeTrees(),
		RunE: r.do(func(s *session, args []string) error {
			export, err := s.ExportPools(s.ctx, firstNonEmpty(append(args, tree)...))
			if err != nil {
				return err
			}
			if export.YAML == "" {
				return errors.New("the scheduler answered without a document")
			}
			if s.opts.output == outputYAML {
				_, err := io.WriteString(s.out, export.YAML)
				return err
			}
			return s.print(export.Document, func(w io.Writer) error { _, err := io.WriteString(w, export.YAML); return err })
		}),
	}
	addTree(r, cmd, &tree)
	return r.addTo(cmd)
}

// oneTree validates the arguments of commands that take a pool tree, by name or by --tree.
func oneTree(flag *string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 || len(args) == 1 && *flag != "" {
			return usageErrorf("%s takes one tree name, got several", cmd.Name())
		}
		return nil
	}
}

// addTree adds the flag --tree to a command that also takes a tree by name.
func addTree(r *remote, cmd *cobra.Command, tree *string) {
	cmd.Flags().StringVar(tree, "tree", "", "pool tree, instead of TREE")
	r.mustComplete(cmd, "tree", r.completeTrees())
}
