package upstream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// authority signs certificates for loopback, for one test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	dir  string
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.key = a.newKey()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.write("ca.pem", "CERTIFICATE", der)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *authority) write(name, kind string, der []byte) string {
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// issue makes a certificate and its key under name.
func (a *authority) issue(name string) (cert, key string) {
	k := a.newKey()
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &k.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write(name+".pem", "CERTIFICATE", der), a.write(name+"-key.pem", "EC PRIVATE KEY", keyDER)
}

// TestTLS speaks to PD by HTTP and gRPC and to TiKV, all of which ask for a certificate.
func TestTLS(t *testing.T) {
	a := newAuthority(t)
	pair, err := tls.LoadX509KeyPair(a.issue("server"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	p := startPuppet(t, &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool})
	cert, key := a.issue("sluice")
	cfg := p.config()
	cfg.TLS = TLS{CA: filepath.Join(a.dir, "ca.pem"), Cert: cert, Key: key, AllowedCN: []string{"other", "server"}}
	c := open(t, cfg)
	w := subscribe(t, c, Subscription{Span: keys("a", "z"), StartTS: 10}, nil)
	f := p.kv[1].feed(t)
	q := f.request()
	f.rows(q, initialized)
	f.resolved(20, q)
	w.until(20)

	for name, change := range map[string]func(*TLS){
		"no certificate":    func(s *TLS) { s.Cert, s.Key = "", "" },
		"other common name": func(s *TLS) { s.AllowedCN = []string{"other"} },
		"other authority":   func(s *TLS) { *s = TLS{CA: filepath.Join(newAuthority(t).dir, "ca.pem")} },
	} {
		bad := cfg
		bad.OpenTimeout = 200 * time.Millisecond
		change(&bad.TLS)
		if _, err := Open(t.Context(), bad); !cdcerr.PDUnreachable.Is(err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	bad := cfg
	bad.TLS.Key = filepath.Join(a.dir, "ca.pem")
	if _, err := Open(t.Context(), bad); !cdcerr.InvalidArgument.Is(err) {
		t.Errorf("got %v", err)
	}
}
