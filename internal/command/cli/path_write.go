package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/value/yson"
)

func newSetCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	var options client.WriteOptions
	var format string
	cmd := &cobra.Command{
		Use:   "set PATH [VALUE]",
		Short: "Set an attribute or a node, such as an option of a pool, tree or node",
		Long: `Set what is at a path. VALUE is YSON, as in yt, or JSON; - or no VALUE means standard input.
In YSON true is a string; the boolean is %true.

The server validates pool options with the whole tree and applies a change entirely or not at all.
Option names treat - and _ alike. If a change of guarantees leaves promises that the tree's nodes cannot keep, a warning says so.`,
		Example: `  weir set //sys/pools/research/@weight 2
  weir set //sys/pools/research/@resource_limits '{"cpu": 100}'
  weir set //sys/pools/production/@integral-guarantees '{guarantee_type=relaxed; resource_flow={cpu=10}}'

  # From a file
  weir set //sys/pools/research/@resource_limits < limits.yson`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 {
				return usageErrorf("set takes a path and a value, got %d arguments", len(args))
			}
			return paths(args[:1])
		},
		ValidArgsFunction: r.completePath(1),
		RunE: r.do(func(s *session, args []string) error {
			value, err := readValue(s.cmd, args[1:], format)
			if err != nil {
				return err
			}
			if err := s.Set(s.ctx, args[0], value, options); err != nil {
				return adviseBoolean(err, value)
			}
			s.warnOfPromises(args[0])
			return nil
		}),
	}
	cmd.Flags().BoolVarP(&options.Recursive, "recursive", "r", false, "create missing parent nodes")
	cmd.Flags().BoolVarP(&options.Force, "force", "f", false, "replace a node with everything below it")
	cmd.Flags().StringVar(&format, "format", "", "format of VALUE: json or yson; if unset, YSON, else JSON")
	return r.addTo(cmd)
}

// promise matches paths of guarantees of pools; the first group is the tree, empty for the default one.
var promise = regexp.MustCompile(`^//sys/(?:pool_trees/([^/@]+)|pools)/.*@(?:min[-_]share[-_]resources|strong[-_]guarantee[-_]resources|integral[-_]guarantees)(?:/|$)`)

// warnOfPromises warns if a path that was set is a guarantee and the tree's nodes cannot keep all promises now. The change
// has been made, so whatever keeps it from finding out is no error.
func (s *session) warnOfPromises(path string) {
	found := promise.FindStringSubmatch(path)
	if found == nil {
		return
	}
	now, err := s.ExportPools(s.ctx, found[1])
	if err != nil {
		return
	}
	plan, err := s.PlanPools(s.ctx, client.PoolsFile{Tree: found[1], Text: now.YAML})
	if err != nil || plan.Feasible == nil || *plan.Feasible {
		return
	}
	fmt.Fprintln(s.errs, "weir: warning: it is set, but the promises do not fit the nodes of the tree:")
	for _, finding := range plan.Findings {
		fmt.Fprintln(s.errs, "  "+firstNonEmpty(finding.Message, finding.Raw.String()))
	}
}

// adviseBoolean helps users who wrote a boolean in JSON's form.
func adviseBoolean(err error, value yson.Node) error {
	var refusal *client.Error
	if word, _ := value.Text(); (word == "true" || word == "false") && errors.As(err, &refusal) {
		return &advised{err, []string{fmt.Sprintf("In YSON %s is a string; the boolean is %%%s.", word, word)}}
	}
	return err
}

func newCreateCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	var options client.WriteOptions
	var attributes string
	cmd := &cobra.Command{
		Use:   "create TYPE [PATH|NAME]",
		Short: "Create a pool, a pool tree, a user, a group, or a node at a path",
		Long: `Create an object and print its id. Some objects have a name and need no path: scheduler_pool,
scheduler_pool_tree, user, group; --attributes describes them. Nodes have a path: map_node, document, string_node,
int64_node, double_node, boolean_node, list_node, link. Attributes are YSON or JSON.`,
		Example: `  weir create scheduler_pool --attributes '{name=adhoc; pool_tree=default; parent_name=research}'
  weir create user --attributes '{"name": "ann"}' --ignore-existing
  weir create user ben -i
  weir create map_node //home/ann -r -i`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 {
				return usageErrorf("create takes a type and an optional path, got %d arguments", len(args))
			}
			if len(args) == 2 && isNamed(args[0]) && !looksLikePath(args[1]) {
				return nil
			}
			return paths(args[1:])
		},
		ValidArgsFunction: r.completeCreate,
		RunE: r.do(func(s *session, args []string) error {
			given, err := parseMapping("--attributes", attributes)
			if err != nil {
				return err
			}
			key, path := "object_id", ""
			switch {
			case len(args) == 2 && looksLikePath(args[1]):
				key, path = "node_id", args[1]
			case len(args) == 2:
				given = given.With("name", yson.String(args[1]))
			}
			id, err := s.Create(s.ctx, args[0], path, given, options)
			if err != nil {
				return err
			}
			return s.printID(key, id)
		}),
	}
	cmd.Flags().StringVar(&attributes, "attributes", "", "attributes of the new object, as a map")
	cmd.Flags().BoolVarP(&options.Recursive, "recursive", "r", false, "create missing parent nodes")
	cmd.Flags().BoolVarP(&options.IgnoreExisting, "ignore-existing", "i", false, "do nothing if it exists")
	cmd.Flags().BoolVarP(&options.Force, "force", "f", false, "replace an existing node")
	return r.addTo(cmd)
}

// isNamed reports whether objects of a type are found by name.
func isNamed(kind string) bool {
	return slices.Contains([]string{"scheduler_pool", "scheduler_pool_tree", "user", "group"}, kind)
}

// looksLikePath distinguishes a path from a name.
func looksLikePath(text string) bool { return strings.ContainsAny(text, "/#") }

func newRemoveCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	var options client.WriteOptions
	cmd := &cobra.Command{
		Use:     "remove PATH",
		Aliases: []string{"rm"},
		Short:   "Remove a node, a pool with everything below it, or an attribute",
		Example: `  weir create scheduler_pool --attributes '{"name": "temporary", "parent_name": "research"}' -i
  weir remove //sys/pools/research/temporary

  weir remove //sys/pools/research/@resource_limits --force`,
		Args:              onePath,
		ValidArgsFunction: r.completePath(1),
		RunE: r.do(func(s *session, args []string) error {
			return s.Remove(s.ctx, args[0], options)
		}),
	}
	cmd.Flags().BoolVarP(&options.Recursive, "recursive", "r", false, "also remove a node that has children")
	cmd.Flags().BoolVarP(&options.Force, "force", "f", false, "succeed if there is nothing to remove")
	return r.addTo(cmd)
}

func newCopyCommand(opts *options) *cobra.Command {
	return transplantCommand(opts, "copy", "cp", "Copy a node with everything below it", `  weir create map_node //home/source -r -i
  weir copy //home/source //home/copied --force`)
}

func newMoveCommand(opts *options) *cobra.Command {
	return transplantCommand(opts, "move", "mv", "Move or rename a node; a pool gets another parent", `  weir create scheduler_pool --attributes '{"name": "wandering", "parent_name": "research"}' -i
  weir move //sys/pools/research/wandering //sys/pools/production/wandering`)
}

func transplantCommand(opts *options, name, alias, short, example string) *cobra.Command {
	r := newRemote(opts)
	var options client.WriteOptions
	cmd := &cobra.Command{
		Use: name + " SOURCE DESTINATION", Aliases: []string{alias}, Short: short, Example: example,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageErrorf("%s takes two paths, got %d arguments", cmd.Name(), len(args))
			}
			return paths(args)
		},
		ValidArgsFunction: r.completePath(2),
		RunE: r.do(func(s *session, args []string) error {
			transplant := s.Copy
			if name == "move" {
				transplant = s.Move
			}
			id, err := transplant(s.ctx, args[0], args[1], options)
			if err != nil {
				return err
			}
			return s.printID("node_id", id)
		}),
	}
	cmd.Flags().BoolVarP(&options.Recursive, "recursive", "r", false, "create missing parent nodes")
	cmd.Flags().BoolVarP(&options.Force, "force", "f", false, "replace an existing node at the destination")
	cmd.Flags().BoolVarP(&options.IgnoreExisting, "ignore-existing", "i", false, "do nothing if the destination exists")
	return r.addTo(cmd)
}

func newLinkCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	var options client.WriteOptions
	cmd := &cobra.Command{
		Use:   "link TARGET LINK",
		Short: "Create a link to another node",
		Example: `  weir create map_node //home/target -r -i
  weir link //home/target //home/link --force`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageErrorf("link takes two paths, got %d arguments", len(args))
			}
			return paths(args)
		},
		ValidArgsFunction: r.completePath(2),
		RunE: r.do(func(s *session, args []string) error {
			id, err := s.Link(s.ctx, args[0], args[1], options)
			if err != nil {
				return err
			}
			return s.printID("node_id", id)
		}),
	}
	cmd.Flags().BoolVarP(&options.Recursive, "recursive", "r", false, "create missing parent nodes")
	cmd.Flags().BoolVarP(&options.Force, "force", "f", false, "replace an existing node at LINK")
	cmd.Flags().BoolVarP(&options.IgnoreExisting, "ignore-existing", "i", false, "do nothing if LINK exists")
	return r.addTo(cmd)
}
