package coordinator_test

import (
	"encoding/json"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// An expression that does not fit a table that there is, or no table at all, is
// refused, and not found out by the first row.
func TestExpressionsAreRefused(t *testing.T) {
	s := newSite(t)
	n := s.node()
	ctx := t.Context()
	for _, prepared := range []bool{false, true} {
		if prepared {
			must(t, s.bank.Prepare(ctx))
		}
		for _, text := range []string{"id >", "id > now()", "nocol > 3"} {
			if text == "nocol > 3" && !prepared {
				continue // it may be right for a table that is still to come
			}
			c := s.creation()
			c.Config = json.RawMessage(`{"filter":{"event_filters":[{"matcher":["*.*"],"ignore_insert_value_expr":"` + text + `"}]}}`)
			if _, err := n.Create(ctx, c); !cdcerr.FilterExpression.Is(err) {
				t.Errorf("%s, tables %v: %v", text, prepared, err)
			}
			if _, err := n.Verify(ctx, c); !cdcerr.FilterExpression.Is(err) {
				t.Errorf("%s, verified, tables %v: %v", text, prepared, err)
			}
		}
	}
}
