package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/wire"
)

// Key is a secret of the scheduler's process that lets its holder act as root for as long as the process
// lives. It is stored nowhere. Codes, each good for one use, are exchanged for it, so that an address with a
// code can be printed and opened in a browser.
type Key struct {
	token auth.Token

	mutex sync.Mutex
	codes map[auth.TokenHash]bool
}

// NewKey returns a key with a new secret.
func NewKey() *Key { return &Key{token: newSecret(), codes: map[auth.TokenHash]bool{}} }

// Reveal returns the secret, a token that requests present.
func (k *Key) Reveal() string { return k.token.Reveal() }

// NewCode returns a code that can be exchanged for the key once.
func (k *Key) NewCode() string {
	code := newSecret()
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.codes[code.Hash()] = true
	return code.Reveal()
}

// redeem reports whether a code is valid, and invalidates it.
func (k *Key) redeem(text string) bool {
	code, err := auth.ParseToken(text)
	if err != nil {
		return false
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	good := k.codes[code.Hash()]
	delete(k.codes, code.Hash())
	return good
}

// opens reports whether an Authorization header presents the key. Comparing hashes reveals nothing about the
// secret by its time.
func (k *Key) opens(authorization string) bool {
	if k == nil || authorization == "" {
		return false
	}
	token, err := auth.ParseAuthorization(authorization)
	return err == nil && token.Hash() == k.token.Hash()
}

// errCodeUsed is returned for every bad code: what is wrong with it is nobody's business.
var errCodeUsed = errors.New("the address for signing in is good for one use and was used, or its scheduler has restarted; sign in with a token")

// maxSignIn bounds the body of a sign-in.
const maxSignIn = 4 << 10

// signIn exchanges a code for the key.
func (a *API) signIn(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	var given struct {
		Code string `json:"code"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxSignIn)).Decode(&given)
	if err != nil || a.options.Key == nil || !a.options.Key.redeem(given.Code) {
		a.refuse(w, wire.AsError(&auth.Unauthenticated{Cause: errCodeUsed}))
		return
	}
	writeJSON(w, map[string]string{"token": a.options.Key.Reveal()})
}
