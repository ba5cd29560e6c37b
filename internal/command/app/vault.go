package app

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/control/server"
)

// openVaultKey reads the key that seals secrets in the store. It makes one if the operator has named none, unless other schedulers may use the
// same store: they need the same key.
func openVaultKey(c *config.Scheduler) ([]byte, error) {
	path := c.VaultKeyFile.Value()
	if path == "" && c.Store.IsSet() {
		return nil, nil
	}
	if path == "" {
		path = filepath.Join(c.DataDir.Value(), "vault.key")
		if err := makeVaultKey(path); err != nil {
			return nil, fmt.Errorf("vault_key_file: %w", err)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("vault_key_file: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("vault_key_file: %s must not be accessible to other users: chmod 600 %[1]s", path)
	}
	key, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("vault_key_file: %w", err)
	}
	if len(key) != server.VaultKeySize {
		return nil, fmt.Errorf("vault_key_file: %s has %d bytes; want %d random bytes: head -c %[3]d /dev/urandom >%[1]s", path, len(key), server.VaultKeySize)
	}
	return key, nil
}

// makeVaultKey writes a new key unless there is one. The key appears whole.
func makeVaultKey(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	key := make([]byte, server.VaultKeySize)
	_, _ = rand.Read(key) // it never fails
	file, err := os.CreateTemp(filepath.Dir(path), ".vault-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(key)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Link(file.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) { // another scheduler may have made one
		return err
	}
	return nil
}
