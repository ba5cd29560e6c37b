package app

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/weirhq/weir/internal/command/config"
)

// serverKeys holds the key and the certificates of a server. After they are read again, new
// connections use the new ones.
type serverKeys struct {
	certificate, key, clientCA string
	current                    atomic.Pointer[tls.Config]
}

// openServerKeys reads keys and certificates; nil means plain HTTP.
func openServerKeys(c *config.ServerTLS, directory string) (*serverKeys, error) {
	k := &serverKeys{certificate: c.Certificate.Value(), key: c.Key.Value(), clientCA: c.ClientCA.Value()}
	if k.certificate == "" && c.SelfSigned.Value() {
		k.certificate, k.key = filepath.Join(directory, "tls.crt"), filepath.Join(directory, "tls.key")
		if err := selfSign(k.certificate, k.key); err != nil {
			return nil, fmt.Errorf("self_signed: %w", err)
		}
	}
	if k.certificate == "" {
		return nil, nil
	}
	return k, k.read()
}

// read reads the files.
func (k *serverKeys) read() error {
	pair, err := tls.LoadX509KeyPair(k.certificate, k.key)
	if err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	// The protocols are those that the server adds to its own configuration.
	next := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if k.clientCA != "" {
		if next.ClientCAs, err = authorities("client_ca", k.clientCA); err != nil {
			return err
		}
		next.ClientAuth = tls.VerifyClientCertIfGiven
	}
	k.current.Store(next)
	return nil
}

// config returns a configuration that follows the files.
func (k *serverKeys) config() *tls.Config {
	if k == nil {
		return nil
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return k.current.Load(), nil },
	}
}

// authorities reads the certificates to trust.
func authorities(setting, file string) (*x509.CertPool, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s: %s has no certificates", setting, file)
	}
	return pool, nil
}

// nodeKeys reads the token and the certificates with which a node and its schedulers authenticate
// each other. Without TLS the configuration is nil.
func nodeKeys(c *config.Node) (security *tls.Config, token string, err error) {
	token = c.Token.Value()
	if file := c.TokenFile.Value(); file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, "", fmt.Errorf("token_file: %w", err)
		}
		if token = strings.TrimSpace(string(data)); token == "" || strings.ContainsAny(token, " \t\r\n") {
			return nil, "", fmt.Errorf("token_file: %s must hold one token and nothing else", file)
		}
	}
	if !c.TLS.Enabled.Value() && !c.TLS.CA.IsSet() {
		return nil, token, nil
	}
	security = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.TLS.ServerName.Value()}
	if file := c.TLS.CA.Value(); file != "" {
		if security.RootCAs, err = authorities("tls/ca", file); err != nil {
			return nil, "", err
		}
	}
	if c.TLS.Certificate.IsSet() {
		pair, err := tls.LoadX509KeyPair(c.TLS.Certificate.Value(), c.TLS.Key.Value())
		if err != nil {
			return nil, "", fmt.Errorf("tls: %w", err)
		}
		security.Certificates = []tls.Certificate{pair}
	}
	return security, token, nil
}
