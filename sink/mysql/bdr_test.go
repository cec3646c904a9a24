package mysql

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/internal/mariadb"
)

// What is written to TiDB is marked. Where the downstream is replicated back that
// must not fail; elsewhere the user may not be allowed to.
func TestWritesAreMarked(t *testing.T) {
	for _, both := range []bool{false, true} {
		i := slices.IndexFunc(settings(Dialect{Kind: TiDB, Major: 8}, true, &Config{BDR: both}), func(s setting) bool { return strings.Contains(s.sql, "tidb_cdc_write_source = 1") })
		if i < 0 || settings(Dialect{Kind: TiDB, Major: 8}, true, &Config{BDR: both})[i].optional == both {
			t.Errorf("both ways %v: setting %d", both, i)
		}
	}
}

// A downstream that cannot mark what is written to it is refused in bdr-mode,
// whatever it calls itself, and at once.
func TestBothWaysNeedsTiDB(t *testing.T) {
	for version, code := range map[string]*cdcerr.Code{"": cdcerr.ConfigInvalid, "--version=8.0.11-TiDB-v8.5.1": cdcerr.MySQLConnection} {
		var options []string
		if version != "" {
			options = []string{version}
		}
		cfg, err := ParseURI(mariadb.Start(t, options...).URI())
		if err != nil {
			t.Fatal(err)
		}
		cfg.BDR = true
		s, err := Open(t.Context(), cfg, nil, slog.New(slog.DiscardHandler))
		if !code.Is(err) || version != "" && !strings.Contains(err.Error(), "tidb_cdc_write_source") {
			t.Errorf("%s: %v", version, err)
		}
		if err == nil {
			_ = s.Close()
		}
	}
}
