package upstream

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	pd "github.com/tikv/pd/client"
)

// tickingPD gives timestamps, and nothing else.
type tickingPD struct{ pd.Client }

func (tickingPD) GetTS(context.Context) (physical, logical int64, err error) { return 1, 1, nil }

// Who has just given a timestamp is there, whether or not it takes another connection.
func TestATimestampIsASignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Default()
		cfg.PD = []string{"127.0.0.1:1"} // nobody
		c := newClient(cfg)
		c.pd = absentPD{}
		reached := func(want bool) {
			t.Helper()
			if got := c.Reached(t.Context(), Addresses{}); got != want {
				t.Errorf("reached: %v", got)
			}
		}
		reached(false)
		c.pd = tickingPD{}
		if _, err := c.TS(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.pd = absentPD{} // which tells no members
		reached(true)
		time.Sleep(answerWait - 1)
		reached(true)
		time.Sleep(time.Nanosecond)
		reached(false)
	})
}
