package mysql

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/internal/mariadb"
)

// certify writes the files of an authority of its own, and of a server and a client
// that it has signed, in place of those that are there.
func certify(t *testing.T, dir string) {
	t.Helper()
	save := func(name, kind string, der []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var authority *x509.Certificate
	var authorityKey *ecdsa.PrivateKey
	for n, name := range []string{"ca", "server", "client"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		c := &x509.Certificate{
			SerialNumber: big.NewInt(int64(n + 1)), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			IsCA: n == 0, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		if n == 0 {
			authority, authorityKey = c, key
		}
		der, err := x509.CreateCertificate(rand.Reader, c, authority, &key.PublicKey, authorityKey)
		if err != nil {
			t.Fatal(err)
		}
		save(name+".pem", "CERTIFICATE", der)
		if der, err = x509.MarshalPKCS8PrivateKey(key); err != nil {
			t.Fatal(err)
		}
		save(name+".key", "PRIVATE KEY", der)
	}
}

// Authority and certificates are exchanged while a changefeed runs: the next
// connection is made with what stands in the files by then.
func TestRotatedCertificates(t *testing.T) {
	dir := t.TempDir()
	certify(t, dir)
	at := func(name string) string { return filepath.Join(dir, name) }
	own := mariadb.Start(t, "--ssl-ca="+at("ca.pem"), "--ssl-cert="+at("server.pem"), "--ssl-key="+at("server.key"))
	w := &world{T: t, db: own.DB(), ts: 1 << 60, schema: "rotated"}
	defer w.db.Close()
	mustExec(t, w.db, "create database rotated")
	mustExec(t, w.db, "create user careful@'%' require x509")
	mustExec(t, w.db, "grant all on *.* to careful@'%'")
	uri := strings.Replace(own.URI(), "root", "careful", 1) + "?worker-count=1&ssl-ca=" + at("ca.pem") + "&ssl-cert=" + at("client.pem") + "&ssl-key=" + at("client.key")
	w.sink = openURI(t, uri)
	tab := w.create("create table t (id int primary key)")
	w.insert(tab, cells("1"))

	certify(t, dir)
	mustExec(t, w.db, "flush ssl")
	for _, id := range column(t, w.db, "select id from information_schema.processlist where user = 'careful'") {
		mustExec(t, w.db, "kill "+id)
	}
	w.insert(tab, cells("2"))
	w.want("select id from t", "1", "2")

	// A server that another authority speaks for is not spoken to.
	other := t.TempDir()
	certify(t, other)
	cfg, err := ParseURI(strings.ReplaceAll(uri, "ssl-ca="+at("ca.pem"), "ssl-ca="+filepath.Join(other, "ca.pem")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), cfg, nil, testLog(t)); !cdcerr.MySQLConnection.Is(err) || !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
}
