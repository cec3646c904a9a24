package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// Encrypts tells whether the listener speaks TLS.
func (s Security) Encrypts() bool { return s.Cert != "" }

// Listener is the TLS of our listener, nil where nothing is encrypted. Files are
// read again at every handshake: certificates are rotated while we run.
func (s Security) Listener() (*tls.Config, error) {
	if !s.Encrypts() {
		return nil, nil
	}
	if _, err := s.listener(); err != nil {
		return nil, err // a file that cannot be used is told at the start
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.listener() },
	}, nil
}

func (s Security) listener() (*tls.Config, error) {
	cfg, err := s.files()
	if err != nil {
		return nil, err
	}
	cfg.NextProtos = []string{"h2", "http/1.1"}
	cfg.ClientCAs, cfg.RootCAs = cfg.RootCAs, nil
	if s.MTLS || len(s.AllowedCN) > 0 {
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
		cfg.VerifyConnection = s.checkName
	}
	return cfg, nil
}

// Client is the TLS with which other captures are called, nil where nothing is
// encrypted.
func (s Security) Client() (*tls.Config, error) {
	if s.CA == "" {
		return nil, nil
	}
	cfg, err := s.files()
	if err != nil {
		return nil, err
	}
	cfg.VerifyConnection = s.checkName
	return cfg, nil
}

// files reads the authority, and our own certificate where there is one.
func (s Security) files() (*tls.Config, error) {
	pem, err := os.ReadFile(s.CA)
	if err != nil {
		return nil, cdcerr.ServerConfigInvalid.Wrap(err, "ca-path")
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, cdcerr.ServerConfigInvalid.New("ca-path: %s holds no certificate", s.CA)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	if s.Cert != "" {
		pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
		if err != nil {
			return nil, cdcerr.ServerConfigInvalid.Wrap(err, "cert-path and key-path")
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// checkName lets in who has an allowed common name.
func (s Security) checkName(state tls.ConnectionState) error {
	if len(s.AllowedCN) == 0 {
		return nil
	}
	if len(state.PeerCertificates) == 0 {
		return errors.New("no certificate was shown, and cert-allowed-cn asks for one")
	}
	if cn := state.PeerCertificates[0].Subject.CommonName; !slices.Contains(s.AllowedCN, cn) {
		return fmt.Errorf("the common name %q is not in cert-allowed-cn %q", cn, s.AllowedCN)
	}
	return nil
}
