package region

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/golden"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// entryOf is a line as a store would send it.
func entryOf(l golden.Line) Entry {
	e := Entry{Type: entryTypes[strings.ToLower(l.Type)], StartTS: l.StartTS, CommitTS: l.CommitTS, Key: l.Key, Value: l.Value, Old: l.Old}
	switch l.Op {
	case "PUT":
		e.Op = OpPut
	case "DELETE":
		e.Op = OpDelete
	}
	return e
}

// change names one committed change.
type change struct {
	key           string
	start, commit tso.TS
}

// oracle pairs prewrites and commits with hindsight: it sees the whole stream,
// so it needs no rule about what comes before INITIALIZED.
type oracle struct {
	start     tso.TS
	prewrites map[change]Entry
	commits   []Entry
}

func (o *oracle) take(e Entry) {
	k := change{key: string(e.Key), start: e.StartTS}
	switch e.Type {
	case Prewrite:
		if kept, ok := o.prewrites[k]; !ok || len(kept.Value) == 0 {
			o.prewrites[k] = e
		}
	case Commit, Committed:
		o.commits = append(o.commits, e)
	}
}

func (o *oracle) changes(t *testing.T) map[change]event.RawKV {
	out := map[change]event.RawKV{}
	var lone []change
	for _, e := range o.commits {
		k := change{key: string(e.Key), start: e.StartTS, commit: e.CommitTS}
		p := e
		if e.Type == Commit {
			var ok bool
			if p, ok = o.prewrites[change{key: k.key, start: k.start}]; !ok {
				lone = append(lone, k) // the scan delivers it as COMMITTED
				continue
			}
		}
		if e.CommitTS <= o.start {
			continue
		}
		row := event.RawKV{Op: event.Put, StartTS: e.StartTS, CommitTS: e.CommitTS, Key: e.Key, Value: p.Value, Old: p.Old}
		if e.Op == OpDelete {
			row.Op, row.Value = event.Delete, nil
		}
		out[k] = row
	}
	for _, k := range lone {
		if _, ok := out[k]; !ok {
			t.Errorf("key %X start-ts %d commit-ts %d is recorded as a commit without any value", k.key, k.start, k.commit)
		}
	}
	return out
}

// TestRecordings runs every recorded stream through one Tracker a region, as the
// recorder held them, and wants exactly the changes that hindsight finds.
func TestRecordings(t *testing.T) {
	for _, path := range golden.Recordings(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			if strings.Contains(path, "bigtxn") || testing.Short() && strings.Contains(path, "workloads") {
				t.Skip("large; the test of package upstream has it")
			}
			got, o := replay(t, path)
			want := o.changes(t)
			for k, w := range want {
				g, ok := got[k]
				switch {
				case !ok:
					t.Errorf("key %X start-ts %d commit-ts %d is missing", k.key, k.start, k.commit)
				case g.Op != w.Op || !bytes.Equal(g.Value, w.Value) || !bytes.Equal(g.Old, w.Old):
					t.Errorf("key %X commit-ts %d: got %v %X old %X, want %v %X old %X",
						k.key, k.commit, g.Op, g.Value, g.Old, w.Op, w.Value, w.Old)
				}
			}
			for k := range got {
				if _, ok := want[k]; !ok {
					t.Errorf("key %X start-ts %d commit-ts %d was never committed", k.key, k.start, k.commit)
				}
			}
			if len(want) == 0 {
				t.Error("the recording has no change at all")
			}
		})
	}
}

func replay(t *testing.T, path string) (map[change]event.RawKV, *oracle) {
	got := map[change]event.RawKV{}
	o := &oracle{prewrites: map[change]Entry{}}
	live := map[uint64]*Tracker{}
	sources := map[uint64]Source{}
	var buf [1]Entry
	settle := func(id uint64) {
		r := live[id].Ready()
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		for _, q := range r.Requests {
			sources[id] = Source{Stream: 1, Slot: q.Slot, Region: id}
			live[id].Placed(q, 1)
		}
		for _, s := range r.Reloads {
			live[id].StepLocated(s, []Region{{ID: id, Version: 1, Store: 1}})
		}
		for _, row := range r.Rows {
			k := change{key: string(row.Key), start: row.StartTS, commit: row.CommitTS}
			if before, ok := got[k]; ok && (before.Op != row.Op || !bytes.Equal(before.Value, row.Value)) {
				t.Errorf("key %X commit-ts %d was delivered twice, differently", row.Key, row.CommitTS)
			}
			got[k] = row
		}
	}
	golden.Stream(t, path, func(l golden.Line) {
		switch l.Type {
		case "START":
			o.start = l.TS
		case "PREWRITE", "COMMIT", "ROLLBACK", "COMMITTED", "INITIALIZED", "UNKNOWN", "ERROR":
			if live[l.Region] == nil {
				live[l.Region] = New(Config{Span: span.Span{}, StartTS: o.start})
				live[l.Region].Tick(0)
				settle(l.Region)
				settle(l.Region)
			}
			tr := live[l.Region]
			if l.Type == "ERROR" {
				tr.StepFailure(sources[l.Region], Failure{Kind: EpochNotMatch})
				tr.Tick(tr.now + backoffMax)
				settle(l.Region)
			} else {
				buf[0] = entryOf(l)
				o.take(buf[0])
				tr.StepRows(sources[l.Region], buf[:])
			}
			settle(l.Region)
		}
	})
	return got, o
}
