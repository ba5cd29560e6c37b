package client

import (
	"context"
	"time"
)

// Token describes a token. The server reveals the secret only once, in the answer to
// IssueToken.
type Token struct {
	Hash        string    `yson:"#"` // SHA-256 of the secret, hexadecimal
	User        string    `yson:"user"`
	Description string    `yson:"description"`
	Created     time.Time `yson:"creation_time"`
	Expires     time.Time `yson:"expiration_time"` // zero if it never expires
	Revoked     time.Time `yson:"revoked_time"`    // zero if it is not revoked
}

// TokenOptions are the options of IssueToken.
type TokenOptions struct {
	User        string    `yson:"user"` // empty means the caller
	Description string    `yson:"description"`
	Expires     time.Time `yson:"expiration_time"` // zero means never
}

// IssueToken creates a token and returns its secret, which cannot be read again.
func (c *Client) IssueToken(ctx context.Context, o TokenOptions) (token string, err error) {
	answer, err := c.Do(ctx, "issue_token", o)
	return firstText(answer), err
}

// TokenFilter selects tokens.
type TokenFilter struct {
	User    string `yson:"user"`            // empty means all users whose tokens the caller may manage
	Revoked bool   `yson:"include_revoked"` // includes revoked tokens
}

// TokenList is a list of tokens.
type TokenList struct {
	Tokens []Token `yson:"."`
	Raw    Value   `yson:"."`
}

// ListTokens returns the tokens that match f.
func (c *Client) ListTokens(ctx context.Context, f TokenFilter) (*TokenList, error) {
	answer, err := c.Do(ctx, "list_user_tokens", merged(f, struct {
		Metadata bool `yson:"with_metadata"`
	}{true}))
	if err != nil {
		return nil, err
	}
	if wrapped := answer.Get("tokens"); !wrapped.IsNull() {
		answer = wrapped
	}
	return decode[TokenList](answer), nil
}

// RevokeToken revokes the token with this hash. The server refuses it from then on.
func (c *Client) RevokeToken(ctx context.Context, hash string) error {
	return c.tell(ctx, "revoke_token", map[string]any{"token_sha256": hash})
}
