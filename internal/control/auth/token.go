package auth

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"time"
)

// TokenPrefix starts every token, so that people and scanners for leaked secrets
// recognise one.
const TokenPrefix = "weir_"

// A token is its prefix and 48 characters: 256 random bits and a checksum, which
// distinguishes a mistyped token from a revoked one without a lookup.
const (
	secretSize   = 32
	checksumSize = 4
	tokenLength  = len(TokenPrefix) + (secretSize+checksumSize)*4/3
)

// Errors of tokens. None of them repeats the presented text.
var (
	ErrTokenPrefix   = errors.New("the token does not begin with " + TokenPrefix)
	ErrTokenLength   = errors.New("the token does not have " + fmt.Sprint(tokenLength) + " characters; was it cut?")
	ErrTokenText     = errors.New("the token has characters that no token has")
	ErrTokenChecksum = errors.New("the token is mistyped: its checksum is wrong")
)

// Token is a secret. Only Reveal prints it.
type Token struct {
	secret [secretSize]byte
}

// NewToken returns a token made of random bytes, which must come from a
// cryptographic source.
func NewToken(random [secretSize]byte) Token { return Token{secret: random} }

// Reveal returns the token's text. It belongs in the answer to the request that
// created the token, and nowhere else.
func (t Token) Reveal() string {
	data := binary.BigEndian.AppendUint32(t.secret[:], crc32.ChecksumIEEE(t.secret[:]))
	return TokenPrefix + base64.RawURLEncoding.EncodeToString(data)
}

// Format hides the token from every verb of fmt.
func (t Token) Format(f fmt.State, _ rune) { io.WriteString(f, t.String()) }

func (t Token) String() string { return TokenPrefix + "(hidden)" }

// MarshalText hides the token from encoders and structured logs.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// ParseToken parses a token. Every token has exactly one text.
func ParseToken(text string) (Token, error) {
	var t Token
	body, ok := strings.CutPrefix(text, TokenPrefix)
	switch {
	case !ok:
		return t, ErrTokenPrefix
	case len(text) != tokenLength:
		return t, ErrTokenLength
	case strings.ContainsAny(body, "\r\n"): // which the decoder skips
		return t, ErrTokenText
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if err != nil || len(data) != secretSize+checksumSize {
		return t, ErrTokenText
	}
	copy(t.secret[:], data)
	if binary.BigEndian.Uint32(data[secretSize:]) != crc32.ChecksumIEEE(t.secret[:]) {
		return Token{}, ErrTokenChecksum
	}
	return t, nil
}

// TokenHash is the stored form of a token. 256 random bits need no salt and no
// slow hash: they cannot be guessed.
type TokenHash [sha256.Size]byte

// Hash returns the token's hash, which is what is stored.
func (t Token) Hash() TokenHash { return sha256.Sum256([]byte(t.Reveal())) }

// String returns the hash in hexadecimal digits.
func (h TokenHash) String() string { return hex.EncodeToString(h[:]) }

// ParseTokenHash parses the output of String.
func ParseTokenHash(text string) (h TokenHash, err error) {
	data, err := hex.DecodeString(text)
	if err != nil || len(data) != len(h) {
		return h, errors.New("a hash of a token has 64 hexadecimal digits")
	}
	copy(h[:], data)
	return h, nil
}

// TokenID names a token in lists and commands. It reveals nothing about the
// token.
type TokenID string

// ID returns the name of the token with this hash.
func (h TokenHash) ID() TokenID { return TokenID(hex.EncodeToString(h[:8])) }

// TokenRecord is a token as it is stored.
type TokenRecord struct {
	Hash        TokenHash
	User        string
	Description string
	Created     time.Time
	Expires     time.Time // zero: never
	Revoked     time.Time // zero: it is valid
}

// ID names the token.
func (r TokenRecord) ID() TokenID { return r.Hash.ID() }

// Tokens is the set of all tokens that were ever created and not deleted,
// including revoked ones. It is immutable.
type Tokens struct {
	records []TokenRecord // by hash
}

// ErrTokenExists is returned for two tokens with the same hash.
var ErrTokenExists = errors.New("there is such a token already")

// ErrNoSuchToken is returned for an ID that no token has.
var ErrNoSuchToken = errors.New("there is no such token")

func byHash(a, b TokenRecord) int { return cmp.Compare(a.Hash.String(), b.Hash.String()) }

// NewTokens returns a set of tokens.
func NewTokens(records ...TokenRecord) (*Tokens, error) {
	t := &Tokens{records: slices.SortedFunc(slices.Values(records), byHash)}
	for i := 1; i < len(t.records); i++ {
		if t.records[i].Hash == t.records[i-1].Hash {
			return nil, fmt.Errorf("token %s: %w", t.records[i].ID(), ErrTokenExists)
		}
	}
	return t, nil
}

// IsEmpty reports whether no token was ever created. A set of revoked tokens is
// not empty: revoking the last one must not open the server.
func (t *Tokens) IsEmpty() bool { return t == nil || len(t.records) == 0 }

// List returns the tokens in order of creation; those of the same time are sorted
// by hash.
func (t *Tokens) List() []TokenRecord {
	if t == nil {
		return nil
	}
	return slices.SortedStableFunc(slices.Values(t.records), func(a, b TokenRecord) int { return a.Created.Compare(b.Created) })
}

// With returns the set with one more token.
func (t *Tokens) With(r TokenRecord) (*Tokens, error) { return NewTokens(append(t.List(), r)...) }

// Revoke returns the set in which a token is no longer valid. The time of the
// first revocation is kept.
func (t *Tokens) Revoke(id TokenID, now time.Time) (*Tokens, error) {
	records, found := t.List(), false
	for i := range records {
		if records[i].ID() == id {
			found = true
			if records[i].Revoked.IsZero() {
				records[i].Revoked = now
			}
		}
	}
	if !found {
		return nil, fmt.Errorf("token %q: %w", id, ErrNoSuchToken)
	}
	return NewTokens(records...)
}

// Find returns the record of a token. Its run time depends on how long a prefix
// of the hash other tokens share, and not on the secret.
func (t *Tokens) Find(token Token) (TokenRecord, bool) {
	if t == nil {
		return TokenRecord{}, false
	}
	hash := token.Hash()
	id := string(hash.ID())
	at, _ := slices.BinarySearchFunc(t.records, id, func(r TokenRecord, id string) int { return strings.Compare(string(r.ID()), id) })
	for _, r := range t.records[at:] {
		if string(r.ID()) != id {
			break
		}
		if subtle.ConstantTimeCompare(r.Hash[:], hash[:]) == 1 {
			return r, true
		}
	}
	return TokenRecord{}, false
}
