package mysql

import (
	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
)

// A script is what a DDL becomes downstream. It is made without asking the
// downstream anything.
type script struct {
	// use is the database for names that cannot be qualified, empty for none.
	use        string
	statements []string
	// main is the one of the statements that an ALTER became; first are run
	// before it, each time that it is.
	main  string
	first []string
	// zone is the session's zone for main: its conversions of moments go by it.
	// inUTC is main for a session in UTC.
	zone    *zone
	moments []moment
	inUTC   string
	// fill are tables whose rows no event carries: empty after the statements,
	// to be filled from the upstream's snapshot.
	fill []*event.Table
	// twins make tables as the script's own CREATE TABLE statements do, elsewhere.
	twins []twin
	// notes say what is not as upstream wrote it.
	notes []note
}

// A note is one use of a row of Features.
type note struct {
	feature string
	about   string
}

// empty tells whether the DDL does nothing downstream.
func (s *script) empty() bool { return len(s.statements)+len(s.fill) == 0 }

func (s *script) add(text string) { s.statements = append(s.statements, text) }

func (s *script) note(feature, about string) { s.notes = append(s.notes, note{feature, about}) }

// planDDL writes the script of a DDL. canFill says that the upstream's
// snapshots can be read.
func planDDL(d *event.DDL, dialect Dialect, canFill bool) (*script, error) {
	s := &script{use: d.Schema}
	if feature, ok := withoutEffect(d.Action, dialect); ok {
		s.note(feature, d.Query)
		return s, nil
	}
	var err error
	switch d.Action {
	case event.ActionCreateSchema, event.ActionDropSchema, event.ActionSchemaCharset:
		err = s.database(d, dialect)
	case event.ActionDropTable, event.ActionDropView, event.ActionDropSequence:
		err = s.drop(d, dialect)
	case event.ActionTruncateTable:
		err = s.truncate(d, dialect)
	case event.ActionRenameTable, event.ActionRenameTables:
		err = s.rename(d, dialect)
	case event.ActionCreateView:
		err = s.createView(d)
	case event.ActionExchangePartition:
		err = s.exchange(d, dialect, canFill)
	case event.ActionCreateTable, event.ActionCreateTables:
		err = s.createTables(d, dialect)
	case event.ActionRecoverTable, event.ActionRecoverSchema:
		err = s.recover(d, dialect, canFill)
	case event.ActionFlashbackCluster:
		err = notPortable(d, dialect, FeatureFlashbackCluster, "rows change without events")
	default:
		err = s.alter(d, dialect, canFill)
	}
	if err != nil {
		return nil, err
	}
	for _, c := range d.Tables {
		if c.After == nil {
			continue
		}
		if index := dialect.mergesKeys(c.After); index != "" {
			return nil, notPortable(d, dialect, Feature0900, "%s has unique index %s on a column for which only collations are left that pad with blanks", c.After.FullName(), index)
		}
	}
	return s, nil
}

// database writes CREATE, ALTER and DROP DATABASE from the database's info:
// the text may leave charset and collation to the server's default.
func (s *script) database(d *event.DDL, dialect Dialect) error {
	s.use = ""
	if d.Action == event.ActionDropSchema {
		if d.DatabaseBefore == nil {
			return cdcerr.Bug("job %d drops a database and does not say which: %s", d.JobID, d.Query)
		}
		s.add("DROP DATABASE IF EXISTS " + ident(d.DatabaseBefore.Name))
		return nil
	}
	if d.DatabaseAfter == nil {
		return cdcerr.Bug("job %d (%v) has no database: %s", d.JobID, d.Action, d.Query)
	}
	verb := "CREATE DATABASE IF NOT EXISTS "
	if d.Action == event.ActionSchemaCharset {
		verb = "ALTER DATABASE "
	}
	s.add(verb + databaseText(d.DatabaseAfter, dialect))
	return nil
}

func databaseText(db *event.Database, dialect Dialect) string {
	charset, collation := dialect.collation(db.Charset, db.Collation)
	text := ident(db.Name)
	if charset != "" {
		text += " CHARACTER SET " + charset
	}
	if collation != "" {
		text += " COLLATE " + collation
	}
	return text
}

// only is the one table that a job is about.
func only(d *event.DDL) (before, after *event.Table, err error) {
	if len(d.Tables) != 1 || d.Tables[0].Before == nil && d.Tables[0].After == nil {
		return nil, nil, cdcerr.Bug("job %d (%v) is about %d tables, want one: %s", d.JobID, d.Action, len(d.Tables), d.Query)
	}
	return d.Tables[0].Before, d.Tables[0].After, nil
}

// drop makes one statement a table: a DROP TABLE of several is one job for
// each, all with the whole statement's text.
func (s *script) drop(d *event.DDL, dialect Dialect) error {
	before, _, err := only(d)
	if err != nil {
		return err
	}
	if before == nil {
		return cdcerr.Bug("job %d drops a table that was not there: %s", d.JobID, d.Query)
	}
	word := "TABLE"
	switch before.Kind {
	case event.View:
		word = "VIEW"
	case event.Sequence:
		word = "SEQUENCE"
	case event.TemporaryTable:
		if dialect.Kind != TiDB {
			s.note(FeatureTemporary, before.FullName())
			return nil
		}
	case event.BaseTable:
	}
	s.add("DROP " + word + " IF EXISTS " + qualified(before.Schema, before.Name))
	return nil
}

func (s *script) truncate(d *event.DDL, dialect Dialect) error {
	_, after, err := only(d)
	if err != nil {
		return err
	}
	if after.Kind == event.TemporaryTable && dialect.Kind != TiDB {
		s.note(FeatureTemporary, after.FullName())
		return nil
	}
	s.add("TRUNCATE TABLE " + qualified(after.Schema, after.Name))
	return nil
}

// createView uses the select that TiDB keeps: its names are qualified, while
// those of the text belong to whatever database the session was in.
func (s *script) createView(d *event.DDL) error {
	_, after, err := only(d)
	if err != nil {
		return err
	}
	if after == nil || after.View == nil {
		return cdcerr.Bug("job %d creates a view and does not say of what: %s", d.JobID, d.Query)
	}
	text := "CREATE OR REPLACE VIEW " + qualified(after.Schema, after.Name)
	for i, c := range after.View.Columns {
		if i == 0 {
			text += " ("
		} else {
			text += ", "
		}
		text += ident(c)
	}
	if len(after.View.Columns) > 0 {
		text += ")"
	}
	selected, err := restoreSelect(after.View.Select)
	if err != nil {
		return err
	}
	s.add(text + " AS " + selected)
	return nil
}

// createTables pairs the statements of a job with its tables by their names:
// a job of several tables has its statements joined.
func (s *script) createTables(d *event.DDL, dialect Dialect) error {
	nodes, err := parse(d)
	if err != nil {
		return err
	}
	for _, change := range d.Tables {
		t := change.After
		if t == nil {
			return cdcerr.Bug("job %d creates a table that is not there after: %s", d.JobID, d.Query)
		}
		var found *ast.CreateTableStmt
		for _, n := range nodes {
			if c, ok := n.(*ast.CreateTableStmt); ok && sameName(c.Table.Name.O, t.Name) {
				found = c
			}
		}
		if found == nil {
			return cdcerr.ExecDDLFailed.New("job %d creates %s, and no statement of its text does: %s", d.JobID, t.FullName(), d.Query)
		}
		if err := s.createTable(d, dialect, found, t); err != nil {
			return err
		}
	}
	return nil
}

func (s *script) createTable(d *event.DDL, dialect Dialect, n *ast.CreateTableStmt, t *event.Table) error {
	if t.Kind == event.TemporaryTable && dialect.Kind != TiDB {
		s.note(FeatureTemporary, t.FullName())
		return nil
	}
	if n.ReferTable != nil {
		// LIKE copies whatever the other table looks like downstream by then, if
		// it is there at all.
		var err error
		if n, err = tableNode(t); err != nil {
			return err
		}
	}
	r := rewriter{script: s, ddl: d, dialect: dialect, after: t}
	return r.createTable(n)
}

// recover creates tables that come back from what they were.
func (s *script) recover(d *event.DDL, dialect Dialect, canFill bool) error {
	if dialect.Kind == TiDB && d.Query != "" {
		s.use = ""
		if d.Action == event.ActionRecoverTable {
			s.use = d.Schema
		}
		nodes, err := parse(d)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			qualify(n, d.Schema)
			text, err := restore(n)
			if err != nil {
				return cdcerr.ExecDDLFailed.Wrap(err, "job %d: %s", d.JobID, d.Query)
			}
			s.add(text)
		}
		return nil
	}
	if !canFill {
		return notPortable(d, dialect, FeatureRecover, "its rows come back without events, and this sink was given nothing to read them with")
	}
	if d.DatabaseAfter != nil {
		s.use = ""
		s.add("CREATE DATABASE IF NOT EXISTS " + databaseText(d.DatabaseAfter, dialect))
	}
	for _, change := range d.Tables {
		t := change.After
		if t == nil {
			continue
		}
		if err := s.bringBack(d, dialect, t); err != nil {
			return err
		}
	}
	s.note(FeatureRecover, d.Query)
	return nil
}

func (s *script) bringBack(d *event.DDL, dialect Dialect, t *event.Table) error {
	switch t.Kind {
	case event.View:
		one := *d
		one.Tables = []event.TableChange{{After: t}}
		return s.createView(&one)
	case event.BaseTable:
	case event.Sequence, event.TemporaryTable:
		return nil // no rows, and what the sequence had come to is not known
	}
	n, err := tableNode(t)
	if err != nil {
		return err
	}
	// What an interrupted attempt has left is not the table.
	s.add("DROP TABLE IF EXISTS " + qualified(t.Schema, t.Name))
	r := rewriter{script: s, ddl: d, dialect: dialect, after: t}
	if err := r.createTable(n); err != nil {
		return err
	}
	s.fill = append(s.fill, t)
	return nil
}
