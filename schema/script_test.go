package schema_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/script"
	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/tso"
)

// A script is a list of commands, each with lines of input, a line of ----, and
// what the command prints. Its words:
//
//	start TS                     a new store
//	load                         the snapshot, one object a line:
//	    db ID NAME
//	    table SCHEMAID TABLE     TABLE is ID:NAME(COLID:COLUMN:TYPE,…)[PART=ID,…]{view},
//	                             !INDEX before the brace is an index on the first column,
//	                             !!INDEX a unique one, ~ after its name says it is being dropped
//	    TS STATE JOB key=value…  a row of the job table
//	rows                         job rows, one a line. STATE: queue run done rolled
//	                             cancelled paused synced (a history row) deleted.
//	                             Keys: type schema table ss sv info infos db args subs query
//	resolve TS                   prints what is ready
//	answer JOB                   tables of a recovered database, one a line
//	at ID TS…                    the table of a row, by physical id and commit-ts
//	tables TS
//	begun                        prints the jobs that count as carried out
//	forget TS
func TestScripts(t *testing.T) {
	script.Run(t, func(t *testing.T) func([]string) string {
		p := &play{t: t, reads: map[int64]schema.Read{}}
		return func(commands []string) string { return p.command(strings.Fields(commands[0]), commands[1:]) }
	})
}

type play struct {
	t     *testing.T
	store *schema.Store
	reads map[int64]schema.Read
}

func (s *play) command(words, input []string) string {
	switch words[0] {
	case "start":
		s.store = schema.NewStore(ts(s.t, words[1]))
	case "load":
		for _, line := range input {
			if err := s.load(strings.Fields(line)); err != nil {
				return "error: " + err.Error() + "\n"
			}
		}
	case "rows":
		for _, line := range input {
			if err := s.store.Step(s.row(line)); err != nil {
				return "error: " + err.Error() + "\n"
			}
		}
	case "resolve":
		if err := s.store.Resolve(ts(s.t, words[1])); err != nil {
			return "error: " + err.Error() + "\n"
		}
		return s.ready()
	case "answer":
		var infos []*schema.TableInfo
		for _, line := range input {
			infos = append(infos, s.table(line))
		}
		read := s.reads[number(s.t, words[1])]
		if err := s.store.Answer(read, infos); err != nil {
			return "error: " + err.Error() + "\n"
		}
		return s.ready()
	case "at":
		var out strings.Builder
		for _, word := range words[2:] {
			table, ok := s.store.TableAt(number(s.t, words[1]), ts(s.t, word))
			if !ok {
				table = nil
			}
			fmt.Fprintf(&out, "%s: %s\n", word, brief(table))
		}
		return out.String()
	case "tables":
		var out strings.Builder
		for _, table := range s.store.Tables(ts(s.t, words[1])) {
			fmt.Fprintln(&out, brief(table))
		}
		return out.String()
	case "begun":
		var out strings.Builder
		for _, begun := range s.store.Begun() {
			fmt.Fprintf(&out, "job %d", begun.ID)
			anything := begun.Touches(func(database, table string) bool {
				fmt.Fprintf(&out, " %s.%s", database, table)
				return false
			})
			if anything {
				out.WriteString(" and what else cannot be told")
			}
			out.WriteByte('\n')
		}
		return out.String()
	case "forget":
		s.store.Forget(ts(s.t, words[1]))
	default:
		s.t.Fatalf("no command %q", words[0])
	}
	return ""
}

func (s *play) load(words []string) error {
	switch words[0] {
	case "db":
		s.store.LoadDatabase(s.database(words[1] + ":" + words[2]))
	case "table":
		return s.store.LoadTable(number(s.t, words[1]), s.table(words[2]))
	default:
		return s.store.LoadJob(s.row(strings.Join(words, " ")).Job)
	}
	return nil
}

var states = map[string]int{
	"queue": schema.StateQueueing, "run": schema.StateRunning, "done": schema.StateDone, "rolled": schema.StateRollbackDone,
	"cancelled": schema.StateCancelled, "paused": schema.StatePaused, "synced": schema.StateSynced, "deleted": schema.StateDone,
	"history-rolled": schema.StateRollbackDone,
}

// row reads a job row by way of its JSON, as a real one is read.
func (s *play) row(line string) schema.JobRow {
	line, query, _ := strings.Cut(line, " query=")
	words := strings.Fields(line)
	id, state := number(s.t, words[2]), words[1]
	if _, ok := states[state]; !ok {
		s.t.Fatalf("no state %q", state)
	}
	job := map[string]any{"id": id, "state": states[state], "query": query, "version": 2}
	binlog := map[string]any{"SchemaVersion": 0}
	if state == "done" || state == "synced" {
		binlog["SchemaVersion"] = id
	}
	for _, word := range words[3:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "type":
			job["type"] = number(s.t, value)
		case "schema":
			job["schema_id"] = number(s.t, value)
		case "table":
			job["table_id"] = number(s.t, value)
		case "ss":
			job["schema_state"] = number(s.t, value)
		case "name":
			job["schema_name"] = value
		case "tname":
			job["table_name"] = value
		case "sv":
			binlog["SchemaVersion"] = number(s.t, value)
		case "info":
			binlog["TableInfo"] = s.table(value)
		case "infos":
			var infos []*schema.TableInfo
			for _, one := range strings.Split(value, ";") {
				infos = append(infos, s.table(one))
			}
			binlog["MultipleTableInfos"] = infos
		case "db":
			binlog["DBInfo"] = s.database(value)
		case "args":
			job["raw_args"] = json.RawMessage(value)
			if value[0] == '[' {
				job["version"] = 1
			}
		case "subs":
			job["multi_schema_info"] = map[string]any{"sub_jobs": json.RawMessage(value)}
		default:
			s.t.Fatalf("no key %q in %s", key, line)
		}
	}
	job["binlog"] = binlog
	b, err := json.Marshal(job)
	if err != nil {
		s.t.Fatalf("%s: %v", line, err)
	}
	parsed, err := schema.ParseJob(b)
	if err != nil {
		s.t.Fatalf("%s: %v", line, err)
	}
	at := ts(s.t, words[0])
	return schema.JobRow{StartTS: at - 1, CommitTS: at, Delete: state == "deleted", History: state == "synced" || state == "history-rolled", Job: parsed}
}

func (s *play) database(text string) *schema.DBInfo {
	id, name, _ := strings.Cut(text, ":")
	return &schema.DBInfo{ID: number(s.t, id), Name: folded(name), Charset: "utf8mb4", Collate: "utf8mb4_bin", State: schema.SchemaPublic}
}

// table reads ID:NAME(COLID:COLUMN:TYPE,…)[PART=ID,…]{view}.
func (s *play) table(text string) *schema.TableInfo {
	text, isView := strings.CutSuffix(text, "{view}")
	text, isSequence := strings.CutSuffix(text, "{sequence}")
	text, index, _ := strings.Cut(text, "!")
	id, rest, _ := strings.Cut(text, ":")
	name, rest, _ := strings.Cut(rest, "(")
	columns, parts, _ := strings.Cut(rest, ")")
	t := &schema.TableInfo{ID: number(s.t, id), Name: folded(name), State: schema.SchemaPublic}
	for i, c := range strings.Split(columns, ",") {
		if c == "" {
			continue
		}
		f := strings.Split(c+"::", ":")
		col := schema.ColumnInfo{ID: number(s.t, f[0]), Name: folded(f[1]), Offset: i, State: schema.SchemaPublic, Version: 2}
		col.Type = schema.FieldType{Tp: byte(event.TypeLong), Flen: 11}
		if f[2] == "varchar" {
			col.Type = schema.FieldType{Tp: byte(event.TypeVarchar), Flen: 20, Charset: "utf8mb4", Collate: "utf8mb4_bin"}
		}
		t.Columns = append(t.Columns, col)
	}
	if index != "" {
		index, unique := strings.CutPrefix(index, "!")
		index, dropped := strings.CutSuffix(index, "~")
		x := schema.IndexInfo{ID: 1, Name: folded(index), State: schema.SchemaPublic, Unique: unique, Columns: []schema.IndexColumn{{Length: -1}}}
		if dropped {
			x.State = schema.SchemaWriteOnly
		}
		t.Indexes = append(t.Indexes, x)
	}
	if parts = strings.Trim(parts, "[]"); parts != "" {
		t.Partition = &schema.PartitionInfo{Enable: true, Type: 1}
		for _, p := range strings.Split(parts, ",") {
			name, id, _ := strings.Cut(p, "=")
			t.Partition.Definitions = append(t.Partition.Definitions, schema.PartitionDef{ID: number(s.t, id), Name: folded(name)})
		}
	}
	if isView {
		t.View = &schema.ViewInfo{Select: "SELECT 1"}
	}
	if isSequence {
		t.Sequence = json.RawMessage(`{}`)
	}
	return t
}

// ready prints what the store hands out.
func (s *play) ready() string {
	var out strings.Builder
	r := s.store.Ready()
	for _, d := range r.DDLs {
		fmt.Fprintf(&out, "ddl job=%d action=%d switch=%d finished=%d schema=%s", d.JobID, d.Action, d.SwitchTS, d.FinishedTS, d.Schema)
		if d.Partition != "" {
			fmt.Fprintf(&out, " partition=%s validation=%v", d.Partition, d.WithValidation)
		}
		out.WriteString("\n")
		if d.DatabaseBefore != nil || d.DatabaseAfter != nil {
			fmt.Fprintf(&out, "  database %s -> %s\n", briefDB(d.DatabaseBefore), briefDB(d.DatabaseAfter))
		}
		for _, c := range d.Tables {
			fmt.Fprintf(&out, "  %s -> %s\n", brief(c.Before), brief(c.After))
		}
		for _, c := range d.Conversions {
			fmt.Fprintf(&out, "  converted %s of %d: %d -> %d\n", c.Name, c.TableID, c.FromID, c.ToID)
		}
	}
	for _, read := range r.Reads {
		s.reads[read.JobID] = read
		fmt.Fprintf(&out, "read database %d at %d for job %d\n", read.SchemaID, read.At, read.JobID)
	}
	for _, m := range r.Moves {
		fmt.Fprintf(&out, "%d -> %d (%s)\n", m.From, m.To, m.Cause)
	}
	fmt.Fprintf(&out, "resolved %d\n", r.Resolved)
	return out.String()
}

func brief(t *event.Table) string {
	if t == nil {
		return "none"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d:%s(", t.ID, t.FullName())
	for i, c := range t.Columns {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "%d:%s", c.ID, c.Name)
	}
	b.WriteString(")")
	for _, p := range t.Partitions {
		fmt.Fprintf(&b, " %s=%d", p.Name, p.ID)
	}
	switch t.Kind {
	case event.View:
		b.WriteString(" view")
	case event.Sequence:
		b.WriteString(" sequence")
	}
	return b.String()
}

func briefDB(d *event.Database) string {
	if d == nil {
		return "none"
	}
	return fmt.Sprintf("%d:%s", d.ID, d.Name)
}

func folded(s string) schema.Name { return schema.Name{O: s, L: strings.ToLower(s)} }

func ts(t *testing.T, s string) tso.TS { return tso.TS(number(t, s)) }

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
