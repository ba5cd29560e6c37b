package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/value/document"
)

// contextsVariable is the environment variable that names the file of contexts. The default is
// weir/contexts.yaml in the user's configuration directory.
const contextsVariable = "WEIR_CONTEXTS"

// cluster is a scheduler that the user works with.
type cluster struct {
	Name      string `yaml:"-" json:"name"`
	Address   string `yaml:"addr" json:"addr"`
	TokenFile string `yaml:"token_file,omitempty" json:"token_file,omitempty"`
	// Token is never printed.
	Token     string `yaml:"token,omitempty" json:"-"`
	Authority string `yaml:"authority,omitempty" json:"authority,omitempty"`
}

// contexts is the file with all of a user's clusters. Only its owner may read it.
type contexts struct {
	Current  string              `yaml:"current,omitempty"`
	Clusters map[string]*cluster `yaml:"contexts"`
	file     string
}

func contextsFile() (string, error) {
	if name := os.Getenv(contextsVariable); name != "" {
		return name, nil
	}
	directory, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("contexts: %w; %s names a file", err, contextsVariable)
	}
	return filepath.Join(directory, "weir", "contexts.yaml"), nil
}

// loadContexts reads the file. A missing file is empty.
func loadContexts() (*contexts, error) {
	name, err := contextsFile()
	if err != nil {
		return nil, err
	}
	c := &contexts{Clusters: map[string]*cluster{}, file: name}
	file, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("contexts: %w", err)
	}
	defer file.Close()
	decoder := yaml.NewDecoder(file)
	decoder.KnownFields(true)
	if err := decoder.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("contexts: %s: %w", name, err)
	}
	for name, each := range c.Clusters {
		if each == nil {
			return nil, fmt.Errorf("contexts: %s: context %q is empty", c.file, name)
		}
		each.Name = name
	}
	return c, nil
}

// save writes the whole file, readable only by its owner.
func (c *contexts) save() error {
	data, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.file), 0o700); err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	temporary, err := os.CreateTemp(filepath.Dir(c.file), ".contexts-*") // mode 0600
	if err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	_, err = temporary.Write(data)
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), c.file)
	}
	if err != nil {
		return fmt.Errorf("contexts: %w", errors.Join(err, os.Remove(temporary.Name())))
	}
	return nil
}

func (c *contexts) names() []string {
	names := make([]string, 0, len(c.Clusters))
	for name := range c.Clusters {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// named returns a context, or an error with a suggestion.
func (c *contexts) named(name string) (*cluster, error) {
	if found := c.Clusters[name]; found != nil {
		return found, nil
	}
	message := fmt.Sprintf("there is no context %q", name)
	if near, ok := document.Nearest(name, c.names()); ok {
		message += fmt.Sprintf("; did you mean %q?", near)
	} else if len(c.Clusters) > 0 {
		message += "; there are " + strings.Join(c.names(), ", ")
	} else {
		message += "; weir context set makes one"
	}
	return nil, errors.New(message)
}

// chosenContext is the context of a command: from the flag, the variable, or the one in use; nil if
// there is none.
func (r *remote) chosenContext() (*cluster, error) {
	file, err := loadContexts()
	if err != nil {
		return nil, err
	}
	if name := firstNonEmpty(r.context, os.Getenv(contextVariable)); name != "" {
		return file.named(name)
	}
	return file.Clusters[file.Current], nil
}

func newContextCommand(opts *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "context",
		Short: "Name clusters and select the one that commands use",
		Long: `Name clusters and select the one that commands use.

A context is an address and, if the cluster requires them, a token and an authority. Contexts are stored
in weir/contexts.yaml in your configuration directory, which only you can read; WEIR_CONTEXTS names
another file. --addr and WEIR_ADDR override the current context, and its token is not sent there.`,
		Example: `  weir context set lab --addr lab.example:7070
  weir context list`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newContextListCommand(opts), newContextRemoveCommand(), newContextSetCommand(), newContextUseCommand())
	return cmd
}

// contextRow is a context as it is printed: without secrets.
type contextRow struct {
	Current bool `json:"current"`
	cluster
	HasToken bool `json:"has_token"`
}

func newContextListCommand(opts *options) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List all contexts; a star marks the current one",
		Example: `  weir context list
  weir context list -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := loadContexts()
			if err != nil {
				return err
			}
			rows := []contextRow{}
			for _, name := range file.names() {
				c := file.Clusters[name]
				rows = append(rows, contextRow{name == file.Current, *c, c.Token != "" || c.TokenFile != ""})
			}
			return opts.print(cmd.OutOrStdout(), rows, func(w io.Writer) error {
				if len(rows) == 0 {
					fmt.Fprintln(cmd.ErrOrStderr(), "There are no contexts; weir context set creates one.")
					return nil
				}
				t := newTable(w)
				t.row("", "NAME", "ADDRESS", "TOKEN", "AUTHORITY")
				for _, row := range rows {
					star, token := "", "no"
					if row.Current {
						star = "*"
					}
					if row.HasToken {
						token = "kept here"
						if row.TokenFile != "" {
							token = "in " + row.TokenFile
						}
					}
					t.row(star, row.Name, row.Address, token, firstNonEmpty(row.Authority, nothing))
				}
				return t.flush()
			})
		},
	}
}

func newContextSetCommand() *cobra.Command {
	var address, tokenFile, authority string
	var tokenInput bool
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Create or change a context; the first one becomes the current one",
		Long: `Create or change a context. The first one becomes the current one.

A token stays in its own file (--token-file), or is read from standard input and stored with the
context (--token-stdin). It cannot be an argument, because other users can read command lines.`,
		Example: `  weir context set lab --addr lab.example:7070

  # With a certificate that the cluster signed itself
  weir context set lab --addr https://lab.example:7070 --authority lab.crt

  # Store a token that you were given
  weir context set lab --token-stdin < token.txt`,
		Args:              oneName("context"),
		ValidArgsFunction: completeContexts,
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := loadContexts()
			if err != nil {
				return err
			}
			c := file.Clusters[args[0]]
			if c == nil {
				if address == "" {
					return usageErrorf("the new context %q needs an address: --addr", args[0])
				}
				c = &cluster{}
				file.Clusters[args[0]] = c
			}
			if err := c.change(cmd, address, tokenFile, authority, tokenInput); err != nil {
				return err
			}
			if file.Current == "" {
				file.Current = args[0]
			}
			return file.save()
		},
	}
	cmd.Flags().StringVar(&address, "addr", "", "scheduler, host:port or URL")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "file with the token, read at every use")
	cmd.Flags().BoolVar(&tokenInput, "token-stdin", false, "read the token from standard input and store it")
	cmd.Flags().StringVar(&authority, "authority", "", "file with certificates to trust")
	cmd.MarkFlagsMutuallyExclusive("token-file", "token-stdin")
	return cmd
}

// change sets the given fields and keeps the rest. It stores absolute file names, because commands
// run anywhere.
func (c *cluster) change(cmd *cobra.Command, address, tokenFile, authority string, tokenInput bool) (err error) {
	if address != "" {
		if _, err := client.New(client.Options{Address: address}); err != nil {
			return usageErrorf("--addr: %v", err)
		}
		c.Address = address
	}
	if authority != "" {
		if c.Authority, err = filepath.Abs(authority); err != nil {
			return err
		}
	}
	if tokenFile != "" {
		if _, err := readToken(tokenFile); err != nil {
			return err
		}
		c.Token = ""
		if c.TokenFile, err = filepath.Abs(tokenFile); err != nil {
			return err
		}
	}
	if tokenInput {
		const mostToken = 4096
		data, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), mostToken))
		if err != nil {
			return fmt.Errorf("token: %w", err)
		}
		token := strings.TrimSpace(string(data))
		if token == "" || strings.ContainsAny(token, " \t\r\n") {
			return errors.New("standard input must hold one token and nothing else")
		}
		c.Token, c.TokenFile = token, ""
	}
	return nil
}

func newContextUseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "use NAME",
		Short: "Make a context the current one",
		Example: `  weir context set lab --addr lab.example:7070
  weir context use lab`,
		Args:              oneName("context"),
		ValidArgsFunction: completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			return editContexts(args[0], func(file *contexts) { file.Current = args[0] })
		},
	}
}

func newContextRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Aliases: []string{"rm"},
		Short:   "Remove a context and its stored token",
		Example: `  weir context set old --addr old.example:7070
  weir context remove old`,
		Args:              oneName("context"),
		ValidArgsFunction: completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			return editContexts(args[0], func(file *contexts) {
				delete(file.Clusters, args[0])
				if file.Current == args[0] {
					file.Current = ""
				}
			})
		},
	}
}

// editContexts changes the file for a context that must exist.
func editContexts(name string, edit func(*contexts)) error {
	file, err := loadContexts()
	if err != nil {
		return err
	}
	if _, err := file.named(name); err != nil {
		return err
	}
	edit(file)
	return file.save()
}

func completeContexts(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	file, err := loadContexts()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return file.names(), cobra.ShellCompDirectiveNoFileComp
}

// oneName validates the arguments of commands that take one name.
func oneName(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return usageErrorf("%s takes one %s, got %d arguments", cmd.Name(), what, len(args))
		}
		return nil
	}
}
