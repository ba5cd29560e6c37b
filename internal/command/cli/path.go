package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
)

// pathReader is the flags of commands that read paths.
type pathReader struct {
	client.ReadOptions
	format string
}

func (p *pathReader) addTo(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&p.Attributes, "attribute", nil, "also show this attribute (repeatable)")
	cmd.Flags().StringVar(&p.format, "format", "", `print the server's own format: json, yson, "<format=text>yson"; overrides -o`)
	cmd.Flags().Int64Var(&p.MaxSize, "max-size", 0, "show at most this many children; 0 means all")
}

// read runs a command on a path. If a format is given, it prints the server's text, else the value
// as -o selects.
func (p *pathReader) read(s *session, command, path string, table func(w io.Writer, answer client.Value) error) error {
	format, err := parseFormat(p.format)
	if err != nil {
		return err
	}
	parameters := map[string]any{"path": path, "return_only_value": true}
	if len(p.Attributes) > 0 {
		parameters["attributes"] = p.Attributes
	}
	if p.MaxSize != 0 {
		parameters["max_size"] = p.MaxSize
	}
	if !format.IsEntity() {
		return s.raw(command, format, parameters)
	}
	answer, err := s.Do(s.ctx, command, parameters)
	if err != nil {
		return err
	}
	return s.print(answer, func(w io.Writer) error { return table(w, answer) })
}

func newGetCommand(opts *options) *cobra.Command {
	r, p := newRemote(opts), &pathReader{}
	cmd := &cobra.Command{
		Use:   "get PATH",
		Short: "Print what is at a path: a node, an attribute, the live state",
		Long: `Print what is at a path: a node with everything below it, an attribute, a part of the
live state under //sys/scheduler/orchid. The output is YSON, as yt prints it, unless -o or --format
selects another format.`,
		Example: `  # An option of a pool as set, and the options in force with defaults
  weir get //sys/pools/research/@weight
  weir get //sys/scheduler/orchid/scheduler/pool_trees/default/pools/research/fair_share_ratio

  # All pools of the default tree with their weights
  weir get //sys/pools --attribute weight -o json

  # All attributes of a node of the cluster
  weir get //sys/cluster_nodes/@count --format json`,
		Args:              onePath,
		ValidArgsFunction: r.completePath(1),
		RunE: r.do(func(s *session, args []string) error {
			return p.read(s, "get", args[0], func(w io.Writer, answer client.Value) error { return writeYSON(w, answer) })
		}),
	}
	p.addTo(cmd)
	return r.addTo(cmd)
}

func newListCommand(opts *options) *cobra.Command {
	r, p := newRemote(opts), &pathReader{}
	var long, absolute bool
	cmd := &cobra.Command{
		Use:     "list PATH",
		Aliases: []string{"ls"},
		Short:   "List the children of a node, or the attributes at PATH/@",
		Example: `  weir list //sys/pools
  weir list //sys/pools/research/@
  weir list //sys -l
  weir list //sys/pools --attribute weight,mode
  weir list //sys/users --format json`,
		Args:              onePath,
		ValidArgsFunction: r.completePath(1),
		RunE: r.do(func(s *session, args []string) error {
			if long {
				p.Attributes = append(p.Attributes, "type", "modification_time")
			}
			prefix := ""
			if absolute {
				prefix = strings.TrimRight(args[0], "/") + "/"
			}
			return p.read(s, "list", args[0], func(w io.Writer, answer client.Value) error { return writeList(w, answer, prefix, p.Attributes) })
		}),
	}
	p.addTo(cmd)
	cmd.Flags().BoolVarP(&long, "long", "l", false, "also show the type and the modification time")
	cmd.Flags().BoolVar(&absolute, "absolute", false, "print absolute paths")
	return r.addTo(cmd)
}

// writeList prints names, one per line, with attributes in columns.
func writeList(w io.Writer, answer client.Value, prefix string, attributes []string) error {
	t := newTable(w)
	if len(attributes) > 0 {
		header := []string{"NAME"}
		for _, name := range attributes {
			header = append(header, strings.ToUpper(name))
		}
		t.row(header...)
	}
	for _, item := range answer.Items() {
		name, _ := item.Text()
		row := []string{prefix + name}
		for _, attribute := range attributes {
			row = append(row, cell(item.Attribute(attribute)))
		}
		t.row(row...)
	}
	return t.flush()
}

// cell is a value in one column of a table: strings and numbers as people write
// them, the rest as YSON.
func cell(value client.Value) string {
	switch v := value.Any().(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case nil:
		return nothing
	}
	return value.String()
}

func newExistsCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	cmd := &cobra.Command{
		Use:   "exists PATH",
		Short: "Check whether a path exists",
		Long: `Print true or false. Exit code 0: the path exists; 1: it does not.
Use the command in conditions of scripts.`,
		Example: `  weir exists //sys/pools/research
  weir exists //sys/pools/nobody/@weight  # exit 1`,
		Args:              onePath,
		ValidArgsFunction: r.completePath(1),
		RunE: r.do(func(s *session, args []string) error {
			there, err := s.Exists(s.ctx, args[0])
			if err != nil {
				return err
			}
			if err := s.opts.print(s.out, there, func(w io.Writer) error { _, err := fmt.Fprintln(w, there); return err }); err != nil {
				return err
			}
			if !there {
				return errReported
			}
			return nil
		}),
	}
	return r.addTo(cmd)
}

// onePath validates the arguments of commands that take a path.
func onePath(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageErrorf("%s takes one path, got %d arguments", cmd.Name(), len(args))
	}
	return paths(args)
}

// paths refuses arguments that cannot be paths, before any request to a server.
func paths(args []string) error {
	i := slices.IndexFunc(args, func(arg string) bool {
		return !strings.HasPrefix(arg, "/") && !strings.HasPrefix(arg, "#") && !strings.HasPrefix(arg, "<")
	})
	if i >= 0 {
		return usageErrorf("%q is not a path: paths start with //, like //sys/pools", args[i])
	}
	return nil
}
