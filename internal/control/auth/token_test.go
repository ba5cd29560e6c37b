package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var now = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// tokenOf returns the token of a seed.
func tokenOf(seed byte) Token {
	var random [32]byte
	for i := range random {
		random[i] = seed + byte(i)*7
	}
	return NewToken(random)
}

func TestTokensReadBackAndHaveOneText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var random [32]byte
		copy(random[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "random"))
		token := NewToken(random)
		text := token.Reveal()
		if len(text) != 53 || !strings.HasPrefix(text, "weir_") {
			t.Fatalf("a token is %q", text)
		}
		back, err := ParseToken(text)
		if err != nil || back != token || back.Hash() != token.Hash() {
			t.Fatalf("%q reads as another: %v", text, err)
		}
		// One wrong character is always detected.
		at := rapid.IntRange(len(TokenPrefix), len(text)-1).Draw(t, "at")
		other := rapid.SampledFrom([]byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")).Draw(t, "other")
		if other != text[at] {
			if _, err := ParseToken(text[:at] + string(other) + text[at+1:]); !errors.Is(err, ErrTokenChecksum) {
				t.Fatalf("a mistyped token: %v", err)
			}
		}
	})
}

func TestWrongTokensAreRefusedWithoutRepeatingThem(t *testing.T) {
	good := tokenOf(1).Reveal()
	for _, test := range []struct {
		name, text string
		want       error
	}{
		{"nothing", "", ErrTokenPrefix},
		{"something else", "AQAD-secret", ErrTokenPrefix},
		{"another case", "WEIR_" + good[5:], ErrTokenPrefix},
		{"cut", good[:40], ErrTokenLength},
		{"with more", good + "A", ErrTokenLength},
		{"a strange character", good[:20] + "+" + good[21:], ErrTokenText},
		{"a line break", good[:20] + "\n" + good[21:], ErrTokenText},
		{"a space", good[:20] + " " + good[21:], ErrTokenText},
		{"swapped", good[:5] + good[15:25] + good[5:15] + good[25:], ErrTokenChecksum},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := ParseToken(test.text)
			if !errors.Is(err, test.want) {
				t.Fatalf("says %v, want %v", err, test.want)
			}
			if len(test.text) > 20 && strings.Contains(err.Error(), test.text[5:15]) {
				t.Errorf("repeats it: %v", err)
			}
		})
	}
}

func TestTokensAreNotPrinted(t *testing.T) {
	token := tokenOf(3)
	secret := token.Reveal()
	inside := struct {
		Token  Token
		Hidden *Token
	}{token, &token}
	encoded, err := json.Marshal(inside)
	if err != nil {
		t.Fatal(err)
	}
	printed := string(encoded)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
		printed += fmt.Sprintf(verb, token) + fmt.Sprintf(verb, inside) + fmt.Sprintf(verb, &token)
	}
	for _, leak := range []string{secret[5:20], fmt.Sprintf("%x", token.secret[:4]), fmt.Sprintf("%d", token.secret[:4]), fmt.Sprint(token.secret[1], " ", token.secret[2])} {
		if strings.Contains(printed, strings.Trim(leak, "[]")) {
			t.Errorf("printed: %s", printed)
		}
	}
}

func TestHashes(t *testing.T) {
	hash := tokenOf(5).Hash()
	back, err := ParseTokenHash(hash.String())
	if err != nil || back != hash {
		t.Errorf("%v reads as %v, %v", hash, back, err)
	}
	for _, text := range []string{"", "zz", hash.String()[2:], hash.String() + "00"} {
		if _, err := ParseTokenHash(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	if id := hash.ID(); len(id) != 16 || !strings.HasPrefix(hash.String(), string(id)) {
		t.Errorf("the id is %q", id)
	}
}

func TestSetsOfTokens(t *testing.T) {
	var none *Tokens
	if !none.IsEmpty() || none.List() != nil {
		t.Error("no set is not empty")
	}
	if _, ok := none.Find(tokenOf(1)); ok {
		t.Error("found a token in nothing")
	}
	tokens := none
	for seed := range byte(50) {
		var err error
		tokens, err = tokens.With(TokenRecord{Hash: tokenOf(seed).Hash(), User: fmt.Sprint("u", seed), Created: now.Add(time.Duration(seed%10) * time.Second)})
		if err != nil {
			t.Fatal(err)
		}
	}
	// A hash that starts like another token's.
	twin := tokenOf(7).Hash()
	twin[31] ^= 1
	tokens, err := tokens.With(TokenRecord{Hash: twin, User: "twin"})
	if err != nil {
		t.Fatal(err)
	}
	for seed := range byte(60) {
		record, ok := tokens.Find(tokenOf(seed))
		if ok != (seed < 50) || ok && record.User != fmt.Sprint("u", seed) {
			t.Errorf("token %d: %v, %v", seed, record, ok)
		}
	}
	list := tokens.List()
	for i := 1; i < len(list); i++ {
		if list[i].Created.Before(list[i-1].Created) {
			t.Error("the list is not in order")
		}
	}
	if _, err := tokens.With(TokenRecord{Hash: twin}); !errors.Is(err, ErrTokenExists) {
		t.Errorf("a second token of one hash: %v", err)
	}
	id := tokenOf(3).Hash().ID()
	revoked, err := tokens.Revoke(id, now)
	if err != nil {
		t.Fatal(err)
	}
	again, err := revoked.Revoke(id, now.Add(time.Hour))
	if record, _ := again.Find(tokenOf(3)); err != nil || !record.Revoked.Equal(now) {
		t.Errorf("revoked at %v, %v", record.Revoked, err)
	}
	if record, _ := tokens.Find(tokenOf(3)); !record.Revoked.IsZero() {
		t.Error("revoking changed the older set")
	}
	if _, err := tokens.Revoke("0123", now); !errors.Is(err, ErrNoSuchToken) {
		t.Errorf("says %v", err)
	}
}

func TestWhoMakesARequest(t *testing.T) {
	d := people(t)
	annToken, eveToken, sueToken, oldToken, goneToken, revokedToken, maxToken := tokenOf(1), tokenOf(2), tokenOf(3), tokenOf(4), tokenOf(5), tokenOf(6), tokenOf(7)
	tokens, err := NewTokens(
		TokenRecord{Hash: annToken.Hash(), User: "ann", Expires: now.Add(time.Second)},
		TokenRecord{Hash: eveToken.Hash(), User: "eve"}, TokenRecord{Hash: sueToken.Hash(), User: "sue"},
		TokenRecord{Hash: oldToken.Hash(), User: "ann", Expires: now}, TokenRecord{Hash: goneToken.Hash(), User: "nobody"},
		TokenRecord{Hash: revokedToken.Hash(), User: "ann", Revoked: now.Add(-time.Hour)}, TokenRecord{Hash: maxToken.Hash(), User: "max"})
	if err != nil {
		t.Fatal(err)
	}
	onlyRevoked, err := NewTokens(TokenRecord{Hash: revokedToken.Hash(), User: "ann", Revoked: now})
	if err != nil {
		t.Fatal(err)
	}
	with := func(scheme string, token Token) string { return scheme + " " + token.Reveal() }
	for _, test := range []struct {
		name   string
		tokens *Tokens
		shows  Credentials
		want   string
		fails  error
		code   int
	}{
		{"no tokens, this machine", nil, Credentials{Loopback: true}, "guest", nil, 0},
		{"no tokens, this machine, something shown", nil, Credentials{Loopback: true, Authorization: with("OAuth", annToken)}, "", ErrTokenUnknown, 900},
		{"no tokens, this machine, as root", nil, Credentials{Loopback: true, Impersonate: "root"}, "", ErrImpersonate, 901},
		{"no tokens, this machine trusted", nil, Credentials{Loopback: true, Trusted: true}, "root", nil, 0},
		{"no tokens, this machine trusted, something shown", nil, Credentials{Loopback: true, Trusted: true, Authorization: "OAuth x"}, "root", nil, 0},
		{"no tokens, this machine trusted, as another", nil, Credentials{Loopback: true, Trusted: true, Impersonate: "ann"}, "root (as ann)", nil, 0},
		{"no tokens, this machine trusted, as nobody", nil, Credentials{Loopback: true, Trusted: true, Impersonate: "nobody"}, "", ErrNoSuchUser, 910},
		{"no tokens, this machine trusted, from elsewhere", nil, Credentials{Trusted: true}, "", ErrNotOpen, 900},
		{"no tokens, the socket", nil, Credentials{Loopback: true, Local: true}, "root", nil, 0},
		{"the socket", tokens, Credentials{Loopback: true, Local: true}, "root", nil, 0},
		{"the socket, as another", tokens, Credentials{Local: true, Impersonate: "ann"}, "root (as ann)", nil, 0},
		{"the socket with a token", tokens, Credentials{Local: true, Authorization: with("OAuth", annToken)}, "ann", nil, 0},
		{"the socket with a wrong token", tokens, Credentials{Local: true, Authorization: with("OAuth", tokenOf(99))}, "", ErrTokenUnknown, 900},
		{"this machine trusted, but there are tokens", tokens, Credentials{Loopback: true, Trusted: true}, "guest", nil, 0},
		{"no tokens, from elsewhere", nil, Credentials{}, "", ErrNotOpen, 900},
		{"only revoked tokens do not open", onlyRevoked, Credentials{Loopback: true}, "guest", nil, 0},
		{"nothing shown", tokens, Credentials{Loopback: true}, "guest", nil, 0},
		{"a token", tokens, Credentials{Authorization: with("OAuth", annToken)}, "ann", nil, 0},
		{"a bearer token", tokens, Credentials{Authorization: with("bearer", annToken)}, "ann", nil, 0},
		{"blanks around", tokens, Credentials{Authorization: " OAUTH \t" + annToken.Reveal() + "  "}, "ann", nil, 0},
		{"a bare token", tokens, Credentials{Authorization: annToken.Reveal()}, "", ErrScheme, 900},
		{"a password", tokens, Credentials{Authorization: "Basic cm9vdDpyb290"}, "", ErrScheme, 900},
		{"an unknown token", tokens, Credentials{Authorization: with("OAuth", tokenOf(99))}, "", ErrTokenUnknown, 900},
		{"an unknown token on this machine", tokens, Credentials{Loopback: true, Authorization: with("OAuth", tokenOf(99))}, "", ErrTokenUnknown, 900},
		{"a mistyped token", tokens, Credentials{Authorization: with("OAuth", annToken) + "x"}, "", ErrTokenLength, 900},
		{"an expired token", tokens, Credentials{Authorization: with("OAuth", oldToken)}, "", ErrTokenExpired, 900},
		{"a revoked token", tokens, Credentials{Authorization: with("OAuth", revokedToken)}, "", ErrTokenRevoked, 900},
		{"a token of a user who is gone", tokens, Credentials{Authorization: with("OAuth", goneToken)}, "", ErrNoSuchUser, 910},
		{"a token of a banned user", tokens, Credentials{Authorization: with("OAuth", maxToken)}, "", ErrBanned, 901},
		{"a user as themselves", tokens, Credentials{Authorization: with("OAuth", annToken), Impersonate: "ann"}, "ann", nil, 0},
		{"a user as another", tokens, Credentials{Authorization: with("OAuth", annToken), Impersonate: "bob"}, "", ErrImpersonate, 901},
		{"a user as nobody learns nothing", tokens, Credentials{Authorization: with("OAuth", annToken), Impersonate: "nobody"}, "", ErrImpersonate, 901},
		{"the guest as another", tokens, Credentials{Impersonate: "root", Loopback: true}, "", ErrImpersonate, 901},
		{"an administrator as another", tokens, Credentials{Authorization: with("OAuth", eveToken), Impersonate: "bob"}, "eve (as bob)", nil, 0},
		{"an administrator as root", tokens, Credentials{Authorization: with("OAuth", eveToken), Impersonate: "root"}, "", ErrImpersonate, 901},
		{"an administrator as a nested superuser", tokens, Credentials{Authorization: with("OAuth", eveToken), Impersonate: "sue"}, "", ErrImpersonate, 901},
		{"an administrator as a banned user", tokens, Credentials{Authorization: with("OAuth", eveToken), Impersonate: "max"}, "", ErrBanned, 901},
		{"a superuser as root", tokens, Credentials{Authorization: with("OAuth", sueToken), Impersonate: "root"}, "sue (as root)", nil, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			who, err := d.Authenticate(test.tokens, test.shows, now)
			if test.fails == nil {
				if err != nil || who.String() != test.want || who.Open != (test.tokens == nil && !test.shows.Local) {
					t.Fatalf("%+v, %v; want %s", who, err, test.want)
				}
				return
			}
			var refused *Unauthenticated
			if !errors.Is(err, test.fails) || !errors.As(err, &refused) || refused.Code() != test.code || who != (Identity{}) {
				t.Fatalf("%+v, %v; want %v", who, err, test.fails)
			}
			if shown := test.shows.Authorization; len(shown) > 20 && strings.Contains(err.Error(), shown[len(shown)-12:]) {
				t.Errorf("repeats what was shown: %v", err)
			}
		})
	}
}

func TestWhoRulesTokens(t *testing.T) {
	d := people(t)
	for _, test := range []struct {
		from, of string
		want     bool
	}{
		{"ann", "ann", true}, {"ann", "bob", false}, {"eve", "bob", true}, {"eve", "root", false}, {"eve", "sue", false}, {"eve", "eve", true},
		{"sue", "root", true}, {"root", "bob", true}, {"guest", "guest", false}, {"root", "guest", false}, {"root", "nobody", false},
		{"max", "max", false}, {"nobody", "nobody", false}, {"guest", "ann", false},
	} {
		if got := d.MayRuleTokens(test.from, test.of); got != test.want {
			t.Errorf("%s for %s: %v", test.from, test.of, got)
		}
	}
}

func FuzzParseAuthorization(f *testing.F) {
	for _, seed := range []string{"", "OAuth", "OAuth " + tokenOf(1).Reveal(), "Bearer weir_", "bearer\t" + tokenOf(2).Reveal(), tokenOf(3).Reveal(), "Basic x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		token, err := ParseAuthorization(header)
		if err != nil {
			if (token != Token{}) {
				t.Fatal("a refusal comes with a token")
			}
			return
		}
		if fields := strings.Fields(header); len(fields) != 2 || fields[1] != token.Reveal() {
			t.Fatalf("%q is read as %q", header, token.Reveal())
		}
	})
}
