package coordinator_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
)

// cuts has every table cut that has two regions.
var cuts = json.RawMessage(`{"scheduler":{"enable_table_across_nodes":true,"region_threshold":1,"region_count_per_span":1,"region_count_refresh_interval":"1s"}}`)

// tableID is the id of a table of the bank.
func (c *cluster) tableID(name string) (id int64) {
	c.Helper()
	all, err := c.owner().Verify(c.Context(), api.Creation{ID: api.FeedID{Keyspace: "default", Name: "other"}, SinkURI: "blackhole://"})
	must(c.T, err)
	for _, t := range all.All {
		if t.Schema == workload.BankDB && t.Table == name {
			id = t.ID
		}
	}
	if id == 0 {
		c.Fatalf("no table %s in %+v", name, all.All)
	}
	return id
}

// regions cuts a table upstream where rows with these keys stand.
func (c *cluster) regions(id int64, keys ...int64) {
	for _, k := range keys {
		c.cluster.Split(span.AppendInt(span.RecordPrefix(id), k))
	}
}

// on waits until so many captures write a table, and everything up to then is downstream.
func (c *cluster) on(id int64, n int) {
	c.Helper()
	c.until("the table is where it is to be", func() bool {
		f, ok := c.feed()
		on := 0
		for _, t := range f.Tasks {
			if slices.Contains(t.TableIDs, id) {
				on++
			}
		}
		return ok && on == n
	})
	c.caught()
}

// A table with several regions is written by all captures at once, under load: its parts
// go on when one of them goes, DDLs find all of them, and one that makes them dangerous
// brings them together first. No transfer is lost, and none comes in halves.
func TestSplitTable(t *testing.T) {
	s := newSite(t)
	c := s.configured(2, api.Creation{ID: feed, SinkURI: s.down.URI(), Config: cuts})
	end := c.loaded()
	c.caught()
	exec := func(sql string) {
		t.Helper()
		must(t, s.bank.Server.Exec(t.Context(), sql, catalog.Session{DB: workload.BankDB}, nil))
	}
	id := c.tableID("a0")
	c.regions(id, 10, 20, 30, 40)
	c.on(id, 2)

	exec("ALTER TABLE a0 ADD COLUMN x int DEFAULT 7")
	c.caught()
	exec("ALTER TABLE a0 ADD UNIQUE INDEX u (id, x)")
	c.on(id, 1)
	if n := s.count("SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = 'bank' AND index_name = 'u'"); n != 2 {
		t.Errorf("%d columns are in the index downstream", n)
	}
	exec("ALTER TABLE a0 DROP INDEX u")
	c.on(id, 2)

	// A capture comes and takes parts, and one is torn off with its own.
	c.join()
	c.on(id, 3)
	dead := c.owner()
	dead.kill()
	c.gone(dead)
	c.on(id, 2)
	end()
	c.caught()

	// What a TRUNCATE leaves behind is everybody's to let go, and what it brings is cut anew.
	exec("CREATE TABLE side (id bigint PRIMARY KEY, v int)")
	side := c.tableID("side")
	c.regions(side, 10, 20)
	c.on(side, 2)
	exec("TRUNCATE TABLE side")
	c.on(side, 0)
	side = c.tableID("side")
	c.on(side, 1)
	c.regions(side, 5)
	c.on(side, 2)
	exec("DROP TABLE side")
	c.on(side, 0)
	s.bankIsWhole(50)
	if f, _ := c.feed(); f.State != "normal" || f.Error != nil {
		t.Errorf("%s, %+v", f.State, f.Error)
	}
}

// Whose transactions are to stay whole is not cut.
func TestSplitTearsTransactions(t *testing.T) {
	s := newSite(t)
	n := s.node()
	c := s.creation()
	c.SinkURI += "?transaction-atomicity=table"
	c.Config = cuts
	if _, err := n.Create(t.Context(), c); !cdcerr.ConfigInvalid.Is(err) {
		t.Errorf("created: %v", err)
	}
}
