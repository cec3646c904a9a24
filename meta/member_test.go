package meta_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/meta"
)

// A database that is damaged is an error that says which file and what to do, and not
// the end of the process.
func TestDamagedDatabase(t *testing.T) {
	dir := t.TempDir()
	s, err := meta.Open(t.Context(), embedded(dir))
	must(t, err)
	_, err = s.CreateChangefeed(t.Context(), meta.Fence{}, feed, info, at(1, 1))
	must(t, err)
	s.Close()
	path := filepath.Join(dir, "member", "snap", "db")
	whole, err := os.ReadFile(path)
	must(t, err)
	damaged := func(change func([]byte) []byte) error {
		must(t, os.WriteFile(path, change(append([]byte(nil), whole...)), 0o600))
		s, err := meta.Open(t.Context(), embedded(dir))
		if err == nil {
			s.Close()
		}
		return err
	}
	for name, change := range map[string]func([]byte) []byte{
		"no database": func([]byte) []byte { return []byte("this is no database") },
		"empty pages": func(b []byte) []byte { clear(b[2*os.Getpagesize():]); return b },
		"cut short":   func(b []byte) []byte { return b[:3*os.Getpagesize()] },
		"no begin":    func(b []byte) []byte { clear(b[:2*os.Getpagesize()]); return b },
	} {
		t.Run(name, func(t *testing.T) { refused(t, damaged(change), cdcerr.MetaDirDamaged, path) })
	}
	must(t, damaged(func(b []byte) []byte { return b }))
}

// Who ends does not wait for those who watch.
func TestEndsWithOthersWatching(t *testing.T) {
	s, err := meta.Open(t.Context(), embedded(t.TempDir()))
	must(t, err)
	changes := raw(t, s).Watch(t.Context(), "x")
	_, err = s.CreateChangefeed(t.Context(), meta.Fence{}, feed, info, at(1, 1))
	must(t, err)
	ended := make(chan struct{})
	go func() { s.Close(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(5 * time.Second): // etcd alone takes seven
		t.Error("it waits for the watch")
		<-ended
	}
	select {
	case <-changes:
		t.Error("the watch has no end of its own")
	default:
	}
}

// The session of a process that has died is ended by the next one of its directory;
// no other is.
func TestEarlierSession(t *testing.T) {
	s := open(t, embedded(t.TempDir()))
	ctx := t.Context()
	dead, err := s.NewSession(ctx, "dead", time.Hour)
	must(t, err)
	must(t, dead.Register(ctx, capture.Info{ID: "dead", Address: "a:1", Version: "1.0.0"}))
	_, err = dead.Campaign(ctx)
	must(t, err)
	other := open(t, embedded(t.TempDir()))
	for _, token := range []string{"", "nonsense", dead.Token()} {
		must(t, other.EndEarlier(ctx, token))
	}
	if all, err := s.Captures(ctx); err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	must(t, s.EndEarlier(ctx, dead.Token()+"\n"))
	if all, err := s.Captures(ctx); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	must(t, s.EndEarlier(ctx, dead.Token()))
	next, _ := session(t, s, "next", time.Minute)
	_, err = next.Campaign(ctx)
	must(t, err)
}
