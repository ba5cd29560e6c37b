package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/value/document"
)

func newTokenCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Create, list and revoke tokens",
		Long: `Create, list and revoke tokens. Commands of root and of the scheduler's own user on the scheduler's machine
need no token. Until the first token exists, other processes of that machine may read; then every request over the network
needs a token. The scheduler stores only hashes: a token is shown once, when it is created.`,
		Example: `  weir token list | head`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenCreateCommand(r), newTokenListCommand(r), newTokenRevokeCommand(r))
	return r.addTo(cmd)
}

func newTokenCreateCommand(r *remote) *cobra.Command {
	var description, expires string
	cmd := &cobra.Command{
		Use:   "create [USER]",
		Short: "Create a token for a user (default: yourself) and print it",
		Long: `Create a token and print it. It is shown only this once. Only administrators create tokens for other
users.`,
		Example: `  # Store it where nobody else can read it
  (umask 077 && weir token create root --description laptop > token.txt)

  # Use it
  weir context set lab --token-file token.txt && weir get //sys/@`,
		Args: atMostOneName("user"),
		RunE: r.do(func(s *session, args []string) error {
			options := client.TokenOptions{User: firstNonEmpty(args...), Description: description}
			if expires != "" {
				lasts, err := document.ParseDuration(expires)
				if err != nil || lasts <= 0 {
					return usageErrorf("--expires: %q is not a duration such as 90d or 12h", expires)
				}
				options.Expires = time.Now().Add(lasts)
			}
			token, err := s.IssueToken(s.ctx, options)
			if err != nil {
				return err
			}
			return s.opts.print(s.out, token, func(w io.Writer) error { _, err := fmt.Fprintln(w, token); return err })
		}),
	}
	cmd.Flags().StringVar(&description, "description", "", "what the token is for")
	cmd.Flags().StringVar(&expires, "expires", "", "lifetime, such as 90d; if unset, until it is revoked")
	return cmd
}

func newTokenListCommand(r *remote) *cobra.Command {
	var revoked bool
	cmd := &cobra.Command{
		Use:     "list [USER]",
		Aliases: []string{"ls"},
		Short:   "List the tokens of a user (default: of all users you may see)",
		Example: `  weir token list | head
  weir token list root -o json > tokens.json
  weir token list --revoked`,
		Args: atMostOneName("user"),
		RunE: r.do(func(s *session, args []string) error {
			list, err := s.ListTokens(s.ctx, client.TokenFilter{User: firstNonEmpty(args...), Revoked: revoked})
			if err != nil {
				return err
			}
			return s.print(list.Raw, func(w io.Writer) error { return writeTokens(w, list.Tokens) })
		}),
	}
	cmd.Flags().BoolVar(&revoked, "revoked", false, "include revoked tokens")
	return cmd
}

// tokenID is the length of the part of a hash that is shown.
const tokenID = 12

func writeTokens(w io.Writer, tokens []client.Token) error {
	t := newTable(w)
	t.row("ID", "USER", "DESCRIPTION", "CREATED", "EXPIRES", "STATE")
	t.fit(widthOf(w), 2)
	now := time.Now()
	for _, token := range tokens {
		state := "good"
		switch {
		case !token.Revoked.IsZero():
			state = "revoked"
		case !token.Expires.IsZero() && token.Expires.Before(now):
			state = "expired"
		}
		t.row(token.Hash[:min(len(token.Hash), tokenID)], token.User, token.Description, stamp(token.Created), stamp(token.Expires), state)
	}
	return t.flush()
}

func newTokenRevokeCommand(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a token by its id in weir token list",
		Example: `  # Revoke all tokens of a user who has left
  weir token list ann -o json | jq -r 'keys[]' | xargs -n1 weir token revoke`,
		Args: oneName("id of a token"),
		RunE: r.do(func(s *session, args []string) error {
			hash, err := s.tokenHash(args[0])
			if err != nil {
				return err
			}
			return s.RevokeToken(s.ctx, hash)
		}),
	}
}

// tokenHash finds the token whose hash starts with id.
func (s *session) tokenHash(id string) (string, error) {
	if strings.HasPrefix(id, "weir_") {
		return "", usageErrorf("this is a token, and other users can read command lines: revoke it by its id in weir token list")
	}
	list, err := s.ListTokens(s.ctx, client.TokenFilter{Revoked: true})
	if err != nil {
		return "", err
	}
	var found []string
	for _, token := range list.Tokens {
		if strings.HasPrefix(token.Hash, id) {
			found = append(found, token.Hash)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("no token has the id %s: weir token list shows the tokens that you may revoke", id)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%d token ids start with %s: give more of the id", len(found), id)
}

// atMostOneName validates the arguments of commands that take at most one name.
func atMostOneName(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usageErrorf("%s takes at most one %s, got %d", cmd.Name(), what, len(args))
		}
		return nil
	}
}
