package playground

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/internal/mariadb"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

// copied attaches to a cluster that has replayed a recording, at a ts and with
// filter rules, and copies what stood there into the database.
func copied(t *testing.T, name string, start tso.TS, rules []string, server *mariadb.Server) {
	t.Helper()
	recording, err := fake.LoadRecording(golden + "/" + name + ".jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := fake.Start(fake.Config{Recording: recording})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	services, ctx := errgroup.WithContext(ctx)
	services.Go(func() error { return cluster.Run(ctx) })
	var a attached
	defer func() {
		stop()
		if err := services.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := a.close(); err != nil {
			t.Error(err)
		}
	}()
	<-cluster.Replayed()
	cfg := upstream.Default()
	cfg.PD = cluster.PD()
	feed := changefeed(slog.New(slog.DiscardHandler))
	feed.StartTS, feed.Filter.Rules = start, rules
	if err := a.attach(ctx, services, cfg, feed); err != nil {
		t.Fatal(err)
	}
	target, err := openTarget(ctx, server.URI(), false, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := target.claim(ctx, a.names()); err != nil {
		t.Error(err)
	}
	s, err := target.open(ctx, &a)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), target.close(ctx)); err != nil {
		t.Error(err)
	}
}

// The stream brings what was committed after the start, so the copy has to hold
// what was committed at the start.
func TestTheCopyHoldsTheRowsOfTheStart(t *testing.T) {
	s, err := readFile(t.Context(), golden+"/09_conflict.jsonl.gz", readStream)
	if err != nil {
		t.Fatal(err)
	}
	var last tso.TS
	for _, kv := range s.rows {
		if id, _, ok := mount.ParseRecordKey(kv.Key); ok && strings.HasSuffix(string(kv.Value), "\x09\x03") && id > 0 { // 777, little-endian
			last = kv.CommitTS
		}
	}
	if last == 0 {
		t.Fatal("nothing writes 777")
	}
	server := mariadb.Start(t)
	copied(t, "09_conflict", last, nil, server)
	db := server.DB()
	defer db.Close()
	var v int
	if err := db.QueryRow("SELECT v FROM test.c1 WHERE id = 1").Scan(&v); err != nil || v != 777 {
		t.Errorf("v = %d, %v", v, err)
	}
}

// Databases that the filter does not want are not made.
func TestTheCopyHoldsWantedDatabasesOnly(t *testing.T) {
	server := mariadb.Start(t)
	copied(t, "12_ddl_table", 0, []string{"db*.*"}, server)
	db := server.DB()
	defer db.Close()
	names, err := listing(t.Context(), db, "SELECT schema_name FROM information_schema.schemata")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(names, "db1") || slices.Contains(names, "test") || slices.Contains(names, "we`ird-db 中") {
		t.Error(names)
	}
}
