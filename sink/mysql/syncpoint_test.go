package mysql

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/mariadb"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

func syncPoint(t *testing.T, s *Sink, ts tso.TS) {
	t.Helper()
	if err := s.SyncPoint(t.Context(), sink.Endless, event.SyncPoint{TS: ts}); err != nil {
		t.Fatal(err)
	}
}

// The row says after which of the downstream's own transactions it equals the
// upstream, and keeps saying so when it is asked for again.
func TestSyncPointNamesAMoment(t *testing.T) {
	server := mariadb.Start(t, mariadb.BinLog()...)
	db := server.DB()
	defer db.Close()
	cfg, err := ParseURI(server.URI())
	if err != nil {
		t.Fatal(err)
	}
	cfg.Cluster, cfg.Changefeed = "here", "feed"
	open := func() *Sink {
		s, err := Open(context.Background(), cfg, nil, testLog(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	s := open()
	secondary := func(ts tso.TS) (gtid string) {
		t.Helper()
		err := db.QueryRow("SELECT secondary_ts FROM tidb_cdc.syncpoint_v1 WHERE ticdc_cluster_id = 'here' AND changefeed = 'feed' AND primary_ts = ?", ts.String()).Scan(&gtid)
		if err != nil {
			t.Fatal(err)
		}
		return gtid
	}
	syncPoint(t, s, 100)
	first := secondary(100)
	mustExec(t, db, "CREATE DATABASE later")
	syncPoint(t, open(), 200)
	syncPoint(t, open(), 100)
	if second := secondary(200); first == "" || second == "" || first == second || secondary(100) != first {
		t.Errorf("100 at %q, 200 at %q, then 100 at %q", first, second, secondary(100))
	}

	// A crash before the moment was known: the row is as good as none.
	mustExec(t, db, "UPDATE tidb_cdc.syncpoint_v1 SET secondary_ts = '' WHERE primary_ts = '200'")
	syncPoint(t, s, 200)
	if secondary(200) == "" {
		t.Error("the moment of 200 is not known")
	}
}

// Rows of old sync points go, those of another changefeed stay.
func TestSyncPointsAreCleared(t *testing.T) {
	w := newWorld(t)
	w.sink.cfg.Changefeed, w.sink.cfg.SyncPointRetention = t.Name(), time.Hour
	syncPoint(t, w.sink, 100)
	mustExec(t, w.db, `INSERT INTO tidb_cdc.syncpoint_v1 VALUES ('default', '`+t.Name()+`', '50', '', NOW() - INTERVAL 2 HOUR),
		('default', 'another', '50', '', NOW() - INTERVAL 2 HOUR)`)
	syncPoint(t, w.sink, 200) // not yet: rows were looked for an hour ago at most
	w.sink.syncPoints.cleared = time.Now().Add(-2 * time.Hour)
	syncPoint(t, w.sink, 300)
	got := w.rows("SELECT changefeed, primary_ts FROM tidb_cdc.syncpoint_v1 WHERE changefeed IN ('" + t.Name() + "', 'another') ORDER BY 1, 2")
	if len(got) != 4 || got[3] != "another|50" {
		t.Errorf("%q", got)
	}
}

// A connection that is cut is made anew.
func TestSyncPointOverACutConnection(t *testing.T) {
	w := newWorld(t)
	syncPoint(t, w.sink, 100)
	conn, err := w.sink.session.use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var id int
	if err := conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		t.Fatal(err)
	}
	mustExec(t, w.db, fmt.Sprintf("KILL %d", id))
	syncPoint(t, w.sink, 200)
}
