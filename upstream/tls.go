package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"

	pd "github.com/tikv/pd/client"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// config is what gRPC and HTTP use; nil where nothing is encrypted.
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
		if _, err := tls.LoadX509KeyPair(t.Cert, t.Key); err != nil {
			return nil, cdcerr.InvalidArgument.Wrap(err, "TLS.Cert and TLS.Key")
		}
		// Read at every handshake: certificates are rotated while we run.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
			if err != nil {
				return nil, fmt.Errorf("certificate %s: %w", t.Cert, err)
			}
			return &pair, nil
		}
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

// security is the same for the PD client, which reads files itself.
func (t TLS) security() pd.SecurityOption {
	return pd.SecurityOption{CAPath: t.CA, CertPath: t.Cert, KeyPath: t.Key}
}
