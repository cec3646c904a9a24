package fake_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
)

func holds(s mvcc.Snapshot, at tso.TS) string {
	var out []string
	s.Scan(nil, nil, mvcc.Read{At: at}, false, func(p mvcc.Pair) bool {
		out = append(out, fmt.Sprintf("%s=%.20s (%d)", p.Key, p.Value, len(p.Value)))
		return true
	})
	return strings.Join(out, " ")
}

// What a journal says is what the cluster holds, and where it was cut off it is what the
// cluster held.
func TestJournalIsTheData(t *testing.T) {
	var journal bytes.Buffer
	c := run(t, fake.Config{Calm: true, StartTS: 1, Journal: &journal})
	long := strings.Repeat("x", 2*mvcc.ShortValue)
	for i, k := range []string{"t1", "t2", "t1", "t3"} {
		start := ts(uint64(10 * (i + 1)))
		must(t, c.Prewrite(put(k, fmt.Sprint(i)+long[:i*170], start)))
		must(t, c.Commit([]byte(k), start, start+5))
	}
	must(t, c.Prewrite(mvcc.Lock{Op: mvcc.Delete, Key: []byte("t2"), StartTS: 60}))
	must(t, c.Commit([]byte("t2"), 60, 65))
	must(t, c.Prewrite(put("t4", "rolled back", 70)))
	must(t, c.Rollback([]byte("t4"), 70))
	must(t, c.Prewrite(put("t5", "open", 80)))
	_, err := c.OnePhase(within(t, guard), put("t6", long, 90))
	must(t, err)
	read, err := fake.ReadJournal(bytes.NewReader(journal.Bytes()))
	must(t, err)
	for _, at := range []tso.TS{14, 15, 25, 34, 35, 45, 64, 65, 79, tso.Max} {
		want := strings.ReplaceAll(holds(c.Snapshot(), at), "t5= (0) ", "") // it is locked
		if got := holds(read, at); got != want || at > 14 && got == "" {
			t.Errorf("at %d the journal has %q, the cluster %q", at, got, want)
		}
	}
	states := []string{""}
	for n := range journal.Len() + 1 {
		cut, err := fake.ReadJournal(bytes.NewReader(journal.Bytes()[:n]))
		must(t, err)
		if got := holds(cut, tso.Max); got != states[len(states)-1] {
			states = append(states, got)
		}
	}
	if len(states) != 7 || states[6] != holds(read, tso.Max) { // six writes, each there or not
		t.Errorf("cut off after each byte it has %q", states)
	}
}

// torn is a disk that is full after so many bytes.
type torn struct{ left int }

func (d *torn) Write(b []byte) (int, error) {
	if d.left -= len(b); d.left < 0 {
		return 0, errors.New("no space left")
	}
	return len(b), nil
}

// What could not be written down nobody is told of: the cluster ends.
func TestNobodyIsToldOfWhatIsNotInTheJournal(t *testing.T) {
	c, err := fake.Start(fake.Config{Journal: &torn{left: 100}, ResolvedInterval: time.Millisecond})
	must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(t.Context()) }()
	<-c.Replayed()
	for i := range 10 {
		_, err := c.OnePhase(within(t, guard), put(fmt.Sprint("t", i), "value", c.TS()))
		must(t, err)
	}
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "the journal: no space left") {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it tells of timestamps still")
	}
}
