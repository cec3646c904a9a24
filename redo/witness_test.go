package redo_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/redo"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/redo/redotest"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

// What the downstream tells decides whether a log makes a snapshot of it: what is none is
// refused, or applied by force and not called one.
func TestADownstreamIsHeldAgainstTheLog(t *testing.T) {
	b := objstore.NewMemory()
	rec := largeTxn(10)
	inv := write(t, b, testConfig(), rec, 1)
	mine := testID.Incarnation
	done := &sink.JournalApplied{Log: mine, To: rec.End, Done: true}
	for name, tt := range map[string]struct {
		kept    *sink.Journal
		refused *cdcerr.Code // nil: it is applied
		says    string       // why it is no snapshot; empty: it is one
	}{
		"it is where the log is":                         {&sink.Journal{Log: mine, Passed: rec.End}, nil, ""},
		"nothing is known of it":                         {nil, nil, "keeps no record"},
		"it never was written":                           {&sink.Journal{}, nil, "has no record of the changefeed"},
		"it is above the newest meta":                    {&sink.Journal{Log: mine, Passed: rec.End + 1}, cdcerr.RedoBehind, "newer metas were removed"},
		"it was written without a log":                   {&sink.Journal{Passed: rec.End}, cdcerr.RedoOvertaken, "without a redo log"},
		"it was written by a log elsewhere":              {&sink.Journal{Log: "z", Storage: "s3://other", Passed: 9}, cdcerr.RedoOvertaken, "s3://other"},
		"another log was applied to it":                  {&sink.Journal{Log: mine, Passed: rec.End, Applied: &sink.JournalApplied{Log: "z"}}, cdcerr.RedoApplied, "another log"},
		"it was applied, and the log went on":            {&sink.Journal{Log: mine, Passed: rec.Start, Applied: &sink.JournalApplied{Log: mine, To: rec.Start, Done: true}}, cdcerr.RedoApplied, "was applied"},
		"it was applied in part":                         {&sink.Journal{Log: mine, Passed: rec.End, Applied: &sink.JournalApplied{Log: mine, To: rec.End, Part: "--filter a.b", Done: true}}, cdcerr.RedoApplied, "--filter a.b"},
		"an apply of it was cut off":                     {&sink.Journal{Log: mine, Passed: rec.End, Applied: &sink.JournalApplied{Log: mine, To: rec.Start}}, nil, ""},
		"a part of it was cut off":                       {&sink.Journal{Log: mine, Passed: rec.End, Applied: &sink.JournalApplied{Log: mine, To: rec.End, Part: "--filter a.b"}}, cdcerr.RedoApplied, "--filter a.b"},
		"an apply was cut off, and it never was written": {&sink.Journal{Applied: &sink.JournalApplied{Log: mine, To: rec.End}}, nil, "has no record of the changefeed"},
		"it was applied":                                 {&sink.Journal{Log: mine, Passed: rec.End, Applied: done}, nil, ""},
		"it was applied, and written without it":         {&sink.Journal{Passed: rec.End + 1}, cdcerr.RedoOvertaken, "without a redo log"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, force := range []bool{false, true} {
				got := &notes{}
				if tt.kept != nil {
					kept := *tt.kept
					got.kept = &kept
				}
				if tt.kept != nil && *tt.kept == (sink.Journal{}) {
					got.blank = true
				}
				how := redo.DefaultApply(inv)
				how.Force = force
				applied, err := redo.Apply(t.Context(), b, inv, how, got, sink.Endless)
				if tt.refused != nil && !force {
					if cdcerr.Of(err) != tt.refused || !strings.Contains(err.Error(), tt.says) || len(got.txns) > 0 || got.kept.Applied != tt.kept.Applied {
						t.Errorf("%v; %d transactions were applied", err, len(got.txns))
					}
					continue
				}
				must(t, err)
				before := tt.kept != nil && tt.kept.Applied == done
				if force && before {
					tt.says = "was applied"
				}
				if why := strings.Join(applied.Unproven, "; "); applied.Snapshot() != (tt.says == "") || !strings.Contains(why, tt.says) {
					t.Errorf("force %v: %q", force, why)
				}
				if nothing := before && !force; applied.Before != nothing || (len(got.txns) == 0) != nothing {
					t.Errorf("force %v: before %v, %d transactions", force, applied.Before, len(got.txns))
				}
				if (got.noted == rec.End) != (applied.Snapshot() && !applied.Before) {
					t.Errorf("force %v: the sync point %d is noted", force, got.noted)
				}
				if a := got.kept; a != nil && (a.Applied == nil || a.Applied.Log != mine || a.Applied.To != rec.End || !a.Applied.Done) {
					t.Errorf("force %v: noted is %+v", force, a.Applied)
				}
			}
		})
	}
}

// A log that another one in the same storage has followed tells by itself whether that did
// harm: until it let something through it did none.
func TestALaterLogThatLetNothingThroughIsNoHarm(t *testing.T) {
	b := objstore.NewMemory()
	rec := largeTxn(10)
	inv := write(t, b, testConfig(), rec, 1)
	later := testID
	later.Incarnation = "z"
	cfg := testConfig()
	_, err := redo.OpenMeta(t.Context(), cfg, b, later, 2, rec.Start)
	must(t, err)
	got := &notes{kept: &sink.Journal{Log: later.Incarnation, Storage: b.String(), Passed: rec.Start}}
	done, err := redo.Apply(t.Context(), b, inv, redo.DefaultApply(inv), got, sink.Endless)
	if err != nil || !done.Snapshot() || len(got.txns) == 0 {
		t.Errorf("%+v, %v", done, err)
	}
}

// Where the log cannot be read on, what was read before is downstream, and the error says up
// to where; so it does where the sink fails.
func TestAnErrorSaysWhereTheDownstreamIs(t *testing.T) {
	rec := largeTxn(3000)
	for i, c := range rec.Changes {
		c.Raw.CommitTS, c.Raw.StartTS = start+2*tso.TS(i)+2, start+2*tso.TS(i)+1
	}
	rec.End = start + 7000
	cfg := testConfig()
	cfg.MaxLogBytes, cfg.Codec = 1<<20, record.Plain
	b := objstore.NewMemory()
	inv := write(t, b, cfg, rec, 1)
	f := inv.Files[1]
	must(t, flip(b, f))
	got := newNotes(inv)
	how := redo.DefaultApply(inv)
	var last redo.Progress
	how.Progress = func(p redo.Progress) { last = p }
	applied, err := redo.Apply(t.Context(), b, inv, how, got, sink.Endless)
	if !cdcerr.RedoCorrupted.Is(err) || !strings.Contains(err.Error(), "it has everything up to "+applied.TS.String()) || !strings.Contains(err.Error(), "no snapshot now") {
		t.Fatal(err)
	}
	if reached := got.txns[len(got.txns)-1].CommitTS; applied.TS != reached.Prev() || applied.TS <= inv.Files[0].Min || !got.flushed {
		t.Errorf("it is said to be at %d, and is at %d", applied.TS, reached)
	}
	if last.TS != applied.TS || last.Bytes >= inv.Files[0].Size+inv.Files[1].Size || last.All != inv.Bytes() {
		t.Errorf("told is %+v", last)
	}
	if a := got.kept.Applied; a == nil || a.Done {
		t.Errorf("noted is %+v", a)
	}
	must(t, flip(b, f)) // as it was
	got = newNotes(inv)
	got.dead = errors.New("gone")
	if _, err := redo.Apply(t.Context(), b, inv, how, got, sink.Endless); !errors.Is(err, got.dead) || !strings.Contains(err.Error(), "it has everything up to "+inv.Meta.Checkpoint.String()) {
		t.Error(err)
	}
}

// A downstream whose own record ends long before the checkpoint is not the one that the
// changefeed wrote last.
func TestACopyOfTheDownstreamIsNotCalledASnapshot(t *testing.T) {
	b := objstore.NewMemory()
	inv := write(t, b, testConfig(), largeTxn(10), 1)
	how, got := redo.DefaultApply(inv), newNotes(inv)
	inv.Meta.Checkpoint, inv.Meta.Resolved = tso.New(3_600_000, 0), tso.New(3_600_000, 0)
	done, err := redo.Apply(t.Context(), b, inv, how, got, sink.Endless)
	if why := strings.Join(done.Unproven, "; "); err != nil || done.Snapshot() || !strings.Contains(why, "may be a copy") {
		t.Errorf("%v, %q", err, why)
	}
}

// What one apply knows to be inexact those that follow it do not forget, whether it was cut
// off or came to its end: its DDLs are done when the next one looks.
func TestAnApplyThatIsRunAgainKnowsWhatWasInexact(t *testing.T) {
	table := &event.Table{ID: 1, Schema: "d", Name: "a"}
	convert := &event.DDL{JobID: 1, SwitchTS: 110, Action: event.ActionModifyColumn, Query: "1", Tables: []event.TableChange{{Before: table, After: table}}}
	b := objstore.NewMemory()
	inv := write(t, b, testConfig(), &redotest.Recording{Start: 100, End: 200, DDLs: []*event.DDL{convert}}, 1)
	for name, tt := range map[string]struct {
		cut   bool
		kept  *sink.Journal
		force bool
		why   string
	}{
		"cut off after a DDL that converts":           {true, newNotes(inv).kept, false, "d.a, by DDL job 1 at 110: b is converted"},
		"ended with a DDL that converts":              {false, newNotes(inv).kept, false, "d.a, by DDL job 1 at 110: b is converted"},
		"cut off where the changefeed never wrote":    {true, &sink.Journal{}, false, "has no record of the changefeed"},
		"ended where the changefeed never wrote":      {false, &sink.Journal{}, false, "has no record of the changefeed"},
		"cut off after what was applied was forced":   {true, &sink.Journal{Log: inv.ID.Incarnation, Passed: 100, Applied: &sink.JournalApplied{Log: "z", Done: true}}, true, "was applied to this downstream"},
		"ended where newer metas were gone, by force": {false, &sink.Journal{Log: inv.ID.Incarnation, Passed: 201}, true, "newer metas were removed"},
	} {
		t.Run(name, func(t *testing.T) {
			got := &seer{notes: notes{kept: tt.kept}}
			how := redo.DefaultApply(inv)
			how.Force = tt.force
			cut := errors.New("killed")
			if got.after = nil; tt.cut {
				got.after = cut
			}
			first, err := redo.Apply(t.Context(), b, inv, how, got, sink.Endless)
			if tt.cut != errors.Is(err, cut) || first.Snapshot() {
				t.Fatalf("%+v, %v", first, err)
			}
			how.Force = false
			for range 2 {
				got.after = nil
				again, err := redo.Apply(t.Context(), b, inv, how, got, sink.Endless)
				if err != nil || again.Snapshot() || strings.Count(strings.Join(again.Unproven, "; "), tt.why) != 1 || got.noted != 0 {
					t.Errorf("%+v, %v; the sync point %d is noted", again, err, got.noted)
				}
			}
		})
	}
}

// What is noted has a bound, and what is beyond it is counted.
func TestWhatIsInexactIsNotedWithinBounds(t *testing.T) {
	rec := &redotest.Recording{Start: 100, End: 2000}
	for i := range 350 {
		table := &event.Table{ID: int64(i + 1), Schema: "d", Name: strconv.Itoa(i) + strings.Repeat("é", 600)}
		rec.DDLs = append(rec.DDLs, &event.DDL{JobID: int64(i + 1), SwitchTS: tso.TS(200 + i), Action: event.ActionModifyColumn, Query: "1", Tables: []event.TableChange{{Before: table, After: table}}})
	}
	b := objstore.NewMemory()
	inv := write(t, b, testConfig(), rec, 1)
	got := &seer{notes: *newNotes(inv)}
	first, err := redo.Apply(t.Context(), b, inv, redo.DefaultApply(inv), got, sink.Endless)
	must(t, err)
	a := got.kept.Applied
	if len(first.Doubts) != 350 || len(a.Inexact) != 300 || a.More != 50 || len(a.Inexact[0]) > 1<<10 || !utf8.ValidString(a.Inexact[0]) {
		t.Errorf("%d doubts, %d and %d more noted", len(first.Doubts), len(a.Inexact), a.More)
	}
	again, err := redo.Apply(t.Context(), b, inv, redo.DefaultApply(inv), got, sink.Endless)
	if n := len(again.Unproven); err != nil || n != 301 || !strings.Contains(again.Unproven[n-1], "50 more") {
		t.Errorf("%d, %v", n, err)
	}
}

// A log that followed in the same storage does not tell what it has let through where its
// newest metas were removed.
func TestALaterLogThatHasLostItsMetasIsNotBelieved(t *testing.T) {
	b := objstore.NewMemory()
	rec := largeTxn(10)
	inv := write(t, b, testConfig(), rec, 1)
	later := testID
	later.Incarnation = "z"
	_, err := redo.OpenMeta(t.Context(), testConfig(), b, later, 2, rec.Start)
	must(t, err)
	got := &notes{kept: &sink.Journal{Log: later.Incarnation, Storage: b.String(), Passed: rec.Start + 1}}
	_, err = redo.Apply(t.Context(), b, inv, redo.DefaultApply(inv), got, sink.Endless)
	if !cdcerr.RedoOvertaken.Is(err) || !strings.Contains(err.Error(), "newer metas of it were removed") || len(got.txns) > 0 {
		t.Error(err)
	}
}

// A part of which the log has nothing changes nothing, and is not noted as applied: what was
// meant may be.
func TestAPartThatTakesNothingChangesNothing(t *testing.T) {
	b := objstore.NewMemory()
	inv := write(t, b, testConfig(), largeTxn(10), 1)
	got, how := newNotes(inv), redo.DefaultApply(inv)
	how.Part = redo.Part{Name: "--filter e.*", Rows: func(*event.Table) bool { return false }, DDL: func(*event.DDL) (*event.DDL, error) { return nil, nil }}
	done, err := redo.Apply(t.Context(), b, inv, how, got, sink.Endless)
	if err != nil || !done.Nothing || got.kept.Applied != nil || got.noted != 0 || done.TS != how.Merge.To {
		t.Fatalf("%+v, %v; noted is %+v", done, err, got.kept.Applied)
	}
	how.Part = redo.Part{}
	if done, err := redo.Apply(t.Context(), b, inv, how, got, sink.Endless); err != nil || done.Nothing || !done.Snapshot() || got.kept.Applied == nil {
		t.Errorf("%+v, %v", done, err)
	}
}
