package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// config is what a handshake uses now; nil where nothing is encrypted.
func (t TLS) config() (*tls.Config, error) {
	if t.CA == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(t.CA)
	if err != nil {
		return nil, cdcerr.InvalidArgument.Wrap(err, "TLS.CA")
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, cdcerr.InvalidArgument.New("TLS.CA %s: holds no certificate", t.CA)
	}
	cfg := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, cdcerr.InvalidArgument.Wrap(err, "TLS.Cert and TLS.Key")
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	if len(t.AllowedCN) > 0 {
		cfg.VerifyConnection = func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return errors.New("the server showed no certificate")
			}
			if cn := s.PeerCertificates[0].Subject.CommonName; !slices.Contains(t.AllowedCN, cn) {
				return fmt.Errorf("the server's common name %q is not among the allowed %q", cn, t.AllowedCN)
			}
			return nil
		}
	}
	return cfg, nil
}

var _ credentials.TransportCredentials = fileCredentials{}

// fileCredentials are gRPC's credentials with the files as they are at each
// handshake: certificates and their authorities are rotated while we run.
type fileCredentials struct{ tls TLS }

// ClientHandshake implements credentials.TransportCredentials.
func (f fileCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	cfg, err := f.tls.config()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(cfg).ClientHandshake(ctx, authority, raw)
}

// ServerHandshake implements credentials.TransportCredentials.
func (fileCredentials) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these are a client's credentials")
}

// Info implements credentials.TransportCredentials.
func (fileCredentials) Info() credentials.ProtocolInfo { return credentials.NewTLS(nil).Info() }

// Clone implements credentials.TransportCredentials.
func (f fileCredentials) Clone() credentials.TransportCredentials { return f }

// OverrideServerName implements credentials.TransportCredentials; names are those
// of the addresses.
func (fileCredentials) OverrideServerName(string) error {
	return errors.New("the server's name is that of its address")
}

// credentials are what gRPC connects with.
func (t TLS) credentials() credentials.TransportCredentials {
	if t.CA == "" {
		return insecure.NewCredentials()
	}
	return fileCredentials{t}
}

// dialPD reaches a PD for its client, which takes the connection for a plain one:
// left to itself it would read the authorities once and keep them, and would not
// look at names.
func (t TLS) dialPD(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", address)
	if err != nil || t.CA == "" {
		return raw, err
	}
	conn, _, err := fileCredentials{t}.ClientHandshake(ctx, address, raw)
	if err != nil {
		_ = raw.Close() // it fails for the handshake's reason
		return nil, err
	}
	return conn, nil
}
