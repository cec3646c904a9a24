package mysql

import "testing"

// Every server that has a fence ends the transaction of a process that was stopped in its
// midst, by what it has for that.
func TestIdleSettings(t *testing.T) {
	for kind, want := range map[Kind][]string{
		MariaDB: {"SET SESSION idle_transaction_timeout = 3"},
		TiDB:    {"SET SESSION tidb_idle_transaction_timeout = 3", "SET SESSION wait_timeout = 10"},
		MySQL:   {"SET SESSION wait_timeout = 10"},
	} {
		var got []string
		for _, s := range settings(Dialect{Kind: kind, Major: 8}, true, &Config{}) {
			for _, w := range want {
				if s.sql == w && s.optional {
					got = append(got, w)
				}
			}
		}
		if len(got) != len(want) {
			t.Errorf("%v: %q of %q", kind, got, want)
		}
		for _, s := range settings(Dialect{Kind: kind, Major: 8}, true, &Config{NoFence: true}) {
			for _, w := range want {
				if s.sql == w {
					t.Errorf("%v without a fence: %q", kind, w)
				}
			}
		}
	}
}
