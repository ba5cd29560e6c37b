package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/document"
)

// clientPair makes a certificate of a node that is its own authority, and writes the authority to a file.
func clientPair(t *testing.T, name, file string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// The certificate of a node lets it speak for that node, and for nobody else: not for other nodes, and not as a user.
// One of another authority does not open a connection.
func TestACertificateOfANodeIsNoUser(t *testing.T) {
	directory := t.TempDir()
	own := clientPair(t, "n1", filepath.Join(directory, "ca.crt"))
	foreign := clientPair(t, "n1", filepath.Join(directory, "foreign.crt"))
	s := alone(t, func(c *config.Scheduler) {
		c.TLS.SelfSigned, c.TLS.ClientCA = document.Some(true), document.Some(filepath.Join(directory, "ca.crt"))
	})
	giveToken(t, s, auth.Root)
	security := &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{own}} // the test knows the server
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: security}}
	defer client.CloseIdleConnections()
	for path, want := range map[string]int{
		"/api/v4/get?path=//sys": http.StatusUnauthorized, "/api/v4/list_operations": http.StatusUnauthorized, "/metrics": http.StatusUnauthorized,
		"/api/v4/get_version": http.StatusOK,
	} {
		response, err := client.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
	for _, test := range []struct {
		name   string
		pair   tls.Certificate
		node   string
		wanted func(error) bool
	}{
		{"its own name", own, "n1", func(err error) bool { return errors.As(err, new(*nodeproto.MustRegisterError)) }},
		{"another name", own, "n2", func(err error) bool {
			var refused *nodeproto.RefusedError
			return errors.As(err, &refused) && refused.Reason == nodev1.RefusalReason_REFUSAL_REASON_WRONG_NAME
		}},
		{"another authority", foreign, "n1", func(err error) bool { return err != nil && !errors.As(err, new(*nodeproto.MustRegisterError)) }},
	} {
		node, err := nodeproto.NewClient([]string{s.Address}, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{test.pair}}, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := node.Heartbeat(t.Context(), &nodev1.HeartbeatRequest{NodeName: test.node}); !test.wanted(err) {
			t.Errorf("%s: %v", test.name, err)
		}
		node.Close()
	}
}

// Profiles tell what is in memory. Nobody gets them unless the scheduler was told to serve them.
func TestProfilesAreServedOnlyIfConfigured(t *testing.T) {
	for _, served := range []bool{false, true} {
		s := alone(t, func(c *config.Scheduler) { c.Pprof = document.Some(served) })
		response, err := http.Get(s.URL + "/debug/pprof/goroutine?debug=1")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || strings.Contains(string(text), "goroutine profile") != served {
			t.Errorf("configured %v: %s, %v", served, response.Status, err)
		}
	}
}
