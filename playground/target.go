package playground

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sink/downstream"
	"github.com/sluice-cdc/sluice/sink/mysql"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
	"github.com/sluice-cdc/sluice/upstream/fake/oracle"
	"github.com/sluice-cdc/sluice/verify"
)

// target is where recordings are replayed into.
type target interface {
	// claim makes sure that nobody's data stands in the databases that the run
	// will write, and makes room for it.
	claim(ctx context.Context, databases []string) error
	// open is the sink for one changefeed that starts with what was attached.
	open(ctx context.Context, a *attached) (sink.Sink, error)
	// end is the verdict on the contents.
	end(ctx context.Context, j *verify.Judge, o outcome) (*verify.Verdict, error)
	close(ctx context.Context) error
}

// openTarget reads a sink URI. An address that does not answer is an error now,
// before anything runs.
func openTarget(ctx context.Context, uri string, dropExisting bool, log *slog.Logger) (target, error) {
	if scheme, _, _ := strings.Cut(uri, "://"); mysql.Handles(scheme) {
		return openDatabase(ctx, uri, dropExisting, log)
	}
	s, err := downstream.Open(ctx, uri, downstream.Config{Log: log})
	if err != nil {
		return nil, err
	}
	return nothing{uri}, s.Close()
}

// nothing is a downstream that keeps nothing: the end is what the events add up to.
type nothing struct{ uri string }

func (nothing) claim(context.Context, []string) error { return nil }
func (nothing) close(context.Context) error           { return nil }

func (n nothing) open(ctx context.Context, _ *attached) (sink.Sink, error) {
	return downstream.Open(ctx, n.uri, downstream.Config{})
}

func (nothing) end(_ context.Context, j *verify.Judge, _ outcome) (*verify.Verdict, error) {
	return j.End(), nil
}

// database is a downstream that speaks MySQL's protocol.
type database struct {
	uri          string
	cfg          mysql.Config
	db           *sql.DB
	dropExisting bool
	ours         []string // filled by this command's run before
	touched      []string // filled or dropped by this command
	recording    bool     // there is room for the record
	recorded     map[tableName]bool
	locks        locks
	own          bool // the database in this process: nobody else's tables are in it
	log          *slog.Logger
}

func openDatabase(ctx context.Context, uri string, dropExisting bool, log *slog.Logger) (*database, error) {
	cfg, err := mysql.ParseURI(uri)
	if err != nil {
		return nil, err
	}
	db, err := mysql.OpenDB(cfg)
	if err != nil {
		return nil, err
	}
	ping, cancel := context.WithTimeout(ctx, cfg.DialTimeout)
	defer cancel()
	if err := db.PingContext(ping); err != nil {
		return nil, errors.Join(cdcerr.MySQLConnection.Wrap(err, "--sink-uri %s", cfg), db.Close())
	}
	return &database{uri: uri, cfg: cfg, db: db, dropExisting: dropExisting, recorded: map[tableName]bool{}, log: log}, nil
}

func (d *database) close(ctx context.Context) error {
	if !d.own {
		// What ended the run must not end its last note.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.cfg.DialTimeout)
		defer cancel()
		if err := d.remember(ctx); err != nil {
			d.log.Warn("the next run will ask for --drop-existing", "error", err)
		}
	}
	return errors.Join(d.locks.release(), d.db.Close())
}

// claim refuses databases that hold tables which the playground did not make.
func (d *database) claim(ctx context.Context, databases []string) error {
	if err := d.clear(ctx, databases, d.ours); err != nil {
		return err
	}
	d.ours = databases
	return nil
}

// clear makes room in databases that the run will write, and takes away what it
// wrote before. Nobody else's playground writes there from then on.
func (d *database) clear(ctx context.Context, databases, before []string) error {
	if err := d.makeRecord(ctx); err != nil {
		return err
	}
	if err := d.lock(ctx, databases); err != nil {
		return err
	}
	left, err := d.leftBefore(ctx)
	if err != nil {
		return err
	}
	found, err := d.clearable(ctx, databases, left)
	if err != nil {
		return err
	}
	for _, name := range slices.Concat(before, found) {
		if err := d.drop(ctx, name); err != nil {
			return err
		}
	}
	for _, name := range slices.Concat(before, databases) {
		if !slices.Contains(d.touched, name) {
			d.touched = append(d.touched, name)
		}
		if err := d.unrecord(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// clearable are those of databases that hold something downstream which the run
// may drop; it is an error where that is somebody else's, unless told otherwise.
func (d *database) clearable(ctx context.Context, databases []string, left map[string][]string) ([]string, error) {
	there, err := listing(ctx, d.db, "SELECT schema_name FROM information_schema.schemata")
	if err != nil {
		return nil, cdcerr.MySQLConnection.Wrap(err, "listing databases downstream")
	}
	var taken, drop []string
	for _, name := range databases {
		if !slices.Contains(there, name) || slices.Contains(d.ours, name) {
			continue
		}
		tables, err := d.tables(ctx, name)
		if err != nil {
			return nil, err
		}
		programs, err := d.programs(ctx, name)
		if err != nil {
			return nil, err
		}
		if len(tables)+len(programs) == 0 {
			continue
		}
		taken = append(taken, strangers(name, tables, left[name])...)
		taken = append(taken, strangers(name, programs, nil)...) // no recording makes any
		drop = append(drop, name)
	}
	if len(taken) > 0 && !d.dropExisting {
		return nil, cdcerr.InvalidArgument.New("downstream %s: this run writes where something stands that is not on the playground's record of its own (%s): %s; move it, or give --drop-existing to lose it",
			d.cfg, leftTable, few(taken))
	}
	return drop, nil
}

func (d *database) drop(ctx context.Context, name string) error {
	if _, err := d.db.ExecContext(ctx, "DROP DATABASE IF EXISTS "+quoted(name)); err != nil {
		return cdcerr.ExecDDLFailed.Wrap(err, "dropping %s downstream", name)
	}
	return nil
}

// open is the sink, over a downstream that has what stood upstream at the start.
func (d *database) open(ctx context.Context, a *attached) (sink.Sink, error) {
	s, err := d.sink(ctx, a.Snapshot(), a.recorded)
	if err != nil {
		return nil, err
	}
	guarded := guard{s, d}
	if err := a.CopyStart(ctx, guarded); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return guarded, nil
}

func (d *database) sink(ctx context.Context, rows mysql.Snapshot, recorded bool) (sink.Sink, error) {
	return downstream.Open(ctx, d.uri, downstream.Config{Snapshot: rows, NoVerify: recorded, Log: d.log})
}

// end reads the databases of the recording back.
func (d *database) end(ctx context.Context, j *verify.Judge, o outcome) (*verify.Verdict, error) {
	contents, err := ReadBack(ctx, d.db, o.databases, j.Table)
	if err != nil {
		return nil, err
	}
	return j.EndOf(contents), nil
}

// ReadBack reads databases downstream for a verdict, with what such a server cannot
// show as TiDB does. shape is what a table is upstream, nil for one that is not known.
func ReadBack(ctx context.Context, db *sql.DB, databases []string, shape func(schema, table string) *event.Table) (*verify.Contents, error) {
	contents, err := readBack(ctx, db, databases, shape)
	if err != nil {
		return nil, err
	}
	kind, err := kindOf(ctx, db)
	if err != nil {
		return nil, err
	}
	if kind != mysql.TiDB {
		contents.Shows = shownInLatin1
		contents.Lacks = map[event.Kind]string{event.TemporaryTable: mysql.FeatureTemporary}
		if kind != mysql.MariaDB {
			contents.Lacks[event.Sequence] = mysql.FeatureSequence
		}
	}
	return contents, nil
}

// Compare holds what stands downstream against what stood in a fake cluster's store at
// a moment, database by database. The contents are those that it read.
func Compare(ctx context.Context, db *sql.DB, store mvcc.Snapshot, at tso.TS, databases []string) (*verify.Verdict, *verify.Contents, error) {
	ours, err := filter.New(filter.Config{Rules: rulesOf(databases)})
	if err != nil {
		return nil, nil, err
	}
	want := &verify.Expected{}
	tables, err := oracle.Snapshot(store, at, ours, want)
	if err != nil {
		return nil, nil, err
	}
	j := verify.NewJudge(verify.Config{Databases: want.Databases, Tables: tables, Expected: want})
	contents, err := ReadBack(ctx, db, databases, j.Table)
	if err != nil {
		return nil, nil, err
	}
	return j.EndOf(contents), contents, nil
}

// rulesOf are the filter rules for all of some databases.
func rulesOf(databases []string) (rules []string) {
	for _, name := range databases {
		rules = append(rules, name+".*")
	}
	return rules
}

// kindOf asks a server what it is.
func kindOf(ctx context.Context, db *sql.DB) (mysql.Kind, error) {
	var version, comment string
	if err := db.QueryRowContext(ctx, "SELECT @@version, @@version_comment").Scan(&version, &comment); err != nil {
		return mysql.Other, cdcerr.MySQLConnection.Wrap(err, "asking for the version downstream")
	}
	return mysql.Detect(version, comment).Kind, nil
}

// fences tells whether the server can refuse the writes of a capture that was given up.
func (d *database) fences(ctx context.Context) (bool, error) {
	kind, err := kindOf(ctx, d.db)
	return kind != mysql.Other && !d.cfg.NoFence, err
}

// shownInLatin1: outside TiDB a latin1 column keeps the bytes of what is no text
// of latin1, and shows them as other characters.
func shownInLatin1(c *event.Column, want verify.Cell) (verify.Cell, string) {
	if c.Charset != "latin1" || want.Kind == verify.NullCell {
		return want, ""
	}
	value := []byte(want.Text)
	if want.Kind == verify.HexCell {
		value, _ = hex.DecodeString(want.Text) // the recording's own; what is no hex shows as nothing and differs
	}
	text, other := mysql.ShownInLatin1(value)
	if !other {
		return want, ""
	}
	return verify.Text(text), mysql.FeatureLatin1
}
