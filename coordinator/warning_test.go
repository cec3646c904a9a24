package coordinator_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/redo"
)

// A downstream that is away shows at once, while the sink still tries by itself; and
// nobody has to do anything when it is back.
func TestTroubleShowsAtOnce(t *testing.T) {
	s := newSite(t)
	n, ctx := s.node(), t.Context()
	_, err := n.Create(ctx, s.creation())
	must(t, err)
	must(t, s.bank.Prepare(ctx))
	must(t, s.bank.Run(ctx, 100*time.Millisecond))
	s.caught(n)
	must(t, s.down.Kill())
	must(t, s.bank.Run(ctx, 100*time.Millisecond))
	s.until("it warns", func() bool { return s.get(n).State == "warning" })
	if f := s.get(n); f.Error != nil || f.Warning == nil || f.Warning.Code != cdcerr.MySQLConnection.ID || f.Warning.Message == "" || f.Warning.Addr == "" {
		t.Errorf("%+v, %+v", f.Error, f.Warning)
	}
	if all, err := n.List(ctx); err != nil || len(all) != 1 || all[0].State != "warning" || all[0].Warning == nil {
		t.Errorf("%+v, %v", all, err)
	}
	must(t, s.down.Restart())
	s.caught(n)
	s.until("it is normal", func() bool { return s.get(n).State == "normal" })
	if f := s.get(n); f.Warning != nil || f.Error != nil {
		t.Errorf("%+v, %+v", f.Error, f.Warning)
	}
}

// The redo log's directory goes, and comes back: the changefeed says so, writes nothing
// meanwhile that is not in the log (P5), and goes on by itself.
func TestRedoStorageGoesAndComesBack(t *testing.T) {
	s := newSite(t)
	n, ctx := s.node(), t.Context()
	c := s.creation()
	dir := filepath.Join(t.TempDir(), "log")
	c.Config = json.RawMessage(fmt.Sprintf(`{"consistent":{"level":"eventual","storage":"file://%s"}}`, dir))
	_, err := n.Create(ctx, c)
	must(t, err)
	must(t, s.bank.Prepare(ctx))
	must(t, s.bank.Run(ctx, 100*time.Millisecond))
	s.caught(n)
	must(t, os.Rename(dir, dir+"-away"))
	must(t, s.bank.Run(ctx, 100*time.Millisecond))
	s.until("it warns", func() bool { f := s.get(n); return f.State == "warning" && f.Warning != nil })
	if f := s.get(n); f.Error != nil || f.Warning.Code != cdcerr.StorageGone.ID || !strings.Contains(f.Warning.Message, dir) {
		t.Errorf("%+v, %+v", f.Error, f.Warning)
	}
	// Another, empty one in its place is none of it.
	must(t, os.Mkdir(dir, 0o755))
	s.until("it says that it is another", func() bool {
		f := s.get(n)
		return f.State == "warning" && f.Warning != nil && strings.Contains(f.Warning.Message, "another directory")
	})
	must(t, os.Remove(dir))
	must(t, os.Rename(dir+"-away", dir))
	s.caught(n)
	s.until("it is normal", func() bool { return s.get(n).State == "normal" })
	s.bankIsWhole(50)
	bucket, err := objstore.Open(ctx, "file://"+dir)
	must(t, err)
	defer bucket.Close()
	all, err := redo.Find(ctx, bucket)
	must(t, err)
	inv, err := redo.Open(ctx, bucket, all[0])
	must(t, err)
	must(t, inv.Err())
}

// One that waits to be tried again says why, and is tried at once when an operator
// says so.
func TestResumeOfPending(t *testing.T) {
	s := newSite(t)
	n, ctx := s.node(), t.Context()
	_, err := n.Create(ctx, s.creation())
	must(t, err)
	s.caught(n)
	must(t, n.Pause(ctx, feed))
	must(t, s.down.Kill())
	must(t, n.Resume(ctx, feed, 0))
	s.until("it waits", func() bool { return s.get(n).State == "pending" })
	if f := s.get(n); f.Error == nil || f.Error.Code != cdcerr.MySQLConnection.ID {
		t.Errorf("%+v", f.Error)
	}
	must(t, s.down.Restart())
	must(t, n.Resume(ctx, feed, 0))
	if f := s.get(n); f.State != "normal" || f.Error != nil {
		t.Errorf("%s, %+v", f.State, f.Error)
	}
	s.caught(n)
}

// Both ways is for a downstream that can mark what comes from here.
func TestBothWaysIsRefused(t *testing.T) {
	s := newSite(t)
	n, ctx := s.node(), t.Context()
	c := s.creation()
	c.Config = json.RawMessage(`{"bdr_mode":true}`)
	if _, err := n.Create(ctx, c); !cdcerr.ConfigInvalid.Is(err) {
		t.Errorf("MariaDB: %v", err)
	}
	c.SinkURI = "blackhole://"
	_, err := n.Create(ctx, c)
	must(t, err)
	must(t, n.Pause(ctx, feed))
	uri := s.down.URI()
	if _, err := n.Update(ctx, feed, api.Change{SinkURI: &uri}); !cdcerr.ConfigInvalid.Is(err) {
		t.Errorf("MariaDB, of one that is there: %v", err)
	}
}
