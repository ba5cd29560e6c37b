package operation

import (
	"github.com/weirhq/weir/internal/value/document"
)

// secureVault is an option whose values are secret. They are in no specification that is kept or shown.
const secureVault = "secure_vault"

// Account is how an operation signs in to the registries of its images: secure_vault/docker_auth. The zero value is nobody.
type Account struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// String hides the account from messages and logs.
func (a Account) String() string { return "hidden" }

// GoString hides the account from messages and logs.
func (a Account) GoString() string { return "hidden" }

// IsZero reports whether there is no account.
func (a Account) IsZero() bool { return a == Account{} }

// readVault reads the secrets that have an effect. Problems do not quote what they are about.
func readVault(r *document.Reader, vault document.Entry) (account Account) {
	r.Enter(vault.Key)
	defer r.Leave()
	if vault.Value.Kind() != document.MapKind {
		r.Refuse(vault.At, document.RuleWrongType, "must be a map")
		return account
	}
	for _, e := range vault.Value.Entries() {
		r.Enter(e.Key)
		if document.Normal(e.Key) == "docker_auth" {
			account = readAccount(r, e)
		} else {
			r.Warn(e.At, document.RuleNotSupported, "not supported: of the secrets only docker_auth has an effect; the value is thrown away")
		}
		r.Leave()
	}
	return account
}

func readAccount(r *document.Reader, e document.Entry) (account Account) {
	const want = "must be a map with two texts that are not empty, username and password"
	if e.Value.Kind() != document.MapKind || len(e.Value.Entries()) != 2 {
		r.Refuse(e.At, document.RuleWrongType, want)
		return account
	}
	username, _ := e.Value.Get("username")
	password, _ := e.Value.Get("password")
	var named, known bool
	account.Username, named = username.Text()
	account.Password, known = password.Text()
	if !named || !known || account.Username == "" || account.Password == "" {
		r.Refuse(e.At, document.RuleWrongType, want)
		return Account{}
	}
	return account
}
