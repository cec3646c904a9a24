package chaos

import (
	"fmt"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/oracle"
	"github.com/sluice-cdc/sluice/verify"
)

// Verdict is what a run came to.
type Verdict struct {
	Wrong     []string // what is not as it must be; empty: everything is equal
	Lives     int      // of the changefeed: each begins at a checkpoint
	Rows      int      // delivered by all lives
	Repeated  int      // of these, again
	DDLs      int
	EndListed int // cells at the end that no event carries

	whole *verify.Judge // of all lives
}

// wrongMax is how much is told of what is wrong.
const wrongMax = 20

func (v *Verdict) wrong(format string, args ...any) {
	if len(v.Wrong) < wrongMax {
		v.Wrong = append(v.Wrong, fmt.Sprintf(format, args...))
	}
}

func (v *Verdict) take(of string, j *verify.Verdict) {
	for _, d := range j.First[:min(len(j.First), 3)] {
		v.wrong("%s: %v", of, d)
	}
	if j.Differences > 3 {
		v.wrong("%s: %d differences in all", of, j.Differences)
	}
}

// judge reads what was delivered. Everything at or below end had to come; contents
// is the verdict on what it came to.
func judge(s subject, files []string, end tso.TS, contents func(*verify.Judge, []string) (*verify.Verdict, error)) (*Verdict, error) {
	want, err := s.expect(end)
	if err != nil {
		return nil, err
	}
	v := &Verdict{}
	seen := map[string]bool{}
	var reached tso.TS // by all lives so far
	for n, file := range files {
		l := &life{verdict: v, want: want, oracle: s.oracle(), seen: seen, reached: reached}
		// How far it came is asked first: by that its rows are judged.
		err := readJournal(file, reader{
			begin: func(b *beginning) { l.end = max(b.Checkpoint, b.StartTS.Prev()) },
			txn:   func(*event.Txn) {}, ddl: func(*event.DDL) {},
			checkpoint: func(ts tso.TS) { l.end = ts },
		})
		if err == nil {
			err = readJournal(file, reader{begin: l.begin, txn: l.txn, ddl: l.ddl, checkpoint: l.moved})
		}
		if err != nil {
			return nil, err
		}
		if l.own == nil {
			continue // it died before it had written a word
		}
		v.Lives++
		reached = max(reached, l.end)
		v.take(fmt.Sprintf("life %d", n), l.own.Rows())
	}
	if v.whole == nil {
		v.wrong("nothing was delivered")
		return v, nil
	}
	if reached < end {
		v.wrong("delivered up to %d, the end is %d", reached, end)
	}
	if s.oracle() != nil {
		v.take("meant", s.oracle().Verdict(end))
	}
	v.take("all lives", v.whole.Rows())
	last, err := contents(v.whole, want.Expected.Databases)
	if err != nil {
		return nil, err
	}
	v.EndListed = last.Listed
	v.take("end", last)
	return v, nil
}

// life is one life of the changefeed, as its journal tells it.
type life struct {
	verdict *Verdict
	want    verify.Config
	oracle  *oracle.Oracle
	seen    map[string]bool
	reached tso.TS // by the lives before
	end     tso.TS // its last checkpoint

	own *verify.Judge // of this life; nil before it has begun
}

func (l *life) begin(b *beginning) {
	at := max(b.Checkpoint, b.StartTS.Prev())
	if at > l.reached && l.reached != 0 {
		l.verdict.wrong("a life begins at %d, those before have delivered up to %d", at, l.reached)
	}
	c := l.want
	c.StartTS, c.Databases, c.Tables = b.StartTS, b.Databases, b.Tables
	if l.verdict.whole == nil {
		if b.Checkpoint != 0 {
			l.verdict.wrong("the first life begins at checkpoint %d", b.Checkpoint)
		}
		l.verdict.whole = verify.NewJudge(c)
	}
	// What a life that goes on was not given it cannot have: no contents are asked of it.
	c.StartTS = max(b.Checkpoint, b.StartTS)
	c.Expected = &verify.Expected{EndTS: l.end}
	l.own = verify.NewJudge(c)
}

func (l *life) txn(t *event.Txn) {
	l.own.Txn(t)
	l.verdict.whole.Txn(t)
	if l.oracle != nil {
		l.oracle.Txn(t)
	}
	for _, r := range t.Rows {
		l.verdict.Rows++
		id := fmt.Sprintf("%d-%d-%s", r.CommitTS, r.StartTS, r.Key)
		if l.seen[id] {
			l.verdict.Repeated++
		}
		l.seen[id] = true
	}
}

func (l *life) ddl(d *event.DDL) {
	l.verdict.DDLs++
	l.own.DDL(d)
	l.verdict.whole.DDL(d)
	if l.oracle != nil {
		l.oracle.DDL(d.JobID)
	}
}

func (l *life) moved(ts tso.TS) {
	l.own.Checkpoint(ts)
	if ts > l.reached {
		l.verdict.whole.Checkpoint(ts)
	}
	if l.oracle != nil {
		l.oracle.Checkpoint(ts)
	}
}
