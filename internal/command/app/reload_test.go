package app

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/test/expected"
)

// pairIn writes a new key with a certificate.
func pairIn(t *testing.T, certificate, key string) {
	t.Helper()
	for _, file := range []string{certificate, key} {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := selfSign(certificate, key); err != nil {
		t.Fatal(err)
	}
}

// alertOf returns the message of an alert, empty if it is not raised.
func alertOf(s *Scheduler, kind server.AlertKind) string {
	list := s.Server.Alerts()
	if i := slices.IndexFunc(list, func(a server.Alert) bool { return a.Kind == kind }); i >= 0 {
		return list[i].Message
	}
	return ""
}

func TestCertificatesAreReadAgain(t *testing.T) {
	directory := t.TempDir()
	certificate, key := filepath.Join(directory, "a.crt"), filepath.Join(directory, "a.key")
	pairIn(t, certificate, key)
	s := alone(t, func(c *config.Scheduler) {
		c.TLS.Certificate, c.TLS.Key = document.Some(certificate), document.Some(key)
	})
	shown := func() string {
		t.Helper()
		connection, err := tls.Dial("tcp", s.Address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) // the test compares it
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		state := connection.ConnectionState()
		if state.NegotiatedProtocol != "h2" {
			t.Errorf("the server speaks %q", state.NegotiatedProtocol)
		}
		return state.PeerCertificates[0].SerialNumber.String()
	}
	onDisk := func() string {
		t.Helper()
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return leaf.SerialNumber.String()
	}
	first := shown()
	pairIn(t, certificate, key)
	s.reload.look(false)
	second := shown()
	if second == first || second != onDisk() {
		t.Errorf("%s is shown after %s, on disk is %s", second, first, onDisk())
	}
	// The key of another pair does not match the certificate.
	pairIn(t, filepath.Join(directory, "b.crt"), key)
	s.Reload()
	if !expected.Soon(func() bool { return strings.Contains(alertOf(s, server.AlertFiles), "scheduler/tls") }) {
		t.Errorf("no alert: %v", s.Server.Alerts())
	}
	if got := shown(); got != second {
		t.Errorf("%s is shown, not %s", got, second)
	}
	pairIn(t, certificate, key)
	s.Reload()
	if !expected.Soon(func() bool { return alertOf(s, server.AlertFiles) == "" }) || shown() != onDisk() {
		t.Errorf("after it was repaired: %v", s.Server.Alerts())
	}
}

func TestATokenFileOfANodeIsReadAgain(t *testing.T) {
	s := alone(t, nil)
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(auth.NewToken([32]byte{9}).Reveal())
	right := giveToken(t, s, auth.Root)
	settings := config.Default()
	n := &settings.Node
	n.Schedulers, n.TokenFile = document.Some([]string{s.Address}), document.Some(file)
	reload := newReloader(newTestLog(t))
	client, err := nodeClient(n, reload)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	isKnown := func() bool {
		t.Helper()
		_, err := client.Heartbeat(t.Context(), &nodev1.HeartbeatRequest{NodeName: "n"})
		var refused *nodeproto.RefusedError
		if errors.As(err, &refused) && refused.Reason == nodev1.RefusalReason_REFUSAL_REASON_UNKNOWN_TOKEN {
			return false
		}
		var register *nodeproto.MustRegisterError
		if !errors.As(err, &register) {
			t.Fatal(err)
		}
		return true
	}
	if isKnown() {
		t.Error("a wrong token is accepted")
	}
	write(right + "\n")
	reload.look(true)
	if !isKnown() {
		t.Error("the new token is not used")
	}
	for _, bad := range []string{"", "two tokens"} {
		write(bad)
		reload.look(true)
		if !isKnown() || len(reload.problems()) != 1 {
			t.Errorf("after %q: %q", bad, reload.problems())
		}
	}
}

func TestTheConfigurationIsReadAgain(t *testing.T) {
	s := alone(t, nil)
	next := *s.running.Load()
	var wrong error
	s.OnReload(func() (*config.Scheduler, error) { c := next; return &c, wrong })
	next.Periods.Snapshot = document.Some(7 * time.Minute)
	s.reload.look(true)
	if got := s.Server.Settings().SnapshotPeriod; got != 7*time.Minute {
		t.Errorf("the period is %v", got)
	}
	for name, change := range map[string]func(){
		"a wrong file":                   func() { wrong = errors.New("weir.yaml:3: no") },
		"a setting that needs a restart": func() { wrong, next.DataDir = nil, document.Some("/elsewhere") },
	} {
		next.Periods.Snapshot = document.Some(9 * time.Minute)
		change()
		s.reload.look(true)
		if got := s.Server.Settings().SnapshotPeriod; got != 7*time.Minute || len(s.reload.problems()) != 1 {
			t.Errorf("%s: the period is %v, problems %q", name, got, s.reload.problems())
		}
	}
}
