package meta_test

import (
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

// With TLS nobody comes in who shows no certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	authority, err := fake.NewAuthority()
	must(t, err)
	files, err := authority.WritePeer(t.TempDir())
	must(t, err)
	cfg := embedded(t.TempDir())
	cfg.TLS = meta.TLS{CA: files.CA, Cert: files.Cert, Key: files.Key}
	s := open(t, cfg)
	ctx := t.Context()
	_, err = s.CreateChangefeed(ctx, meta.Fence{}, feed, info, at(1, 1))
	must(t, err)
	known := beside(t, s, func(c *meta.Config) { c.TLS = cfg.TLS })
	_, err = known.Changefeed(ctx, feed)
	must(t, err)

	stranger := meta.Default()
	stranger.Backend, stranger.Endpoints, stranger.RequestTimeout = meta.BackendExternal, s.Endpoints(), time.Second
	stranger.TLS = meta.TLS{CA: files.CA}
	_, err = meta.Open(ctx, stranger)
	refused(t, err, cdcerr.MetaUnreachable, s.Endpoints()[0])
}
