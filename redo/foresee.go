package redo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

// Doubt is a table that the log cannot make what upstream had, and the DDL because of which.
type Doubt struct {
	Table string // its name at the log's end
	Job   int64
	TS    tso.TS
	Why   string
	Stops bool // the DDL cannot be carried out at all

	id int64
}

func (d Doubt) String() string {
	return fmt.Sprintf("%s, by DDL job %d at %d: %s", d.Table, d.Job, d.TS, d.Why)
}

// ddl is the part of a DDL that is wanted.
func (p *Part) ddl(d *event.DDL) (*event.DDL, error) {
	if p.DDL == nil {
		return d, nil
	}
	return p.DDL(d)
}

// Foresee reads the DDLs that are to be applied, and tells of which tables the log does not
// make what upstream had. A table that a later DDL empties or drops is exact again.
func Foresee(ctx context.Context, b objstore.Bucket, inv *Inventory, cfg ApplyConfig, of func(*event.DDL) []sink.Doubt) ([]Doubt, error) {
	ddls := *inv
	ddls.Files = slices.DeleteFunc(slices.Clone(inv.Files), func(f LogFile) bool { return f.Kind != record.DDLs })
	how := cfg.Merge
	how.Done = func(LogFile) {}
	var out []Doubt
	err := Merge(ctx, b, &ddls, how, func(e record.Entry) error {
		d, err := cfg.Part.ddl(e.DDL)
		if d == nil || err != nil {
			return err
		}
		out = followed(out, d)
		for _, doubt := range of(d) {
			out = append(out, Doubt{doubt.Table.FullName(), d.JobID, d.SwitchTS, doubt.Why, doubt.Stops, doubt.Table.ID})
		}
		return nil
	})
	return out, err
}

// followed is what becomes of doubts by a DDL.
func followed(doubts []Doubt, d *event.DDL) []Doubt {
	names := map[int64]string{}
	gone := map[int64]bool{}
	for _, c := range d.Tables {
		if c.Before != nil {
			gone[c.Before.ID] = true
		}
	}
	for _, c := range d.Tables {
		if c.After != nil {
			names[c.After.ID] = c.After.FullName()
			delete(gone, c.After.ID)
		}
	}
	out := doubts[:0]
	for _, x := range doubts {
		if gone[x.id] && !x.Stops {
			continue
		}
		if name, ok := names[x.id]; ok {
			x.Table = name
		}
		out = append(out, x)
	}
	return out
}

// stops is an error where a DDL cannot be carried out.
func stops(doubts []Doubt) error {
	var texts, rules []string
	for _, x := range doubts {
		if x.Stops {
			texts = append(texts, x.String())
			if rule := fmt.Sprintf("--filter '!%s'", x.Table); !slices.Contains(rules, rule) {
				rules = append(rules, rule)
			}
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return cdcerr.RedoNeedsUpstream.New("nothing was applied; these DDLs cannot be carried out without the upstream: %s; sluice redo apply --filter '*.*' %s leaves their tables out",
		strings.Join(texts, "; "), strings.Join(rules, " "))
}
