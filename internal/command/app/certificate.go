package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// selfSignedFor is the validity of a generated certificate.
const selfSignedFor = 10 * 365 * 24 * time.Hour

// selfSign generates a key and a certificate for this machine unless they exist. Clients use the
// certificate as an authority.
func selfSign(certificate, key string) error {
	_, missing := os.Stat(certificate)
	if missing == nil {
		return nil
	}
	if !errors.Is(missing, os.ErrNotExist) {
		return missing
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: host, Organization: []string{"weir"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(selfSignedFor),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{host, "localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if addresses, err := net.InterfaceAddrs(); err == nil {
		for _, a := range addresses {
			if network, ok := a.(*net.IPNet); ok {
				template.IPAddresses = append(template.IPAddresses, network.IP)
			}
		}
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &secret.PublicKey, secret)
	if err != nil {
		return err
	}
	private, err := x509.MarshalECPrivateKey(secret)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(certificate), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}), 0o600); err != nil {
		return err
	}
	return os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o644)
}
