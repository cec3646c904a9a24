package catalog

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	weights "github.com/sluice-cdc/sluice/collation"
	"github.com/sluice-cdc/sluice/internal/golden"
	"github.com/sluice-cdc/sluice/tso"
)

// verdict counts the recorded jobs of one kind.
type verdict struct {
	held, differ int
	why          []string
}

// A recording holds this package to what a cluster did. Every value of metadata
// comes back to the byte. Every row is written so by a writer of its time. And
// every job, planned from its query in its session over the metadata that stood
// before it, takes the recorded steps: job row, history row and each key of
// metadata are the same to the byte, but for what no one can know.
func TestRecordings(t *testing.T) {
	sorted, err := weights.New()
	if err != nil {
		t.Fatal(err)
	}
	verdicts := verdicts{}
	forms, rows := &formTally{count: map[string]int{}, seen: map[string]bool{}}, &rowTally{}
	for _, path := range golden.Recordings(t) {
		r := readRecording(t, path)
		forms.comesBack(t, r)
		rows.writtenSo(t, r, sorted)
		f := newFollower(t, r, verdicts)
		for _, c := range r.commits {
			f.commit(c)
		}
	}
	forms.enough(t)
	rows.enough(t)
	verdicts.enough(t)
}

// verdicts are those of all kinds.
type verdicts map[Action]*verdict

func (verdicts verdicts) enough(t *testing.T) {
	total := 0
	for _, a := range slices.Sorted(maps.Keys(verdicts)) {
		v := verdicts[a]
		total += v.held
		t.Logf("action %2d: %3d held, %3d differ", a, v.held, v.differ)
		if v.differ > 0 {
			t.Errorf("action %d: %d jobs differ, such as\n%s", a, v.differ, strings.Join(v.why, "\n"))
		}
	}
	if kinds := len(verdicts); kinds < 50 || total < 600 {
		t.Errorf("only %d jobs of %d kinds were compared", total, kinds)
	}
}

// follower walks over a recording with a catalog.
type follower struct {
	t        *testing.T
	r        *recorded
	c        *Catalog
	verdicts map[Action]*verdict
	sessions sessions
	running  map[string]*Job // by job id
	waiting  []*Job          // planned by a statement that makes several
	bad      map[string]bool // job ids that differ
	policyID []byte          // PolicyGlobalID that is written in a transaction before its job
}

func newFollower(t *testing.T, r *recorded, verdicts map[Action]*verdict) *follower {
	f := &follower{t: t, r: r, c: New(), verdicts: verdicts, running: map[string]*Job{}, bad: map[string]bool{}}
	for _, key := range slices.Sorted(maps.Keys(r.base)) {
		f.apply(key, r.base[key], 0)
	}
	f.sessions = newSessions(r.sql)
	f.c.OldCollations = strings.HasPrefix(r.name, "oldcoll")
	return f
}

func (f *follower) apply(key string, value []byte, commit uint64) {
	if id, ok := strings.CutPrefix(key, "DDLJobHistory/"); ok {
		n, err := strconv.ParseUint(id, 10, 64)
		if err != nil {
			f.t.Fatal(err)
		}
		key = "DDLJobHistory/" + string(binary.BigEndian.AppendUint64(nil, n))
	}
	if err := f.c.Apply(KV{rawKey(key), value}, commit); err != nil {
		f.t.Fatal(err)
	}
}

func (f *follower) commit(c commit) {
	jobs := map[string]bool{}
	version := ""
	for key := range c.puts {
		kind, id, _ := strings.Cut(key, "/")
		if kind == "job" || kind == "history" {
			jobs[id] = true
		}
		if v, ok := strings.CutPrefix(key, "Diff:"); ok {
			version = v
		}
	}
	if id, ok := c.puts["PolicyGlobalID"]; ok && len(c.puts) == 1 {
		f.policyID = id // of the job that comes next
		return
	}
	if len(jobs) > 0 && f.policyID != nil {
		c.puts["PolicyGlobalID"], f.policyID = f.policyID, nil
	}
	// The version's own key is written in a transaction just before.
	delete(c.puts, "SchemaVersionKey")
	if version != "" {
		c.puts["SchemaVersionKey"] = []byte(version)
	}
	for id := range jobs {
		if len(jobs) > 1 {
			continue
		}
		f.step(id, c)
	}
	if len(jobs) > 1 {
		f.together(slices.Sorted(maps.Keys(jobs)), c)
	}
	for key, value := range c.puts {
		if !strings.HasPrefix(key, "job/") && !strings.HasPrefix(key, "history/") {
			f.apply(key, value, c.commit)
		}
	}
}

// together is several jobs that were queued in one transaction: the same as one
// after the other, each with the ids that it took.
func (f *follower) together(ids []string, c commit) {
	for _, id := range ids {
		f.step(id, commit{c.start, c.commit, map[string][]byte{
			"job/" + id: c.puts["job/"+id], "NextGlobalID": []byte(id),
		}})
	}
}

// step holds one recorded step of a job against the next one here.
func (f *follower) step(id string, c commit) {
	if f.bad[id] {
		return
	}
	meta := c.puts["job/"+id]
	name := "job/" + id
	if meta == nil {
		name = "history/" + id
		meta = c.puts[name]
	}
	var want JobInfo
	if err := json.Unmarshal(jobMeta(f.t, name, meta), &want); err != nil {
		f.t.Fatal(err)
	}
	j := f.running[id]
	if j == nil {
		planned, err := f.plan(&want)
		if err != nil {
			f.fail(id, &want, "plan: %v", err)
			return
		}
		j = planned
		f.running[id] = j
	}
	if want.State == JobRollingback && j.failure == nil {
		if err := j.Fail(want.Err.Code, want.Err.Message); err != nil {
			f.fail(id, &want, "%v", err)
			return
		}
	}
	s, err := j.Next(tso.TS(c.start))
	if err != nil {
		f.fail(id, &want, "step: %v", err)
		return
	}
	if s == nil {
		f.fail(id, &want, "the job has ended here, want state %d/%d", want.State, want.SchemaState)
		return
	}
	if diff := f.compare(s, c, &want); len(diff) > 0 {
		f.fail(id, &want, "state %d/%d: %s", want.State, want.SchemaState, strings.Join(diff, "\n      "))
		return
	}
	if strings.HasPrefix(name, "history/") {
		f.verdict(want.Type).held++
		delete(f.running, id)
	}
}

func (f *follower) verdict(a Action) *verdict {
	if f.verdicts[a] == nil {
		f.verdicts[a] = &verdict{}
	}
	return f.verdicts[a]
}

func (f *follower) fail(id string, want *JobInfo, format string, args ...any) {
	f.bad[id] = true
	v := f.verdict(want.Type)
	v.differ++
	limit, err := strconv.Atoi(os.Getenv("WHY"))
	if err != nil {
		limit = 3
	}
	if len(v.why) < limit {
		v.why = append(v.why, fmt.Sprintf("  %s job %s, %.200s\n      %s", f.r.name, id, want.Query, fmt.Sprintf(format, args...)))
	}
}

func (f *follower) plan(want *JobInfo) (*Job, error) {
	for i, j := range f.waiting {
		if j.info.Query == want.Query {
			f.waiting = slices.Delete(f.waiting, i, i+1)
			return j, nil
		}
	}
	s, sql := f.sessions.of(want)
	jobs, err := f.c.Plan(sql, s)
	if err != nil {
		return nil, err
	}
	if len(jobs) == 0 {
		return nil, fmt.Errorf("no job")
	}
	if want.Type == ActionCreateTables {
		return Merge(jobs)
	}
	f.waiting = append(f.waiting, jobs[1:]...)
	return jobs[0], nil
}

// compare lists how a step differs from the recorded transaction.
func (f *follower) compare(s *Step, c commit, want *JobInfo) []string {
	got := map[string][]byte{}
	for _, kv := range s.Writes {
		got[readableKey(f.t, kv.Key)] = kv.Value
	}
	var out []string
	keys := maps.Clone(got)
	maps.Copy(keys, c.puts)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		g, isGot := got[key]
		w, isWant := c.puts[key]
		if !isGot || !isWant {
			if isGot {
				out = append(out, fmt.Sprintf("%s written, want none: %.100s", key, g))
			} else {
				out = append(out, fmt.Sprintf("%s not written, want %.300s", key, w))
			}
			continue
		}
		out = append(out, f.compareKey(key, g, w, want)...)
	}
	return out
}

func (f *follower) compareKey(key string, got, want []byte, job *JobInfo) []string {
	if string(got) == string(want) {
		return nil
	}
	if got == nil || want == nil {
		return []string{fmt.Sprintf("%s deleted: %v, want %v", key, got == nil, want == nil)}
	}
	kind, _, _ := strings.Cut(key, "/")
	switch kind {
	case "job", "history":
		g, w := cells(f.t, got), cells(f.t, want)
		column := int64(5)
		if kind == "history" {
			column = 2
		}
		var out []string
		for id := range w {
			if id != column && !reflect.DeepEqual(g[id], w[id]) {
				out = append(out, fmt.Sprintf("%s column %d is %s, want %s", key, id, g[id], w[id]))
			}
		}
		return append(out, f.compareJob(key, g[column].([]byte), w[column].([]byte))...)
	case "DDLJobHistory":
		return f.compareJob(key, got, want)
	}
	var g, w any
	if json.Unmarshal(got, &g) != nil || json.Unmarshal(want, &w) != nil || reflect.DeepEqual(g, w) {
		return []string{fmt.Sprintf("%s is %.200s, want %.200s", key, got, want)}
	}
	return differences(key, g, w)
}

// compareJob holds two jobs against each other, but for what cannot be known:
// the session's trace, timestamps outside of the step, counts of rows.
func (f *follower) compareJob(key string, got, want []byte) []string {
	var g, w JobInfo
	if err := json.Unmarshal(got, &g); err != nil {
		f.t.Fatal(err)
	}
	if err := json.Unmarshal(want, &w); err != nil {
		f.t.Fatal(err)
	}
	g.StartTS, g.Trace, g.SeqNum, g.RowCount = w.StartTS, w.Trace, w.SeqNum, w.RowCount
	if g.SnapshotVer != 0 && w.SnapshotVer != 0 {
		g.SnapshotVer = w.SnapshotVer
	}
	if g.Reorg != nil && w.Reorg != nil {
		g.Reorg.Warnings, g.Reorg.WarningsCount = w.Reorg.Warnings, w.Reorg.WarningsCount
	}
	if g.Multi != nil && w.Multi != nil && len(g.Multi.SubJobs) == len(w.Multi.SubJobs) {
		for i, sub := range w.Multi.SubJobs {
			g.Multi.SubJobs[i].RowCount = sub.RowCount
			if g.Multi.SubJobs[i].SnapshotVer != 0 && sub.SnapshotVer != 0 {
				g.Multi.SubJobs[i].SnapshotVer = sub.SnapshotVer
			}
		}
	}
	var gv, wv any
	for _, p := range []struct {
		j *JobInfo
		v *any
	}{{&g, &gv}, {&w, &wv}} {
		text, err := json.Marshal(p.j)
		if err != nil {
			f.t.Fatal(err)
		}
		if err := json.Unmarshal(text, p.v); err != nil {
			f.t.Fatal(err)
		}
	}
	return differences(key, gv, wv)
}

// differences lists the places at which two JSON values differ.
func differences(path string, got, want any) []string {
	if reflect.DeepEqual(got, want) {
		return nil
	}
	gm, isMap := got.(map[string]any)
	wm, isMapToo := want.(map[string]any)
	if isMap && isMapToo {
		keys := maps.Clone(gm)
		maps.Copy(keys, wm)
		var out []string
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			g, ok := gm[k]
			w, okToo := wm[k]
			if !ok || !okToo {
				out = append(out, fmt.Sprintf("%s.%s is %s, want %s", path, k, there(g, ok), there(w, okToo)))
				continue
			}
			out = append(out, differences(path+"."+k, g, w)...)
		}
		return out
	}
	gl, isList := got.([]any)
	wl, isListToo := want.([]any)
	if isList && isListToo && len(gl) == len(wl) {
		var out []string
		for i := range gl {
			out = append(out, differences(fmt.Sprintf("%s[%d]", path, i), gl[i], wl[i])...)
		}
		return out
	}
	return []string{fmt.Sprintf("%s is %s, want %s", path, there(got, true), there(want, true))}
}

func there(v any, ok bool) string {
	if !ok {
		return "not there"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%.300s", text)
}

// sessions tells in which session a query was run.
type sessions struct {
	at  []Session
	sql []statement
	use map[string][]int // by text: the statements not yet given out
}

func newSessions(sql []statement) sessions {
	s := sessions{use: map[string][]int{}, sql: sql}
	now := map[string]Session{}
	for i, st := range sql {
		v, ok := now[st.conn]
		if !ok {
			v = Session{DB: "test", SQLMode: DefaultSQLMode, Zone: serverZone()}
		}
		text := strings.ToLower(strings.TrimSpace(st.sql))
		if zone, ok := strings.CutPrefix(text, "set time_zone="); ok {
			v.Zone = zoneOf(strings.Trim(st.sql[len(st.sql)-len(zone):], "'"))
		}
		if db, ok := strings.CutPrefix(text, "use "); ok {
			v.DB = strings.Trim(db, "`")
		}
		now[st.conn] = v
		s.at = append(s.at, v)
		s.use[st.sql] = append(s.use[st.sql], i)
	}
	return s
}

// serverZone is the zone of sessions that set none.
func serverZone() *time.Location { return time.FixedZone("Etc/UTC", 0) }

func zoneOf(name string) *time.Location {
	if at, err := time.Parse("-07:00", name); err == nil {
		_, offset := at.Zone()
		return time.FixedZone(name, offset)
	}
	if l, err := time.LoadLocation(name); err == nil {
		return l
	}
	return time.UTC
}

// of is the session of a job and the text that was run in it: the job's query,
// or a short form that the server has written out in it.
func (s *sessions) of(j *JobInfo) (Session, string) {
	out, sql := Session{DB: "test", SQLMode: DefaultSQLMode, Zone: serverZone()}, j.Query
	if len(s.use[sql]) == 0 {
		sql = s.short(sql)
	}
	if list := s.use[sql]; len(list) > 0 {
		out = s.at[list[0]]
		s.use[sql] = list[1:]
	}
	out.User = UserIdentity{Username: "root", Hostname: "127.0.0.1", AuthUsername: "root", AuthHostname: "%", AuthPlugin: "mysql_native_password"}
	out.SQLMode, out.BDRRole, out.CDCWriteSource = j.SQLMode, j.BDRRole, j.CDCWriteSource
	out.Now = tso.TS(j.StartTS).Time()
	var args columnArgs
	if strings.Contains(j.Query, "current_timestamp") && json.Unmarshal(j.RawArgs, &args) == nil && args.Column != nil {
		// The statement's own time is older than the job, and only seen here.
		if at, err := time.Parse("2006-01-02 15:04:05", fmt.Sprint(args.Column.OriginDefault)); err == nil {
			out.Now = at
		}
	}
	return out, sql
}

// short finds the statement that a query was written out from.
func (s *sessions) short(query string) string {
	words := strings.Fields(query)
	for _, st := range s.sql {
		given := strings.Fields(st.sql)
		if len(s.use[st.sql]) > 0 && len(words) > 3 && len(given) > 3 && slices.Equal(words[:3], given[:3]) && strings.Contains(st.sql, "partition less than") {
			return st.sql
		}
	}
	return query
}
