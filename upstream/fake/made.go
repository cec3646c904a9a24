package fake

import (
	"context"
	"errors"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// Txn is one committed transaction of a recording that was made, not recorded.
type Txn struct {
	StartTS, CommitTS tso.TS
	Writes            []KV // raw keys; a nil value deletes
}

// MakeRecording is the recording of a cluster that holds snapshot, and then sees
// txns, in the order of their commits, one after the other.
func MakeRecording(name string, snapshot []KV, txns []Txn) (*Recording, error) {
	if len(txns) == 0 {
		return nil, cdcerr.RecordingInvalid.New("%s: no transactions", name)
	}
	rec := &Recording{Name: name, ClusterID: Config{}.Default().ClusterID, snapshot: snapshot,
		StartTS: txns[0].StartTS.Prev(), EndTS: txns[len(txns)-1].CommitTS}
	held := make(map[string][]byte, len(snapshot))
	for _, kv := range snapshot {
		held[string(kv.Key)] = kv.Value
	}
	b := &planner{writes: map[txnKey]*write{}}
	n := 0
	last := rec.StartTS
	for _, t := range txns {
		if t.StartTS <= last || t.CommitTS <= t.StartTS {
			return nil, cdcerr.RecordingInvalid.New("%s: a transaction of %d–%d after %d", name, t.StartTS, t.CommitTS, last)
		}
		last = t.CommitTS
		var lines []line
		for _, kv := range t.Writes {
			l := line{Type: "PREWRITE", Op: "PUT", Key: kv.Key, Value: kv.Value, Old: held[string(kv.Key)], StartTS: t.StartTS}
			if held[string(kv.Key)] = kv.Value; kv.Value == nil {
				l.Op = "DELETE"
			}
			lines = append(lines, l)
		}
		for i := range t.Writes {
			l := lines[i]
			l.Type, l.Old, l.CommitTS = "COMMIT", nil, t.CommitTS
			lines = append(lines, l)
		}
		var failed error
		for i := range lines {
			n++
			failed = errors.Join(failed, b.add(n, &lines[i]))
		}
		if failed != nil {
			return nil, cdcerr.RecordingInvalid.Wrap(failed, "%s", name)
		}
	}
	var err error
	if rec.plan, err = b.build(context.Background(), rec); err != nil {
		return nil, cdcerr.RecordingInvalid.Wrap(err, "%s", name)
	}
	return rec, nil
}
