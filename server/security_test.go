package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority signs certificates for tests.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	n    int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir(), n: 1}
	a.key = a.newKey()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	a.must(err)
	a.cert, err = x509.ParseCertificate(der)
	a.must(err)
	a.write("ca.pem", "CERTIFICATE", der)
	return a
}

func (a *authority) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.must(err)
	return k
}

func (a *authority) write(name, kind string, der []byte) string {
	path := filepath.Join(a.dir, name)
	a.must(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

// issue is the Security of who has a certificate of that name in these files.
func (a *authority) issue(file, name string) Security {
	a.n++
	key := a.newKey()
	template := &x509.Certificate{SerialNumber: big.NewInt(a.n), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	a.must(err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	a.must(err)
	return Security{CA: filepath.Join(a.dir, "ca.pem"), Cert: a.write(file+".pem", "CERTIFICATE", der), Key: a.write(file+"-key.pem", "EC PRIVATE KEY", keyDER)}
}

// meet lets a client say a byte to a server, and tells what either thought of it.
func meet(t *testing.T, server, client Security) error {
	t.Helper()
	listening, err := server.Listener()
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", listening)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
			conn.Close()
		}
		done <- err
	}()
	calling, err := client.Client()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", l.Addr().String(), calling)
	if err == nil {
		_, err = io.WriteString(conn, "x")
		defer conn.Close()
	}
	if served := <-done; served != nil {
		return served
	}
	return err
}

func TestWhoMayCall(t *testing.T) {
	a := newAuthority(t)
	serve, good, bad := a.issue("server", "cdc"), a.issue("good", "operator"), a.issue("bad", "stranger")
	nobody := Security{CA: good.CA}
	if err := meet(t, serve, nobody); err != nil {
		t.Errorf("without mtls: %v", err)
	}
	serve.MTLS = true
	if err := meet(t, serve, nobody); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("with mtls and no certificate: %v", err)
	}
	if err := meet(t, serve, bad); err != nil {
		t.Errorf("with mtls and a certificate: %v", err)
	}
	serve.MTLS, serve.AllowedCN = false, []string{"operator"}
	if err := meet(t, serve, good); err != nil {
		t.Errorf("an allowed name: %v", err)
	}
	if err := meet(t, serve, bad); err == nil || !strings.Contains(err.Error(), `"stranger" is not in cert-allowed-cn`) {
		t.Errorf("another name: %v", err)
	}
	// A client looks at the server's name too, and at who signed it.
	good.AllowedCN = []string{"somebody"}
	if err := meet(t, serve, good); err == nil {
		t.Error("a server of another name was trusted")
	}
	if err := meet(t, newAuthority(t).issue("server", "cdc"), nobody); err == nil {
		t.Error("a server of another authority was trusted")
	}
}

// A certificate that is replaced is used from the next handshake on.
func TestRotatedCertificates(t *testing.T) {
	a := newAuthority(t)
	serve, client := a.issue("server", "old"), a.issue("client", "client")
	client.AllowedCN = []string{"new"}
	if err := meet(t, serve, client); err == nil {
		t.Fatal("the old name was taken for the new one")
	}
	a.issue("server", "new")
	if err := meet(t, serve, client); err != nil {
		t.Fatal(err)
	}
}
