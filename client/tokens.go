package client

import (
	"context"
	"time"
)

// Token is what is known about a token. The token itself is told once, when it is made.
type Token struct {
	Hash        string    `yson:"#"` // SHA-256, hexadecimal
	User        string    `yson:"user"`
	Description string    `yson:"description"`
	Created     time.Time `yson:"creation_time"`
	Expires     time.Time `yson:"expiration_time"` // zero if it does not
	Revoked     time.Time `yson:"revoked_time"`    // zero if it was not
}

// TokenOptions say whose token to make; without User it is that of the caller.
type TokenOptions struct {
	User        string    `yson:"user"`
	Description string    `yson:"description"`
	Expires     time.Time `yson:"expiration_time"`
}

// IssueToken makes a token and returns it. Nobody can read it again.
func (c *Client) IssueToken(ctx context.Context, o TokenOptions) (token string, err error) {
	answer, err := c.Do(ctx, "issue_token", o)
	return firstText(answer), err
}

// TokenFilter says which tokens a list has; without User those of everybody whom the
// caller may see.
type TokenFilter struct {
	User    string `yson:"user"`
	Revoked bool   `yson:"include_revoked"` // also those that were revoked
}

// TokenList is a list of tokens.
type TokenList struct {
	Tokens []Token `yson:"."`
	Raw    Value   `yson:"."`
}

// ListTokens lists tokens.
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

// RevokeToken makes a token useless.
func (c *Client) RevokeToken(ctx context.Context, hash string) error {
	return c.tell(ctx, "revoke_token", map[string]any{"token_sha256": hash})
}
