package fake

import (
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

func TestMakeRecording(t *testing.T) {
	kv := func(k, v string) KV { return KV{[]byte(k), []byte(v)} }
	at := tso.New(1_800_000_000_000, 0)
	txn := func(start, commit tso.TS, writes ...KV) Txn { return Txn{at + start, at + commit, writes} }
	rec, err := MakeRecording("made", []KV{kv("a", "0")}, []Txn{txn(11, 12, kv("a", "1"), kv("b", "1")), txn(13, 14, KV{Key: []byte("a")})})
	if err != nil || rec.StartTS != at+10 || rec.EndTS != at+14 || rec.Name != "made" {
		t.Fatal(rec, err)
	}
	c, err := Start(Config{Recording: rec, Calm: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.closeListeners()
	if _, err := c.batch(&rec.plan, 0, 100, tso.Max); err != nil {
		t.Fatal(err)
	}
	a, b := c.Snapshot().Versions([]byte("a")), c.Snapshot().Versions([]byte("b"))
	if len(a) != 3 || a[2].CommitTS != at+14 || len(b) != 1 || string(b[0].Value) != "1" {
		t.Errorf("%+v %+v", a, b)
	}
	for _, bad := range [][]Txn{nil, {txn(12, 12)}, {txn(11, 12), txn(12, 13)}, {txn(11, 12, KV{Value: []byte("x")}), txn(13, 13)}} {
		if _, err := MakeRecording("bad", nil, bad); !cdcerr.RecordingInvalid.Is(err) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// The messages of a tick are paid for, where ticks could come at any rate.
func TestTicksArePaidFor(t *testing.T) {
	const many = 1 << 40
	c := &Cluster{cfg: Config{Recording: &Recording{}}, promised: many, ticked: time.Now()}
	if c.paid(0) || c.paid(many/promisesPerStep-1) || !c.paid(many/promisesPerStep) {
		t.Error("by steps")
	}
	if c.ticked = c.ticked.Add(-many * promisePause / 1000); c.paid(0) {
		t.Error("by too little time")
	}
	c.promised = 1000
	if !c.paid(0) {
		t.Error("by time")
	}
	c.promised, c.cfg.Speed = many, 1
	if !c.paid(0) {
		t.Error("a replay in recorded time keeps its interval")
	}
}
