package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
)

// Environment variables and defaults that select a server if no flag does.
const (
	addressVariable   = "WEIR_ADDR"
	tokenVariable     = "WEIR_TOKEN"
	tokenFileVariable = "WEIR_TOKEN_FILE"
	contextVariable   = "WEIR_CONTEXT"
	authorityVariable = "WEIR_AUTHORITY"
)

// remote is the flags of commands that call a scheduler. There is no flag for a token itself:
// everybody on the machine can read command lines.
type remote struct {
	opts      *options
	address   string
	tokenFile string
	context   string
	authority string
	actAs     string
	patience  time.Duration
}

func newRemote(opts *options) *remote { return &remote{opts: opts} }

// addTo adds the flags to a command and its subcommands.
func (r *remote) addTo(cmd *cobra.Command) *cobra.Command {
	flags := cmd.PersistentFlags()
	flags.StringVar(&r.address, "addr", "", "scheduler, host:port or URL; else "+addressVariable+", the context, "+client.DefaultAddress)
	flags.StringVar(&r.tokenFile, "token-file", "", "file with the token; else "+tokenVariable+", "+tokenFileVariable+", the context")
	flags.StringVar(&r.context, "context", "", "context to use; else "+contextVariable+", the current one")
	flags.StringVar(&r.authority, "authority", "", "file with certificates to trust; else "+authorityVariable+", the context")
	flags.StringVar(&r.actAs, "as", "", "user to act as, for administrators")
	r.mustComplete(cmd, "context", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		file, err := loadContexts()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return file.names(), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

// mustComplete registers the completion of a flag that exists.
func (r *remote) mustComplete(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // the flag was added before
	}
}

// server is the scheduler that a command calls, and which source selected it.
type server struct {
	address, addressFrom string
	// local is the scheduler's socket on this machine, which is used in place of the address; empty if there is
	// none.
	local            string
	token, tokenFrom string
	authority        string
}

// find selects the server. A context's token is never sent to a server that was selected in another
// way. Without a token, a scheduler on this machine is called over its socket, where it knows who calls.
// An address with a scheme is used as it is.
func (r *remote) find(ctx context.Context) (server, error) {
	var s server
	chosen, err := r.chosenContext()
	if err != nil {
		return s, err
	}
	switch variable := os.Getenv(addressVariable); {
	case r.address != "":
		s.address, s.addressFrom = r.address, "was given by --addr"
	case r.context == "" && variable != "":
		s.address, s.addressFrom = variable, "comes from "+addressVariable
	case r.context == "" && callsAsPlugin():
		if s, err = throughKubernetes(ctx); err != nil {
			return s, err
		}
	case chosen != nil && chosen.Address != "":
		s.address, s.addressFrom = chosen.Address, fmt.Sprintf("comes from the context %q", chosen.Name)
		s.token, s.tokenFrom, s.authority = chosen.Token, fmt.Sprintf("the context %q", chosen.Name), chosen.Authority
		if chosen.TokenFile != "" {
			if s.token, err = readToken(chosen.TokenFile); err != nil {
				return s, fmt.Errorf("context %q: %w", chosen.Name, err)
			}
			s.tokenFrom += ", file " + chosen.TokenFile
		}
	default:
		s.address, s.addressFrom = client.DefaultAddress, "is the default"
	}
	if err := r.overrideToken(&s); err != nil {
		return s, err
	}
	if file := firstNonEmpty(r.authority, os.Getenv(authorityVariable)); file != "" {
		s.authority = file
	}
	if s.token == "" && !strings.Contains(s.address, ":/") {
		s.local, _ = client.LocalAddress(s.address)
	}
	return s, nil
}

// overrideToken uses the token that the flag or a variable names.
func (r *remote) overrideToken(s *server) (err error) {
	file := r.tokenFile
	if file == "" {
		if text := os.Getenv(tokenVariable); text != "" {
			s.token, s.tokenFrom = strings.TrimSpace(text), tokenVariable
			return nil
		}
		file = os.Getenv(tokenFileVariable)
	}
	if file != "" {
		s.token, err = readToken(file)
		s.tokenFrom = "the file " + file
	}
	return err
}

func firstNonEmpty(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// readToken reads a file that contains only a token.
func readToken(name string) (string, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("token file: %s must hold one token and nothing else", name)
	}
	return token, nil
}

// session is a command that calls a scheduler.
type session struct {
	*client.Client
	cmd  *cobra.Command
	ctx  context.Context
	opts *options
	out  io.Writer
	errs io.Writer
}

// do returns the body of a command. It adds advice to errors when the scheduler refuses a request
// or does not answer.
func (r *remote) do(body func(s *session, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, found, err := r.open(cmd)
		if err != nil {
			return err
		}
		return found.advise(body(s, args))
	}
}

func (r *remote) open(cmd *cobra.Command) (*session, server, error) {
	found, err := r.find(cmd.Context())
	if err != nil {
		return nil, found, err
	}
	errs := cmd.ErrOrStderr()
	c, err := client.New(client.Options{
		Address: firstNonEmpty(found.local, found.address), Token: found.token, User: r.actAs, Authority: found.authority, Patience: r.patience,
		Agent: "weir/" + readBuild().Version,
		Warn:  func(warning string) { fmt.Fprintf(errs, "weir: warning: %s\n", warning) },
	})
	if err != nil {
		return nil, found, fmt.Errorf("%w\n  the address %s", err, found.addressFrom)
	}
	return &session{Client: c, cmd: cmd, ctx: cmd.Context(), opts: r.opts, out: cmd.OutOrStdout(), errs: errs}, found, nil
}

// advised is an error with advice.
type advised struct {
	err    error
	advice []string
}

func (e *advised) Error() string { return e.err.Error() + "\n  " + strings.Join(e.advice, "\n  ") }
func (e *advised) Unwrap() error { return e.err }

// advise adds advice about this server to an error.
func (s *server) advise(err error) error {
	var away *client.Unreachable
	switch {
	case errors.As(err, &away):
		return &advised{err, []string{
			"The address " + s.addressFrom + "; --addr, " + addressVariable + " and weir context name others.",
			"weir up starts a cluster on this machine, weir scheduler only a scheduler.",
		}}
	case errors.Is(err, client.CodeAuthentication):
		if s.token == "" {
			return &advised{err, []string{
				"No token was sent: give one by --token-file, " + tokenVariable + " or weir context set.",
				"On the scheduler's machine, root and the scheduler's user need none.",
			}}
		}
		return &advised{err, []string{"The token comes from " + s.tokenFrom + "."}}
	}
	return err
}

// print writes an answer in the requested format.
func (s *session) print(answer client.Value, table func(io.Writer) error) error {
	return s.opts.print(s.out, answer, table)
}

// printID writes the identifier that a command returned, under its key in the API.
func (s *session) printID(key, id string) error {
	return s.opts.print(s.out, map[string]string{key: id}, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, id)
		return err
	})
}
