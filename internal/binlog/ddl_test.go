package binlog

import (
	"strings"
	"testing"
)

func TestForms(t *testing.T) {
	for text, want := range map[string]string{
		"CREATE DATABASE D":                       "create database d.",
		"CREATE TABLE t (id int)":                 "create b.t",
		"CREATE TABLE `o`.`T` LIKE `x`":           "create o.t",
		"DROP TABLE `b`.`t` /* by the server */":  "drop b.t",
		"TRUNCATE TABLE `T`":                      "truncate b.t",
		"RENAME TABLE a TO x, c TO a, x TO c":     "rename b.c to a, a to c",
		"RENAME TABLE b.c TO b.y, a TO c, y TO a": "rename b.c to a, a to c",
		"ALTER TABLE t ADD COLUMN (c int, d int)": "add column b.t c; add column b.t d",
		"ALTER TABLE t DROP COLUMN C, DROP KEY i": "drop column b.t c; drop index b.t i",
		"ALTER TABLE t MODIFY c bigint FIRST":     "modify column b.t c",
		"CREATE INDEX i ON t (c)":                 "add index b.t i",
		"ALTER TABLE t ADD INDEX i(c)":            "add index b.t i",
		"DROP INDEX i ON t":                       "drop index b.t i",
		"ALTER TABLE `p` EXCHANGE PARTITION `p0` WITH TABLE `b`.`q` WITHOUT VALIDATION": "exchange partition b.p p0 q",
	} {
		got, err := Forms("b", text)
		line := ""
		for i, f := range got {
			if i > 0 {
				line += "; "
			}
			line += f.String()
		}
		if err != nil || line != want {
			t.Errorf("%s: %q, %v; want %q", text, line, err, want)
		}
	}
	for text, want := range map[string]string{
		"CREATE DATABASE d": "", "CREATE TABLE t (id int)": "t", "ALTER TABLE t ADD COLUMN c int": "t", "DROP INDEX i ON t": "t",
		"RENAME TABLE a TO x, c TO a, x TO c": "a c", "RENAME TABLE a TO b, c TO d": "a b c d",
		"ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE q": "p q",
	} {
		all, err := Forms("b", text)
		if err != nil || strings.Join(all[0].Tables(), " ") != want {
			t.Errorf("%s is about %q, %v; want %q", text, all[0].Tables(), err, want)
		}
	}
	for _, text := range []string{"SELECT 1", "no statement"} {
		if _, err := Forms("b", text); err == nil {
			t.Errorf("%s has a form", text)
		}
	}
}
