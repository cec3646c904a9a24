package fake

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Authority issues certificates for a cluster on loopback and for its clients.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// CertFiles are the paths of PEM files, as a client's configuration names them.
type CertFiles struct{ CA, Cert, Key string }

// clientName is the common name in certificates of clients.
const clientName = "sluice"

// validity is how long certificates hold: longer than any test or demo runs.
const validity = 7 * 24 * time.Hour

// NewAuthority makes an authority of its own.
func NewAuthority() (*Authority, error) {
	a := &Authority{}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	t := template("fake authority")
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, a.key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	return a, nil
}

// Pool is what a client trusts.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Server is the TLS of a cluster that lets in only clients of this authority.
func (a *Authority) Server() (*tls.Config, error) {
	der, key, err := a.issue("fake", x509.ExtKeyUsageServerAuth)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    a.Pool(),
		MinVersion:   tls.VersionTLS12,
	}, nil
}

// WriteClient writes ca.pem, client.pem and client-key.pem for a client.
func (a *Authority) WriteClient(dir string) (CertFiles, error) {
	return a.write(dir, x509.ExtKeyUsageClientAuth)
}

// WritePeer writes the same for who is a client and a server.
func (a *Authority) WritePeer(dir string) (CertFiles, error) {
	return a.write(dir, x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth)
}

func (a *Authority) write(dir string, use ...x509.ExtKeyUsage) (CertFiles, error) {
	der, key, err := a.issue(clientName, use...)
	if err != nil {
		return CertFiles{}, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return CertFiles{}, fmt.Errorf("client key: %w", err)
	}
	files := CertFiles{filepath.Join(dir, "ca.pem"), filepath.Join(dir, "client.pem"), filepath.Join(dir, "client-key.pem")}
	for _, f := range []struct {
		path, kind string
		der        []byte
	}{
		{files.CA, "CERTIFICATE", a.cert.Raw}, {files.Cert, "CERTIFICATE", der}, {files.Key, "PRIVATE KEY", keyDER},
	} {
		if err := os.WriteFile(f.path, pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der}), 0o600); err != nil {
			return CertFiles{}, fmt.Errorf("client certificate: %w", err)
		}
	}
	return files, nil
}

func (a *Authority) issue(name string, use ...x509.ExtKeyUsage) ([]byte, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate %s: %w", name, err)
	}
	t := template(name)
	t.ExtKeyUsage = use
	t.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	t.DNSNames = []string{"localhost"}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate %s: %w", name, err)
	}
	return der, key, nil
}

func template(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validity),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
}
