package cli

import (
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/value/document"
)

func newConfigCommand(opts *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check and show the settings of scheduler, node and up",
		Long: `Check and show the settings of weir scheduler, weir node and weir up.

A setting comes from a flag of the command, else from a WEIR_… variable, else from the file that
--config or WEIR_CONFIG names, else from its default. docs/configuration.md lists all settings.`,
		Example: `  weir config show
  weir config show scheduler -o yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConfigCheckCommand(opts), newConfigShowCommand(opts))
	return cmd
}

func newConfigCheckCommand(opts *options) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration file and list all its problems",
		Long: `Read a configuration file as the daemons do, without variables and flags, and print OK or all its
problems, one per line: the place, the setting, and what it must be. - means standard input.

Exit code 0: the file is valid, possibly with warnings; 1: it is not; 2: usage error.`,
		Example: `  # Write a configuration file and check it
  weir config show -o yaml > weir.yaml
  weir config check weir.yaml && echo ready`,
		Args:              oneFile,
		ValidArgsFunction: completeTreeFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			sources, err := readConfigFile(cmd, args[0])
			if err != nil {
				return err
			}
			_, warnings, err := config.Load(sources)
			verdict, err := newConfigVerdict(sources.File, warnings, err)
			if err != nil {
				return err
			}
			if err := opts.print(cmd.OutOrStdout(), verdict, verdict.write); err != nil {
				return err
			}
			if !verdict.OK {
				return errReported
			}
			return nil
		},
	}
}

// readConfigFile reads a configuration file, or the standard input if the name is -.
func readConfigFile(cmd *cobra.Command, name string) (config.Sources, error) {
	input, label, closeInput, err := openInput(cmd, name)
	if err != nil {
		return config.Sources{}, err
	}
	defer closeInput()
	data, err := readBounded(input, label)
	return config.Sources{File: label, Data: data}, err
}

// configVerdict is the answer to config check.
type configVerdict struct {
	File     string          `json:"file"`
	OK       bool            `json:"ok"`
	Problems []configProblem `json:"problems"`
	Warnings []configProblem `json:"warnings"`
}

type configProblem struct {
	Line    int32         `json:"line,omitempty"`
	Column  int32         `json:"column,omitempty"`
	Path    string        `json:"path,omitempty"`
	Rule    document.Rule `json:"rule"`
	Message string        `json:"message"`

	text string
}

// newConfigVerdict turns the result of Load into an answer. It returns an error that is not about
// the contents of the file.
func newConfigVerdict(file string, warnings document.Problems, err error) (*configVerdict, error) {
	verdict := &configVerdict{File: file, OK: err == nil, Problems: []configProblem{}, Warnings: []configProblem{}}
	if err != nil {
		problems, ok := err.(document.Problems)
		if !ok {
			return nil, err
		}
		verdict.Problems = configProblems(problems)
	}
	verdict.Warnings = append(verdict.Warnings, configProblems(warnings)...)
	return verdict, nil
}

func configProblems(problems document.Problems) (list []configProblem) {
	for _, p := range problems {
		list = append(list, configProblem{p.Line, p.Column, p.Path, p.Rule, p.Message, p.String()})
	}
	return list
}

func (v *configVerdict) write(w io.Writer) error {
	for i, p := range v.Problems {
		if i == mostProblems {
			fmt.Fprintf(w, "and %d more problems\n", len(v.Problems)-i)
			break
		}
		fmt.Fprintln(w, p.text)
	}
	for i, p := range v.Warnings {
		if i == mostProblems {
			fmt.Fprintf(w, "and %d more warnings\n", len(v.Warnings)-i)
			break
		}
		fmt.Fprintf(w, "warning: %s\n", p.text)
	}
	if v.OK {
		fmt.Fprintf(w, "%s: OK\n", v.File)
	}
	return nil
}

// configFileVariable is the environment variable that names the file if no flag does.
const configFileVariable = "WEIR_CONFIG"

func newConfigShowCommand(opts *options) *cobra.Command {
	var file string
	var changed bool
	cmd := &cobra.Command{
		Use:   "show [SECTION]",
		Short: "Print the effective settings and the origin of each",
		Long: `Print every setting with its value, as set by the file, WEIR_… variables and defaults, and the origin of
the value. SECTION is scheduler, node or up. With -o yaml the output is a configuration file.
Passwords and tokens are not shown.`,
		Example: `  weir config show
  weir config show node
  weir config show -o yaml
  WEIR_SCHEDULER_LISTEN=:7070 weir config show --changed`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && !slices.Contains(config.Sections(), args[0]) {
				return usageErrorf("%s takes scheduler, node, up or no argument, got %q", cmd.Name(), args)
			}
			return nil
		},
		ValidArgs: config.Sections(),
		RunE: func(cmd *cobra.Command, args []string) error {
			var sources config.Sources
			if name := configFileName(file); name != "" {
				var err error
				if sources, err = readConfigFile(cmd, name); err != nil {
					return err
				}
			}
			sources.Environ = os.Environ()
			loaded, warnings, err := config.Load(sources)
			printWarnings(cmd.ErrOrStderr(), warnings)
			if err != nil {
				return shortenProblems(err)
			}
			return printSettings(cmd.OutOrStdout(), opts, loaded.Effective(args...), changed)
		},
	}
	cmd.Flags().StringVarP(&file, "config", "f", "", "configuration file; if unset, the one that "+configFileVariable+" names, if any")
	cmd.Flags().BoolVar(&changed, "changed", false, "only settings that differ from the default")
	return cmd
}

// configFileName is the file that the flag or the variable names.
func configFileName(flag string) string {
	if flag != "" {
		return flag
	}
	return os.Getenv(configFileVariable)
}

// printSettings writes settings as a table, as JSON, or as a configuration file.
func printSettings(w io.Writer, opts *options, settings []config.Effective, changed bool) error {
	if changed {
		settings = slices.DeleteFunc(settings, func(e config.Effective) bool { return e.Origin.From == config.FromDefault })
	}
	if opts.output == outputYAML {
		_, err := w.Write(config.YAML(settings))
		return err
	}
	if settings == nil {
		settings = []config.Effective{}
	}
	return opts.print(w, settings, func(w io.Writer) error {
		t := newTable(w)
		t.row("SETTING", "VALUE", "FROM", "CHANGES")
		for _, e := range settings {
			value := e.Value.String()
			if e.Value.IsNull() {
				value = "–"
			}
			t.row(e.Path, value, e.Origin.String(), e.Changes())
		}
		return t.flush()
	})
}
