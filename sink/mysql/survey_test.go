package mysql

import (
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
)

func TestGrants(t *testing.T) {
	for _, c := range []struct {
		lines   string
		lacking string
	}{
		{"GRANT USAGE ON *.* TO `u`@`%`", "SELECT, INSERT, UPDATE, DELETE"},
		{"GRANT ALL PRIVILEGES ON *.* TO 'root'@'%' WITH GRANT OPTION", ""},
		{"GRANT SELECT, INSERT, UPDATE, DELETE ON `shop`.* TO `u`@`%`", ""},
		{"GRANT SELECT ON *.* TO u\nGRANT Insert,UPDATE ON `sh%`.* TO u\nGRANT DELETE ON `sho_`.`t` TO u", "INSERT, UPDATE"},
		{"GRANT SELECT, INSERT, UPDATE ON `s\\_op`.* TO u\nGRANT SELECT ON `other`.* TO u", "SELECT, INSERT, UPDATE, DELETE"},
		{"GRANT SELECT (a), INSERT (a, b), UPDATE ON TABLE `shop`.`t` TO u", "DELETE"},
		{"GRANT USAGE ON *.* TO u\nGRANT `writer` TO u\nSET DEFAULT ROLE writer FOR u", ""},
	} {
		g := &grants{}
		for line := range strings.SplitSeq(c.lines, "\n") {
			g.add(line)
		}
		if got := strings.Join(g.lacking("shop", rowRights), ", "); got != c.lacking {
			t.Errorf("%s: lacks %q, want %q", c.lines, got, c.lacking)
		}
	}
	for object, name := range map[string]string{"`a.b`.*": "a.b", "`a``.b`.`t`": "a`.b", "`größe`.*": "größe", "`gr__e`.*": "größe"} {
		g := &grants{}
		g.add("GRANT SELECT ON " + object + " TO `u`@`%`")
		if lacking := g.lacking(name, []string{"SELECT"}); lacking != nil {
			t.Errorf("%s on %s: lacks %q", object, name, lacking)
		}
	}
}

// What stands in the way of rows is an error before the first of them, what may is
// noted.
func TestSurvey(t *testing.T) {
	w := newWorld(t)
	here := w.create("create table Here (id int primary key)")
	gone := &event.Table{Schema: w.schema, Name: "gone"}
	notes, err := w.sink.Survey(t.Context(), []*event.Table{here, gone})
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0], "1 of 2 tables are not downstream") || !strings.Contains(notes[0], gone.FullName()) {
		t.Errorf("%v, %v", notes, err)
	}
	if notes, err = w.sink.Survey(t.Context(), []*event.Table{here}); err != nil || len(notes) != 0 {
		t.Errorf("nothing is amiss: %v, %v", notes, err)
	}
	mustExec(t, w.db, "CREATE USER short@'%' IDENTIFIED BY 's'")
	defer mustExec(t, w.db, "DROP USER short@'%'")
	mustExec(t, w.db, "GRANT SELECT, INSERT, UPDATE ON "+w.schema+".* TO short@'%'")
	short := openURI(t, strings.Replace(server.URI(), "root", "short:s", 1))
	if _, err := short.Survey(t.Context(), []*event.Table{here}); !cdcerr.MySQLAccessDenied.Is(err) || !strings.Contains(err.Error(), "take DELETE, which") {
		t.Errorf("%v", err)
	}
	mustExec(t, w.db, "GRANT CREATE, ALTER, INDEX ON "+w.schema+".* TO short@'%'")
	mustExec(t, w.db, "GRANT DELETE ON "+w.schema+".* TO PUBLIC")
	defer mustExec(t, w.db, "REVOKE DELETE ON "+w.schema+".* FROM PUBLIC")
	if notes, err := short.Survey(t.Context(), []*event.Table{here}); err != nil || len(notes) != 1 || !strings.Contains(notes[0], "may take DROP, which") {
		t.Errorf("%v, %v", notes, err)
	}
}
