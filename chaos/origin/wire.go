package origin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// Config is an upstream and its load.
type Config struct {
	Seed             uint64
	Stores           int
	ResolvedInterval time.Duration
	Rate             int           // transactions a second
	Accounts         int           // of the bank
	Tables           int           // that the accounts are in
	DDLEvery         time.Duration // between two DDLs of each of the workload's streams
	Beats            int           // tables of the heartbeat
	BeatEvery        time.Duration
	MoveEvery        time.Duration // about the time between two splits, merges or new leaders of regions; 0: none
	StoreAddrs       []string      // where PD says that the stores are; empty: where they are
	Journal          string        // a file for what was committed, which outlives the process; empty: none
}

// Default is a load that two cores carry beside everything else.
func Default() Config {
	return Config{
		Seed: 1, Stores: 2, ResolvedInterval: 100 * time.Millisecond, Rate: 100, Accounts: 100, Tables: 5,
		DDLEvery: 400 * time.Millisecond, Beats: 1, BeatEvery: 100 * time.Millisecond,
	}
}

// Validate names the first field that cannot be used, and why. What the cluster and
// the workload are told, they judge.
func (c Config) Validate() error {
	switch {
	case c.Beats < 1 || c.Beats > 100:
		return cdcerr.InvalidArgument.New("Beats: %d, want 1 to 100 tables", c.Beats)
	case c.MoveEvery < 0:
		return cdcerr.InvalidArgument.New("MoveEvery: %v, below 0", c.MoveEvery)
	case c.BeatEvery < time.Millisecond:
		return cdcerr.InvalidArgument.New("BeatEvery: %v, want at least 1ms", c.BeatEvery)
	}
	return nil
}

// What is asked.
const (
	askPlace      = "place"
	askBegin      = "begin"
	askEnd        = "end"
	askStatements = "statements"
	askTables     = "tables"
	askDatabases  = "databases"
	askBalances   = "balances"
	askCompare    = "compare"
)

// request is one line of Serve's input, answer one of its output.
type request struct {
	Ask  string
	With json.RawMessage `json:",omitempty"`
}

type answer struct {
	Error string          `json:",omitempty"`
	Body  json.RawMessage `json:",omitempty"`
}

// Place is where an upstream is, and its present.
type Place struct {
	PD     []string // with http:// before
	Stores []string
	TS     tso.TS
}

// End is what a load has come to.
type End struct {
	TS      tso.TS // nothing was committed above
	Txns    int64
	DDLs    int64
	Refused int64 // statements of DDL that came to nothing
	Beats   int64
	Moves   int64 // of regions
}

// Statement is one statement of DDL that was carried out, in the order of its
// database's.
type Statement struct{ DB, SQL string }

// Accounts is what the bank held at a moment.
type Accounts struct {
	Number int
	Sum    int64
	Digest string // of every account with its balance
}

// AccountsOf are accounts by id.
func AccountsOf(balances map[string]int64) Accounts {
	a := Accounts{Number: len(balances)}
	h := fnv.New64a()
	for _, id := range slices.SortedFunc(maps.Keys(balances), cmp.Compare) {
		a.Sum += balances[id]
		_, _ = fmt.Fprintf(h, "%s=%d\n", id, balances[id]) // a hash takes everything
	}
	a.Digest = fmt.Sprintf("%016x", h.Sum64())
	return a
}

// Downstream is a MariaDB whose contents are compared with the upstream's at a moment.
type Downstream struct {
	Host string
	Port int
	At   tso.TS
}
