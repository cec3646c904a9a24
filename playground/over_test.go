package playground

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// cutAt ends a recording a little after the commit of the first write whose value
// has all of the texts, and says at which commit-ts that was.
func cutAt(t *testing.T, stem string, texts ...string) uint64 {
	t.Helper()
	var at uint64
	spoilStream(t, stem, func(s string) string {
		lines := strings.SplitAfter(s, "\n")
		var start uint64
		last := -1 // the commit of its last key
		for i, l := range lines {
			var e struct {
				Type     string
				Value    string
				StartTS  uint64 `json:"start_ts"`
				CommitTS uint64 `json:"commit_ts"`
			}
			if l != "" && json.Unmarshal([]byte(l), &e) != nil {
				t.Fatal(l)
			}
			found := true
			for _, text := range texts {
				found = found && strings.Contains(e.Value, hex.EncodeToString([]byte(text)))
			}
			if found && start == 0 {
				start = e.StartTS
			}
			if start != 0 && e.StartTS == start && e.CommitTS != 0 {
				at, last = e.CommitTS, i
			}
		}
		if last < 0 {
			t.Fatal("no such write")
		}
		return strings.Join(lines[:last+1], "") + fmt.Sprintf("{\"type\":\"END\",\"ts\":%d}\n", at+100)
	})
	return at
}

// A recording that ends while a DDL job has switched and is not done has no end:
// a cluster would tell what became of the job, a file that is over never will.
func TestARecordingThatEndsWithinAJobIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		recording string
		texts     []string
		says      string
	}{
		"MODIFY COLUMN":      {"13_ddl_column", []string{`"type":12,`, `"schema_state":5`, `"state":1,`}, "modify column on test."},
		"TRUNCATE PARTITION": {"11_partition", []string{`"type":23,`, `"schema_state":1,`, `"state":1,`}, "truncate partition on test."},
	} {
		t.Run(name, func(t *testing.T) {
			dir, stem := copyRecording(t, c.recording)
			at := cutAt(t, stem, c.texts...)
			replaceIn(t, stem+".expected.jsonl", `"end_ts":`, fmt.Sprintf(`"end_ts":%d,"was":`, at+100))
			status, stdout, stderr := command(t, "--recording", dir, "--sink-uri", "blackhole://", "--verify")
			for _, text := range []string{cdcerr.RecordingInvalid.ID, c.says, fmt.Sprintf("switch-ts %d", at), fmt.Sprintf("END %d", at+100), "record until the job has ended"} {
				if !strings.Contains(stderr, text) {
					t.Errorf("no %q in %s", text, stderr)
				}
			}
			if status != couldNotRun || stdout != "" {
				t.Errorf("status %d, %q", status, stdout)
			}
		})
	}
}
