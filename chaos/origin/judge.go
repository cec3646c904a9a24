package origin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/internal/mariadb"
	"github.com/sluice-cdc/sluice/playground"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
	"github.com/sluice-cdc/sluice/upstream/fake/oracle"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
	"github.com/sluice-cdc/sluice/verify"
)

// balances reads what the accounts held at each of some moments.
func (s *serving) balances(at []tso.TS) ([]Accounts, error) {
	return balances(s.cluster.Snapshot(), at)
}

func balances(store mvcc.Snapshot, at []tso.TS) ([]Accounts, error) {
	bank, err := filter.New(filter.Config{Rules: []string{workload.BankDB + ".*"}})
	if err != nil {
		return nil, err
	}
	past, err := oracle.NewPast(store)
	if err != nil {
		return nil, err
	}
	var out []Accounts
	for _, ts := range at {
		var e verify.Expected
		if _, err := past.At(ts, bank, &e); err != nil {
			return nil, fmt.Errorf("at %d: %w", ts, err)
		}
		held := map[string]int64{}
		for _, t := range e.Tables {
			id, balance := slices.Index(t.Columns, "id"), slices.Index(t.Columns, "balance")
			for _, row := range t.Rows {
				if held[row[id].Text], err = strconv.ParseInt(row[balance].Text, 10, 64); err != nil {
					return nil, err
				}
			}
		}
		out = append(out, AccountsOf(held))
	}
	return out, nil
}

// differencesMax is how many differences are told.
const differencesMax = 20

// compare reads a downstream and tells where it differs from what stood here at a
// moment. It is empty where nothing does.
func (s *serving) compare(ctx context.Context, d Downstream) (differences []string, failed error) {
	return compare(ctx, s.cluster.Snapshot(), s.databases(), d)
}

// databases are those that the load writes to.
func (s *serving) databases() []string { return append(s.load.work.Databases(), BeatDB) }

func compare(ctx context.Context, store mvcc.Snapshot, databases []string, d Downstream) (differences []string, failed error) {
	db := (&mariadb.Server{Host: d.Host, Port: d.Port}).DB()
	defer func() { failed = errors.Join(failed, db.Close()) }()
	v, _, err := playground.Compare(ctx, db, store, d.At, databases)
	if err != nil {
		return nil, err
	}
	for _, one := range v.First {
		differences = append(differences, one.String())
	}
	all := v.Differences
	tables, err := tables(store, databases, d.At)
	if err != nil {
		return nil, err
	}
	for _, t := range tables {
		told, err := shape(ctx, db, t)
		if err != nil {
			return nil, err
		}
		differences, all = append(differences, told...), all+len(told)
	}
	if all > differencesMax {
		differences = append(differences[:min(len(differences), differencesMax)], fmt.Sprintf("%d differences in all", all))
	}
	return differences, nil
}

// tables are what a changefeed knows of databases at a moment.
func tables(store mvcc.Snapshot, databases []string, at tso.TS) ([]*event.Table, error) {
	var rules []string
	for _, name := range databases {
		rules = append(rules, name+".*")
	}
	ours, err := filter.New(filter.Config{Rules: rules})
	if err != nil {
		return nil, err
	}
	past, err := oracle.NewPast(store)
	if err != nil {
		return nil, err
	}
	_, tables, err := past.Schema(at, ours)
	return tables, err
}
