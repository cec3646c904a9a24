package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/cli"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/mariadb"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/redo"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/tso"
)

// redoLog makes a log with one DDL in a directory, and tells its URI.
func redoLog(t *testing.T, dir string, ids ...redo.ID) string {
	t.Helper()
	return redoLogOf(t, dir, []*event.DDL{{JobID: 5, SwitchTS: tso.New(1_700_000_001_000, 0), Query: "CREATE DATABASE d"}}, ids...)
}

// redoLogOf makes a log with DDLs.
func redoLogOf(t *testing.T, dir string, ddls []*event.DDL, ids ...redo.ID) string {
	t.Helper()
	uri := "file://" + dir
	b, err := objstore.Open(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	cfg := redo.Default()
	for _, id := range ids {
		if err := redo.Claim(t.Context(), cfg, b, id); err != nil {
			t.Fatal(err)
		}
		m, err := redo.OpenMeta(t.Context(), cfg, b, id, 1, tso.New(1_700_000_000_000, 0))
		if err != nil {
			t.Fatal(err)
		}
		w, err := redo.NewDDLWriter(cfg, b, id)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(t.Context(), ddls...); err != nil {
			t.Fatal(err)
		}
		if err := m.Advance(t.Context(), redo.Mark{Resolved: tso.New(1_700_000_002_000, 0), Extents: []record.Extent{w.Extent()}}); err != nil {
			t.Fatal(err)
		}
	}
	return uri
}

// typedIn runs one command.
func typedIn(t *testing.T, args ...string) (status int, out, complaint string) {
	t.Helper()
	var o, e bytes.Buffer
	env := cli.Env{In: bufio.NewReader(strings.NewReader("")), Out: &o, Err: &e, Getenv: func(string) string { return "" }, Now: time.Now, After: time.After}
	status = cli.Main(context.Background(), args, env)
	return status, o.String(), e.String()
}

func TestRedoCommands(t *testing.T) {
	one := redo.ID{Cluster: 7, Servers: "here", Namespace: "default", Changefeed: "orders", Incarnation: redo.Incarnation("2026/1", "")}
	two := redo.ID{Cluster: 7, Servers: "here", Namespace: "default", Changefeed: "other", Incarnation: "x"}
	dir := t.TempDir()
	uri := redoLog(t, filepath.Join(dir, "one"), one)
	if status, out, complaint := typedIn(t, "redo", "meta", "--storage", uri); status != 0 || out != "checkpoint-ts:445644800000000000, resolved-ts:445644800524288000, version:1\n" {
		t.Errorf("%d %s %s", status, out, complaint)
	}
	status, out, complaint := typedIn(t, "redo", "verify", "--storage", uri)
	if status != 0 || !strings.Contains(out, "The log is whole: 1 files") || !strings.Contains(out, "1 DDLs") || !strings.Contains(out, "445644800524288000") {
		t.Errorf("%d %s %s", status, out, complaint)
	}
	if status, out, complaint := typedIn(t, "redo", "inspect", "--storage", uri); status != 0 || !strings.Contains(out, "1 files are needed") || !strings.Contains(out, "default/orders") {
		t.Errorf("%d %s %s", status, out, complaint)
	}
	if status, out, complaint := typedIn(t, "redo", "apply", "--storage", uri, "--sink-uri", "blackhole://"); status != 0 || !strings.Contains(out, "Read 0 rows of 0 transactions and 1 DDLs, up to 445644800524288000") || !strings.Contains(out, "100 % of the log") || !strings.Contains(out, "about 0s to go") || !strings.Contains(out, "Nothing was applied") || strings.Contains(out, "snapshot") {
		t.Errorf("%d %s %s", status, out, complaint)
	}
	if status, _, complaint := typedIn(t, "redo", "apply", "--storage", uri, "--sink-uri", "blackhole://", "--cluster-id", "other"); status != cli.StatusTyped || !strings.Contains(complaint, `written by servers with cluster-id "here"`) {
		t.Errorf("%d %s", status, complaint)
	}
	both := redoLog(t, filepath.Join(dir, "two"), one, two)
	if status, out, complaint := typedIn(t, "redo", "meta", "--storage", both); status != cli.StatusTyped || !strings.Contains(complaint, "--changefeed-id other --incarnation x: checkpoint-ts 445644800000000000, resolved-ts 445644800524288000") {
		t.Errorf("two logs: %d %s %s", status, out, complaint)
	}
	status, out, complaint = typedIn(t, "redo", "verify", "-o", "json", "--storage", both, "-c", "other", "-n", "default")
	var text struct {
		Changefeed  string
		Recoverable tso.TS `json:"recoverable-ts"`
		DDLs        int
	}
	if err := json.Unmarshal([]byte(out), &text); err != nil || status != 0 || text.Changefeed != "default/other" || text.DDLs != 1 || text.Recoverable != 445644800524288000 {
		t.Errorf("%d %v %+v %s", status, err, text, complaint)
	}
}

// A file that is missing is named, with what it is about, and nothing is applied.
func TestRedoDamaged(t *testing.T) {
	id := redo.ID{Cluster: 7, Namespace: "default", Changefeed: "orders", Incarnation: "x"}
	uri := redoLog(t, t.TempDir(), id)
	b, err := objstore.Open(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	files, err := objstore.All(t.Context(), b, "default/orders/x/ddls/", "")
	if err != nil || len(files) != 1 {
		t.Fatalf("%v %v", files, err)
	}
	if err := b.Delete(t.Context(), files[0].Name); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"redo", "verify", "--storage", uri}, {"redo", "apply", "--storage", uri, "--sink-uri", "blackhole://"}} {
		status, out, complaint := typedIn(t, args...)
		if status != cli.StatusFailed || !strings.Contains(complaint, "445644800000000000 of resolved-ts 445644800524288000 can be recovered") || !strings.Contains(complaint, "files 1 to 1") || strings.Contains(out, "snapshot") {
			t.Errorf("%v: %d %s %s", args, status, out, complaint)
		}
	}
}

// A misspelt storage is said to be none, and none is made of it.
func TestRedoMakesNoStorage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "typo")
	for _, args := range [][]string{{"meta"}, {"inspect"}, {"verify"}, {"apply", "--sink-uri", "blackhole://"}} {
		status, _, complaint := typedIn(t, append(append([]string{"redo"}, args...), "--storage", "file://"+dir)...)
		if _, err := os.Stat(dir); !os.IsNotExist(err) || status != cli.StatusFailed || !strings.Contains(complaint, "ErrStorageGone") || !strings.Contains(complaint, dir) {
			t.Errorf("%v: %d %s, %v", args, status, complaint, err)
		}
	}
}

// What a log cannot make without the upstream is told by verify, and tables are left out
// by rules; neither calls the downstream a snapshot then.
func TestRedoInexact(t *testing.T) {
	id := redo.ID{Cluster: 7, Namespace: "default", Changefeed: "orders", Incarnation: "x"}
	table := func(id int64, name string) *event.Table { return &event.Table{ID: id, Schema: "d", Name: name} }
	uri := redoLogOf(t, t.TempDir(), []*event.DDL{
		{JobID: 5, SwitchTS: tso.New(1_700_000_001_000, 0), Action: event.ActionRecoverTable, Query: "RECOVER TABLE t", Tables: []event.TableChange{{After: table(1, "t")}}},
		{JobID: 6, SwitchTS: tso.New(1_700_000_001_000, 1), Action: event.ActionModifyColumn, Query: "ALTER TABLE u MODIFY c BIGINT",
			Tables: []event.TableChange{{Before: table(2, "u"), After: table(2, "u")}}, Conversions: []event.Conversion{{TableID: 2, Name: "c"}}},
	}, id)
	status, out, complaint := typedIn(t, "redo", "verify", "--storage", uri)
	if status != 0 || strings.Contains(out, "can be brought to the upstream's snapshot") || !strings.Contains(out, "d.t, by DDL job 5") || !strings.Contains(out, "redo apply has to leave the table out (--filter)") || !strings.Contains(out, "d.u, by DDL job 6") {
		t.Errorf("%d %s %s", status, out, complaint)
	}
	status, out, complaint = typedIn(t, "redo", "apply", "--storage", uri, "--sink-uri", "blackhole://", "--filter", "*.*", "--filter", "!d.t")
	if status != 0 || strings.Contains(out, "is the upstream's snapshot") || !strings.Contains(out, "and 1 DDLs") {
		t.Errorf("%d %s %s", status, out, complaint)
	}
	status, _, complaint = typedIn(t, "redo", "apply", "--storage", uri, "--sink-uri", "blackhole://", "--filter", "d")
	if status == 0 || !strings.Contains(complaint, "--filter: ") {
		t.Errorf("%d %s", status, complaint)
	}
}

// A downstream that the changefeed is not known to have written is not called a snapshot;
// what was applied is not applied again, and a filter that takes no table is nothing applied.
func TestRedoApplyTwice(t *testing.T) {
	server := mariadb.Start(t)
	id := redo.ID{Cluster: 7, Servers: "here", Namespace: "default", Changefeed: "orders", Incarnation: redo.Incarnation("2026/1", "")}
	uri := redoLogOf(t, t.TempDir(), []*event.DDL{{JobID: 5, Action: event.ActionCreateSchema, SwitchTS: tso.New(1_700_000_001_000, 0), Query: "CREATE DATABASE d", Schema: "d", DatabaseAfter: &event.Database{ID: 1, Name: "d"}}}, id)
	apply := func(more ...string) (int, string, string) {
		return typedIn(t, append([]string{"redo", "apply", "--storage", uri, "--sink-uri", server.URI()}, more...)...)
	}
	if status, out, complaint := apply("--filter", "e.*"); status != 0 || !strings.Contains(out, "of the tables that --filter e.* takes the log has nothing") || strings.Contains(out, "snapshot") {
		t.Errorf("%d %s %s", status, out, complaint)
	}
	if status, out, complaint := apply(); status != 0 || !strings.Contains(out, "Applied 0 rows of 0 transactions and 1 DDLs") || !strings.Contains(out, "not proven to be a snapshot: this downstream has no record") || strings.Contains(out, "is the upstream's snapshot") {
		t.Errorf("%d %s %s", status, out, complaint)
	}
	if status, out, complaint := apply(); status != 0 || !strings.Contains(out, "was applied to this downstream before") || !strings.Contains(out, "nothing was changed") || !strings.Contains(out, "not proven to be a snapshot then: this downstream has no record") || strings.Contains(out, "Applied ") {
		t.Errorf("%d %s %s", status, out, complaint)
	}
	if status, out, complaint := apply("--filter", "d.*"); status == 0 || !strings.Contains(complaint, "ErrRedoLogApplied") {
		t.Errorf("%d %s %s", status, out, complaint)
	}
	if status, out, complaint := apply("--force"); status != 0 || !strings.Contains(out, "Applied 0 rows") || !strings.Contains(out, "not proven to be a snapshot: [CDC:ErrRedoLogApplied]") {
		t.Errorf("%d %s %s", status, out, complaint)
	}
}
