package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/yson"
)

func newTokenCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make, list and revoke the tokens by which a scheduler knows people",
		Long: `Make, list and revoke tokens. As long as there is none, everybody on the scheduler's machine is root;
once there is one, everybody needs one. A scheduler keeps only hashes: a token is shown once, when it
is made.`,
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
		Short: "Make a token for a user, by default yourself, and print it",
		Long: `Make a token and print it: this is the only time that it is shown. Tokens for others are made by
administrators.`,
		Example: `  # Keep it where nobody else can read it
  (umask 077 && weir token create root --description laptop > token.txt)

  # And take it into use
  weir context set lab --token-file token.txt && weir get //sys/@`,
		Args: atMostOneName("user"),
		RunE: r.do(func(s *session, args []string) error {
			until := ""
			if expires != "" {
				lasts, err := document.ParseDuration(expires)
				if err != nil || lasts <= 0 {
					return usageErrorf("--expires: %q is no length of time such as 90d or 12h", expires)
				}
				until = time.Now().Add(lasts).UTC().Format("2006-01-02T15:04:05.000000Z")
			}
			answer, err := s.change("issue_token", textIf("user", firstNonEmpty(args...)), textIf("description", description), textIf("expiration_time", until))
			if err != nil {
				return err
			}
			return s.printID(answer)
		}),
	}
	cmd.Flags().StringVar(&description, "description", "", "what it is for, to know it again")
	cmd.Flags().StringVar(&expires, "expires", "", "how long it is good, such as 90d; without it, until it is revoked")
	return cmd
}

func newTokenListCommand(r *remote) *cobra.Command {
	var revoked bool
	cmd := &cobra.Command{
		Use:     "list [USER]",
		Aliases: []string{"ls"},
		Short:   "List tokens of a user, by default of everybody you may see, by their hashes",
		Example: `  weir token list | head
  weir token list root -o json > tokens.json
  weir token list --revoked`,
		Args: atMostOneName("user"),
		RunE: r.do(func(s *session, args []string) error {
			answer, err := s.tokens(firstNonEmpty(args...), revoked)
			if err != nil {
				return err
			}
			return s.print(answer, func(w io.Writer) error { return writeTokens(w, answer) })
		}),
	}
	cmd.Flags().BoolVar(&revoked, "revoked", false, "also those that were revoked")
	return cmd
}

// tokens asks for what is known about tokens, by their hashes.
func (s *session) tokens(user string, revoked bool) (yson.Node, error) {
	answer, err := s.ask("list_user_tokens", textIf("user", user), flagIf("with_metadata", true), flagIf("include_revoked", revoked))
	if tokens, wrapped := answer.Get("tokens"); wrapped {
		answer = tokens
	}
	return answer, err
}

// tokenID is how much of a hash people are shown.
const tokenID = 12

func writeTokens(w io.Writer, tokens yson.Node) error {
	t := newTable(w)
	t.row("ID", "USER", "DESCRIPTION", "CREATED", "EXPIRES", "STATE")
	t.fit(widthOf(w), 2)
	now := time.Now()
	for _, e := range tokens.Entries() {
		state := "good"
		expires := moment(field(e.Value, "expiration_time"))
		switch {
		case !field(e.Value, "revoked_time").IsEntity():
			state = "revoked"
		case !expires.IsZero() && expires.Before(now):
			state = "expired"
		}
		t.row(e.Key[:min(len(e.Key), tokenID)], cell(field(e.Value, "user")), cell(field(e.Value, "description")),
			cell(field(e.Value, "creation_time")), cell(field(e.Value, "expiration_time")), state)
	}
	return t.flush()
}

func newTokenRevokeCommand(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "Make a token useless, by its id in weir token list",
		Example: `  # All tokens of somebody who has left
  weir token list ann -o json | jq -r 'keys[]' | xargs -n1 weir token revoke`,
		Args: oneName("id of a token"),
		RunE: r.do(func(s *session, args []string) error {
			hash, err := s.tokenHash(args[0])
			if err != nil {
				return err
			}
			_, err = s.change("revoke_token", textIf("token_sha256", hash))
			return err
		}),
	}
}

// tokenHash finds the token whose hash begins so.
func (s *session) tokenHash(id string) (string, error) {
	if strings.HasPrefix(id, "weir_") {
		return "", usageErrorf("that is a token itself, which others can read on the command line: revoke it by its id in weir token list")
	}
	answer, err := s.tokens("", true)
	if err != nil {
		return "", err
	}
	var found []string
	for _, e := range answer.Entries() {
		if strings.HasPrefix(e.Key, id) {
			found = append(found, e.Key)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("there is no token with the id %s: weir token list shows those that you may revoke", id)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%d tokens begin with %s: give more of the id", len(found), id)
}

// atMostOneName is the rule of commands that take one name of something, or none.
func atMostOneName(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usageErrorf("%s takes at most one %s, got %d", cmd.Name(), what, len(args))
		}
		return nil
	}
}
