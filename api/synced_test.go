package api

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/tso"
)

// Whether downstream has all: every answer, by how far the changefeed is.
func TestSyncedStatus(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) tso.TS { return tso.At(now.Add(-d)) }
	for _, c := range []struct {
		name                         string
		state                        string
		checkpoint, resolved, synced time.Duration // ago
		want                         bool
		says                         string
	}{
		{"quiet for long enough, and the checkpoint keeps up", "normal", 2 * time.Second, time.Second, 301 * time.Second, true, "all that upstream had written"},
		{"also while something is ridden out", "warning", 2 * time.Second, time.Second, 301 * time.Second, true, "all that upstream had written"},
		{"quiet for exactly the interval", "normal", 2 * time.Second, time.Second, 300 * time.Second, false, "less than 5m0s ago"},
		{"rows are written", "normal", 2 * time.Second, time.Second, 3 * time.Second, false, "less than 5m0s ago"},
		{"rows are written, and far behind", "normal", time.Hour, time.Hour, time.Minute, false, "less than 5m0s ago"},
		{"it has just been resumed, and has written nothing", "normal", time.Second, time.Second, time.Second, false, "the changefeed began to run"},
		{"nothing comes", "normal", time.Minute, 59 * time.Second, 10 * time.Minute, false, "nothing has come for 1m0s"},
		{"the checkpoint is exactly the interval behind", "normal", 15 * time.Second, 15 * time.Second, 10 * time.Minute, false, "nothing has come for 15s"},
		{"the downstream does not take what has come", "normal", time.Hour, time.Second, 2 * time.Hour, false, "59m59s behind what has come"},
		{"stopped", "stopped", time.Second, time.Second, time.Hour, false, "the changefeed is stopped"},
		{"failed", "failed", time.Second, time.Second, time.Hour, false, "the changefeed is failed"},
		{"waiting to be tried again", "pending", time.Second, time.Second, time.Hour, false, "the changefeed is pending"},
		{"finished", "finished", time.Second, time.Second, time.Hour, false, "all up to its target-ts is downstream"},
	} {
		f := Feed{State: c.state, Checkpoint: ago(c.checkpoint), Resolved: ago(c.resolved), SyncedAt: now.Add(-c.synced),
			SyncedCheckInterval: 5 * time.Minute, CheckpointInterval: 15 * time.Second}
		if got, says := f.judgeSynced(tso.At(now)); got != c.want || !strings.Contains(says, c.says) {
			t.Errorf("%s: synced %v, %q", c.name, got, says)
		}
	}
}

// Where PD gives no time the answer is no, and says what is known all the same.
func TestSyncedStatusWithoutPD(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	away := errors.New("PD has given no timestamp for 3s")
	for ahead, says := range map[time.Duration]string{
		14 * time.Second: "once more than 5m0s have passed since last_synced_ts",
		15 * time.Second: "the checkpoint is 15s behind what has come from upstream",
	} {
		f := Feed{State: "normal", Checkpoint: tso.At(at), Resolved: tso.At(at.Add(ahead)), SyncedCheckInterval: 5 * time.Minute, CheckpointInterval: 15 * time.Second}
		if got := f.syncedWithoutPD(away); !strings.Contains(got, says) || !strings.Contains(got, away.Error()) {
			t.Errorf("%v ahead: %q", ahead, got)
		}
	}
}
