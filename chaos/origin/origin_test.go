package origin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-cdc/sluice/chaos/origin"
	"github.com/sluice-cdc/sluice/internal/mariadb"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(origin.Env); text != "" {
		var c origin.Config
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			panic(err)
		}
		if err := origin.Serve(context.Background(), c, os.Stdin, os.Stdout); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The load goes on by itself, and afterwards its process knows all that a judge asks.
func TestAnUpstreamOfItsOwn(t *testing.T) {
	c := origin.Default()
	c.DDLEvery, c.BeatEvery, c.Beats = 10*time.Millisecond, 10*time.Millisecond, 2
	c.Journal = filepath.Join(t.TempDir(), "journal")
	program, err := os.Executable()
	must(t, err)
	u, err := origin.Open(c, program, filepath.Join(t.TempDir(), "upstream.log"))
	must(t, err)
	defer func() {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	}()
	place, err := u.Place()
	must(t, err)
	if len(place.PD) == 0 || !strings.HasPrefix(place.PD[0], "http://") {
		t.Errorf("%+v", place)
	}
	must(t, u.Begin())
	if err := u.Begin(); err == nil || !strings.Contains(err.Error(), "begun already") {
		t.Errorf("begun twice: %v", err)
	}
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	var ddl []origin.Statement
	for end := time.Now().Add(3 * time.Minute); len(ddl) < 40 && time.Now().Before(end); <-look.C {
		ddl, err = u.Statements()
		must(t, err)
	}
	e, err := u.End()
	must(t, err)
	if e.TS <= place.TS || e.Beats == 0 || e.DDLs < 30 {
		t.Errorf("%+v", e)
	}
	held, err := u.Balances([]tso.TS{place.TS, e.TS})
	must(t, err)
	if held[0].Number != 0 || held[1].Number != c.Accounts || held[1].Sum != int64(c.Accounts)*workload.Opening {
		t.Errorf("%+v", held)
	}
	down := mariadb.Start(t)
	differences, err := u.Compare(origin.Downstream{Host: down.Host, Port: down.Port, At: e.TS})
	must(t, err)
	if !slices.ContainsFunc(differences, func(d string) bool { return strings.Contains(d, "bank") }) {
		t.Errorf("an empty database is told of as %q", differences)
	}
	databases, err := u.Databases()
	must(t, err)
	u.Kill()
	left, err := origin.Remember(c.Journal, databases)
	must(t, err)
	same, err := left.Balances([]tso.TS{place.TS, e.TS})
	must(t, err)
	if !slices.Equal(same, held) {
		t.Errorf("the journal says %+v, the upstream said %+v", same, held)
	}
	again, err := left.Compare(t.Context(), origin.Downstream{Host: down.Host, Port: down.Port, At: e.TS})
	must(t, err)
	if !slices.Equal(again, differences) {
		t.Errorf("by the journal an empty database is told of as %q, upstream %q", again, differences)
	}
}

// Who is not there to talk to is an error, not a wait.
func TestAnUpstreamThatCannotBe(t *testing.T) {
	c := origin.Default()
	c.Beats = 0
	program, err := os.Executable()
	must(t, err)
	u, err := origin.Open(c, program, filepath.Join(t.TempDir(), "upstream.log"))
	must(t, err)
	if _, err := u.Place(); err == nil {
		t.Error("it has answered")
	}
	if err := u.Close(); err == nil {
		t.Error("it has ended well")
	}
}
