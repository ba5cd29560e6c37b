package server

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/imagename"
)

// VaultKeySize is the length of the key that seals the secrets of operations.
const VaultKeySize = 32

// ErrNoVault refuses secrets that could not be stored.
var ErrNoVault = errors.New("this scheduler has no key to store secrets with (scheduler/vault_key_file)")

// seal encrypts the account of an operation for the store, if it has one. Only the operation with this id can use it.
func seal(key []byte, id string, account operation.Account) ([]byte, error) {
	if account.IsZero() {
		return nil, nil
	}
	box, err := newBox(key)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(account)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, box.NonceSize())
	_, _ = rand.Read(nonce) // it never fails
	return json.Marshal(sealed{nonce, box.Seal(nil, nonce, text, []byte(id))})
}

// sealed is what the store has of an account.
type sealed struct {
	Nonce []byte `json:"nonce"`
	Text  []byte `json:"text"`
}

// unseal returns an account that seal has encrypted with the same key for the same operation.
func unseal(key []byte, id string, document []byte) (account operation.Account, err error) {
	box, err := newBox(key)
	if err != nil {
		return account, err
	}
	var s sealed
	if err := json.Unmarshal(document, &s); err != nil {
		return account, err
	}
	if len(s.Nonce) != box.NonceSize() {
		return account, errors.New("it is damaged")
	}
	text, err := box.Open(nil, s.Nonce, s.Text, []byte(id))
	if err != nil {
		return account, errors.New("another key has sealed it (scheduler/vault_key_file)")
	}
	return account, json.Unmarshal(text, &account)
}

func newBox(key []byte) (cipher.AEAD, error) {
	if len(key) != VaultKeySize {
		return nil, ErrNoVault
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// vaultSetting is the setting with the account of an operation. No path leads to it.
func vaultSetting(id string) string { return "vault_of_operation:" + id }

// reviveAccount reads the account of an operation. Without it, nodes that do not have its images yet cannot fetch them.
func (t *term) reviveAccount(op *activeOperation) {
	id := op.record.ID.String()
	document, there := t.server.registry.Setting(vaultSetting(id))
	if !there {
		return
	}
	var err error
	if op.account, err = unseal(t.server.vaultKey, id, document); err != nil {
		t.server.log.Error("the credentials of an operation for its images cannot be read; nodes that lack the images cannot fetch them", "operation", id, "error", err)
	}
}

// dropAccount forgets the account of an operation that has ended.
func (t *term) dropAccount(op *activeOperation) {
	name := vaultSetting(op.record.ID.String())
	if _, there := t.server.registry.Setting(name); there {
		op.account = operation.Account{}
		// A commit deletes first: a row that it would put must not stay.
		t.open.rows.Put.Settings = slices.DeleteFunc(t.open.rows.Put.Settings, func(s store.Setting) bool { return s.Name == name })
		t.changeVault(&store.Batch{Delete: store.Rows{Settings: []store.Setting{{Name: name}}}})
	}
}

func (t *term) changeVault(change *store.Batch) {
	t.open.rows.Put.Settings = append(t.open.rows.Put.Settings, change.Put.Settings...)
	t.open.rows.Delete.Settings = append(t.open.rows.Delete.Settings, change.Delete.Settings...)
	t.server.registry.apply(change)
	if t.registry != nil { // otherwise it is read later
		t.registry.apply(change)
	}
}

// signIn gives nodes the account of an operation if its image comes from a registry.
func signIn(spec *nodev1.JobSpec, account operation.Account) {
	image := spec.GetImage()
	if n, err := imagename.Parse(image.GetName()); image == nil || account.IsZero() || err != nil || n.Registry == "" {
		return
	}
	image.Auth = &nodev1.RegistryAuth{Username: account.Username, Password: account.Password}
}
