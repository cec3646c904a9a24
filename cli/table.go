package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/tso"
)

// forPeople tells whether -o table was given: what TiCDC prints as JSON is then
// printed for a person.
func (t *terminal) forPeople() bool { return t.output == "table" }

// rows prints lines in columns.
func (t *terminal) rows(lines [][]string) {
	w := tabwriter.NewWriter(t.Out, 0, 0, 2, ' ', 0)
	for _, line := range lines {
		fmt.Fprintln(w, strings.Join(line, "\t"))
	}
	if err := w.Flush(); err != nil {
		t.warn("%v", err)
	}
}

// ago is how far a timestamp is behind this machine's clock.
func (t *terminal) ago(ts tso.TS) string {
	if ts == 0 {
		return "-"
	}
	d := t.Now().Sub(ts.Time())
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return max(d, 0).Round(100 * time.Millisecond).String()
}

func (t *terminal) listTable(items []api.FeedItem) {
	lines := [][]string{{"NAMESPACE", "ID", "STATE", "CHECKPOINT (UTC)", "BEHIND", "ERROR"}}
	for _, f := range items {
		trouble := "-"
		if f.Error != nil {
			trouble = f.Error.Code
		}
		lines = append(lines, []string{f.Namespace, f.ID, f.State, when(f.CheckpointTSO), t.ago(f.CheckpointTSO), trouble})
	}
	t.rows(lines)
}

func (t *terminal) queryTable(f api.FeedInfo) error {
	stamp := func(ts tso.TS) string { return fmt.Sprintf("%d (%s UTC)", ts, when(ts)) }
	lines := [][]string{
		{"changefeed", f.Namespace + "/" + f.ID},
		{"state", f.State},
		{"sink", f.SinkURI},
		{"checkpoint-ts", stamp(f.CheckpointTS) + ", " + t.ago(f.CheckpointTS) + " behind"},
		{"resolved-ts", stamp(f.ResolvedTS)},
		{"start-ts", stamp(f.StartTS)},
	}
	if f.TargetTS != 0 {
		lines = append(lines, []string{"target-ts", stamp(f.TargetTS)})
	}
	for _, task := range f.TaskStatus {
		lines = append(lines, []string{"runs on", fmt.Sprintf("%s, %s", task.CaptureID, count(len(task.TableIDs), "table"))})
	}
	lines = append(lines, []string{"created", f.CreateTime.UTC().Format(time.DateTime) + " UTC, by " + f.CreatorVersion})
	if e := f.Error; e != nil {
		what := "error"
		if f.State == "finished" {
			what = "reason"
		}
		lines = append(lines, []string{what, fmt.Sprintf("[%s] at %s on %s: %s", e.Code, e.Time.UTC().Format(time.DateTime), e.Addr, e.Message)})
	}
	set, err := notDefault(f)
	if err != nil {
		return err
	}
	for i, line := range set {
		head := ""
		if i == 0 {
			head = "set"
		}
		lines = append(lines, []string{head, line})
	}
	t.rows(lines)
	return nil
}

// notDefault are the keys of a configuration that have another value than their
// default.
func notDefault(f api.FeedInfo) ([]string, error) {
	initial := changefeed.Default()
	text, err := initial.JSON()
	if err != nil {
		return nil, err
	}
	was, err := treeOf(text)
	if err != nil {
		return nil, err
	}
	now, err := treeOf(f.Config)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, line := range differences("", was, now, now) {
		key, values, _ := strings.Cut(line, ": ")
		_, value, _ := strings.Cut(values, " -> ")
		out = append(out, key+" = "+value)
	}
	return out, nil
}
