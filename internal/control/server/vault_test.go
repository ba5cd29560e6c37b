package server

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/test/expected"
)

func TestASealedAccountOpensOnlyForItsOperationWithItsKey(t *testing.T) {
	key, account := bytes.Repeat([]byte{7}, VaultKeySize), operation.Account{Username: "ann", Password: "do-not-print"}
	document, err := seal(key, "1-2", account)
	if err != nil || bytes.Contains(document, []byte("do-not-print")) {
		t.Fatalf("%s, %v", document, err)
	}
	if got, err := unseal(key, "1-2", document); err != nil || got != account {
		t.Errorf("%v", err)
	}
	for name, open := range map[string]func() error{
		"another operation": func() error { _, err := unseal(key, "1-3", document); return err },
		"another key":       func() error { _, err := unseal(bytes.Repeat([]byte{8}, VaultKeySize), "1-2", document); return err },
		"no key":            func() error { _, err := unseal(nil, "1-2", document); return err },
		"half of it":        func() error { _, err := unseal(key, "1-2", document[:len(document)/2]); return err },
		"nothing":           func() error { _, err := unseal(key, "1-2", []byte("{}")); return err },
	} {
		if err := open(); err == nil || strings.Contains(err.Error(), "do-not-print") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if document, err := seal(nil, "1-2", operation.Account{}); document != nil || err != nil {
		t.Errorf("nothing needs no key: %s, %v", document, err)
	}
}

// holds returns the files below a directory that contain a text.
func holds(t *testing.T, directory, text string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// The next leader gives nodes the credentials that an operation was started with. The store has them only sealed, and not for longer than the
// operation lasts.
func TestTheCredentialsOfAnOperationSurviveTheSchedulerAndAreNotInTheClear(t *testing.T) {
	const secret = "do-not-print"
	directory, key := t.TempDir(), bytes.Repeat([]byte{7}, VaultKeySize)
	options := Options{Settings: quickSettings(), VaultKey: key}
	spec := "{pool: p, secure_vault: {docker_auth: {username: ann, password: " + secret + "}}, tasks: {t: {job_count: 1, command: x, docker_image: 'registry.example/a@sha256:" + strings.Repeat("0", 64) + "'}}}"
	s := leadWith(t, directory, options)
	s.pools("{pools: {p: {}}}")
	s.start(spec)
	s.stop()
	s = leadWith(t, directory, options)
	if found := holds(t, directory, secret); len(found) > 0 {
		t.Errorf("%v have the password", found)
	}
	m := newMachine(t, "node-1", 1)
	s.eventually("the job runs", func() bool { m.beat(s); return len(m.jobs) == 1 })
	for number, start := range m.jobs {
		if auth := start.Spec.GetImage().GetAuth(); auth.GetUsername() != "ann" || auth.GetPassword() != secret {
			t.Errorf("the node gets the name %q", auth.GetUsername())
		}
		m.end(number, nodev1.JobState_JOB_STATE_COMPLETED, "")
	}
	vaults := func() (count int) {
		rows, err := s.Store().Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows.Rows.Settings {
			if strings.HasPrefix(row.Name, vaultSetting("")) {
				count++
			}
		}
		return count
	}
	s.eventually("the operation ends and its credentials are gone", func() bool { m.beat(s); return vaults() == 0 })
	s.stop()

	without := leadWith(t, t.TempDir(), Options{Settings: quickSettings()})
	without.pools("{pools: {p: {}}}")
	read, err := operation.Read(expected.Document(t, spec), operation.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := without.StartOperation(t.Context(), Caller{User: "ann"}, Start{Type: "vanilla", User: "ann", Spec: read}); !errors.Is(err, ErrNoVault) || strings.Contains(err.Error(), secret) {
		t.Errorf("a scheduler without a key: %v", err)
	}
	without.stop()
}

// Only a registry has a use for credentials.
func TestNodesGetCredentialsOnlyForImagesOfRegistries(t *testing.T) {
	account := operation.Account{Username: "ann", Password: "x"}
	for _, spec := range []*nodev1.JobSpec{{}, {Image: &nodev1.JobImage{Name: "team/train:v1@sha256:" + strings.Repeat("0", 64)}}, {Image: &nodev1.JobImage{}}} {
		if signIn(spec, account); spec.GetImage().GetAuth() != nil {
			t.Errorf("%v", spec.GetImage().GetName())
		}
	}
}
