package servers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/chaos/origin"
	"github.com/sluice-cdc/sluice/internal/binlog"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
)

// Verdict is what a site came to.
type Verdict struct {
	Wrong      []string // what is not as it must be; empty: everything is equal
	Txns       int      // in the binary log
	SyncPoints int      // whose accounts were held against the upstream's
	Beats      int      // heartbeats in the binary log, none of them stale
	Back       int      // times that a checkpoint was told that was lower than the last
	BackMost   time.Duration
	DDLs       []Tally
}

// Tally is how often a kind of DDL was carried out.
type Tally struct {
	Kind             string
	Upstream, Binlog int
}

// wrongMax is how much is told of what is wrong.
const wrongMax = 40

func (v *Verdict) wrong(format string, args ...any) {
	if len(v.Wrong) < wrongMax {
		v.Wrong = append(v.Wrong, fmt.Sprintf(format, args...))
	}
}

// Judge reads what the downstream has committed, when nobody writes any more: end is
// where the upstream's load has ended, and everything up to it has to be there.
func (s *Site) Judge(ctx context.Context, end tso.TS) (*Verdict, error) {
	v := &Verdict{}
	differences, err := s.Upstream.Compare(origin.Downstream{Host: s.Down.Host, Port: s.Down.Port, At: end})
	if err != nil {
		return nil, err
	}
	for _, d := range differences {
		v.wrong("in the end: %s", d)
	}
	statements, err := s.Upstream.Statements()
	if err != nil {
		return nil, err
	}
	l := newLog(v)
	if err := l.upstream(statements); err != nil {
		return nil, err
	}
	if err := binlog.Read(ctx, s.Down, l.take); err != nil {
		return nil, err
	}
	l.ddl()
	at, err := l.moments()
	if err != nil {
		return nil, err
	}
	held, err := s.Upstream.Balances(at)
	if err != nil {
		return nil, err
	}
	l.syncPoints(held)
	told := s.Told.all()
	l.stale(told)
	l.fellBack(told)
	panics, err := s.panics()
	for _, p := range panics {
		v.wrong("a server said: %s", p)
	}
	return v, err
}

// log is the binary log as it is read.
type log struct {
	*Verdict
	fold      binlog.Fold
	want, got map[string][]binlog.Form // by database
	points    map[string]string        // primary ts to GTID, as the rows stand in the end
	held      map[string]origin.Accounts
	beats     []written
}

func newLog(v *Verdict) *log {
	l := &log{Verdict: v, want: map[string][]binlog.Form{}, got: map[string][]binlog.Form{}, points: map[string]string{}, held: map[string]origin.Accounts{}}
	l.fold.Wanted = func(schema, _ string) bool { return schema == workload.BankDB }
	return l
}

func (l *log) upstream(statements []origin.Statement) error {
	for _, s := range statements {
		all, err := binlog.Forms(s.DB, s.SQL)
		if err != nil {
			return err
		}
		for _, f := range all {
			l.want[f.Database] = append(l.want[f.Database], f)
		}
	}
	return nil
}

// take is told of one transaction.
func (l *log) take(t binlog.Txn) error {
	l.Txns++
	if t.Query != "" {
		l.statement(t)
	}
	if err := l.fold.Apply(t); err != nil {
		return err
	}
	for _, c := range t.Changes {
		switch {
		case c.Table == "syncpoint_v1":
			l.point(t.GTID, c)
		case c.Schema == origin.BeatDB:
			l.heartbeat(t, c)
		}
	}
	return nil
}

// twinPrefix begins the names of tables that the sink makes and drops by itself, to see
// what a statement would have made; that none stays is seen in the end's contents.
const twinPrefix = "_sluice_twin_"

func (l *log) statement(t binlog.Txn) {
	all, err := binlog.Forms(t.Schema, t.Query)
	if err != nil {
		for db := range l.want {
			if strings.Contains(t.Query, db) {
				l.wrong("in the binary log: %v", err)
			}
		}
		return
	}
	for _, f := range all {
		if _, ours := l.want[f.Database]; ours && !strings.HasPrefix(f.What, twinPrefix) {
			l.got[f.Database] = append(l.got[f.Database], f)
		}
	}
}

// point is a change of a sync point's row: the accounts at the transaction that
// brings it, and the GTID by which a reader finds that transaction.
func (l *log) point(gtid string, c binlog.Change) {
	text := func(row []any, name string) string { return fmt.Sprintf("%s", row[slices.Index(c.Columns, name)]) }
	if c.After == nil {
		delete(l.points, text(c.Before, "primary_ts"))
		return
	}
	l.points[text(c.After, "primary_ts")] = text(c.After, "secondary_ts")
	if c.Before == nil {
		balances := map[string]int64{}
		for _, table := range l.fold.Tables() {
			for id, row := range l.fold.Rows(table) {
				balances[id], _ = row["balance"].(int64)
			}
		}
		l.held[gtid] = origin.AccountsOf(balances)
	}
}

// moments are the primary ts of the sync points, in order.
func (l *log) moments() (at []tso.TS, err error) {
	for _, text := range slices.Sorted(maps.Keys(l.points)) {
		ts, err := tso.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("the ts of a sync point: %w", err)
		}
		at = append(at, ts)
	}
	return at, nil
}

// syncPoints holds the accounts at every sync point against what the upstream's
// held at those moments.
func (l *log) syncPoints(want []origin.Accounts) {
	all := slices.Sorted(maps.Keys(l.points))
	for i, text := range all {
		gtid := l.points[text]
		got, known := l.held[gtid]
		switch {
		case gtid == "" && i == len(all)-1:
			continue // its writer was stopped before it had come to that
		case gtid == "" || !known:
			l.wrong("sync point %s: no transaction with its row is %q", text, gtid)
		case got != want[i]:
			l.wrong("sync point %s at %s: %+v, upstream %+v", text, gtid, got, want[i])
		case got.Number > 0 && got.Sum != int64(got.Number)*workload.Opening:
			l.wrong("sync point %s at %s: %d accounts hold %d", text, gtid, got.Number, got.Sum)
		}
		l.SyncPoints++
	}
	if l.SyncPoints == 0 {
		l.wrong("there are no sync points")
	}
}

// order holds what was done to each table against the order in which that was
// done upstream. DDLs of two tables may overtake each other.
func (l *log) order(db string, want, got []binlog.Form) {
	of := func(all []binlog.Form) map[string][]binlog.Form {
		out := map[string][]binlog.Form{}
		for _, f := range all {
			for _, t := range f.Tables() {
				out[t] = append(out[t], f)
			}
		}
		return out
	}
	wanted, had := of(want), of(got)
	for _, table := range slices.Sorted(maps.Keys(wanted)) {
		for i, f := range wanted[table] {
			if g := had[table][i]; g != f {
				l.wrong("DDL %d of %s.%s: %v in the binary log, %v upstream", i, db, table, g, f)
				break
			}
		}
	}
}

// ddl holds the statements of each database against those that were carried out
// upstream.
func (l *log) ddl() {
	tally := map[string]*Tally{}
	of := func(kind string) *Tally {
		if tally[kind] == nil {
			tally[kind] = &Tally{Kind: kind}
		}
		return tally[kind]
	}
	if len(l.want) == 0 {
		l.wrong("there is no DDL: nothing was shown of it")
	}
	for _, db := range slices.Sorted(maps.Keys(l.want)) {
		want, got := l.want[db], l.got[db]
		more := map[binlog.Form]int{}
		for _, f := range want {
			of(f.Kind).Upstream++
			more[f]--
		}
		for _, f := range got {
			of(f.Kind).Binlog++
			more[f]++
		}
		differs := false
		for _, f := range append(slices.Clone(want), got...) {
			switch n := more[f]; {
			case n < 0:
				l.wrong("DDL lost: %v, %d times", f, -n)
			case n > 0:
				l.wrong("DDL run again: %v, %d times more than upstream", f, n)
			default:
				continue
			}
			more[f], differs = 0, true
		}
		if !differs {
			l.order(db, want, got)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(tally)) {
		l.DDLs = append(l.DDLs, *tally[kind])
	}
}
