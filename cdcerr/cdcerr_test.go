package cdcerr_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
)

func TestFirstCodeStays(t *testing.T) {
	err := cdcerr.CorruptRow.New("row %d", 7)
	err = cdcerr.MySQLTxn.Wrap(fmt.Errorf("batch: %w", err), "sink")
	if !cdcerr.CorruptRow.Is(err) || cdcerr.MySQLTxn.Is(err) {
		t.Fatal(err)
	}
	if !strings.Contains(err.Error(), "sink: batch: [CDC:ErrDecodeRowToDatum] row 7") {
		t.Fatal(err)
	}
}

func TestUnknownErrorsRetry(t *testing.T) {
	if cdcerr.Fate(errors.New("x")) != cdcerr.Retry {
		t.Fatal("an error without a code must be retried")
	}
	if cdcerr.Fate(fmt.Errorf("w: %w", cdcerr.Bug("x"))) != cdcerr.Terminal {
		t.Fatal("a bug must end the changefeed")
	}
	if cdcerr.Unexpected.Wrap(nil, "x") != nil {
		t.Fatal("wrapping nothing made an error")
	}
}

// Every code declared in table.go is listed, complete and unique.
func TestTableIsWhole(t *testing.T) {
	src, err := os.ReadFile("table.go")
	if err != nil {
		t.Fatal(err)
	}
	if declared := strings.Count(string(src), "&Code{"); declared != len(cdcerr.All()) {
		t.Fatalf("%d codes declared, %d in All", declared, len(cdcerr.All()))
	}
	seen := map[string]bool{}
	for _, c := range cdcerr.All() {
		if seen[c.ID] || !strings.HasPrefix(c.ID, "CDC:Err") || c.Meaning == "" || c.Remedy == "" {
			t.Errorf("bad row %+v", c)
		}
		seen[c.ID] = true
	}
}

func TestExplainNamesTheRemedy(t *testing.T) {
	err := fmt.Errorf("changefeed x: %w", cdcerr.CorruptRow.New("row 7"))
	text := cdcerr.Explain(err)
	for _, part := range []string{"changefeed x: [CDC:ErrDecodeRowToDatum] row 7", cdcerr.CorruptRow.Meaning, cdcerr.CorruptRow.Remedy} {
		if !strings.Contains(text, part) {
			t.Errorf("%q lacks %q", text, part)
		}
	}
	if plain := cdcerr.Explain(errors.New("plain")); plain != "plain" {
		t.Error(plain)
	}
}

func TestDetailIsWithoutTheCode(t *testing.T) {
	for want, err := range map[string]error{
		"row 7":            cdcerr.CorruptRow.New("row 7"),
		"table t: row 7":   fmt.Errorf("table t: %w", cdcerr.CorruptRow.New("row 7")),
		"row 7: [x] wrong": cdcerr.CorruptRow.Wrap(errors.New("[x] wrong"), "row 7"),
		"plain":            errors.New("plain"),
	} {
		if got := cdcerr.Detail(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What one capture may meet alone is tried on another one; what is of the data is the same
// for all.
func TestLocal(t *testing.T) {
	for c, want := range map[*cdcerr.Code]bool{
		cdcerr.MySQLConnection: true, cdcerr.DiskFull: true, cdcerr.PDUnreachable: true, cdcerr.StorageGone: true,
		cdcerr.MySQLTableDiffers: false, cdcerr.MySQLPacket: false, cdcerr.ExecDDLFailed: false, cdcerr.CorruptRow: false, cdcerr.RedoGap: false, cdcerr.Fenced: false,
	} {
		if c.Local() != want {
			t.Errorf("%s: %v", c.ID, c.Local())
		}
	}
	for _, c := range cdcerr.All() {
		if c.Local() && c.Class != cdcerr.Retry {
			t.Errorf("%s is tried on another capture, and is not to be tried again", c.ID)
		}
		if cdcerr.Find(c.ID) != c {
			t.Errorf("%s is not found", c.ID)
		}
	}
	if cdcerr.Find("CDC:ErrOfNobody") != nil {
		t.Error("a code that there is not is found")
	}
}
