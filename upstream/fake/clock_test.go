package fake

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-cdc/sluice/tso"
)

const ms = tso.TS(1 << 18)

func TestClockFollowsTheWall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(1000 * ms)
		<-time.After(time.Second)
		if got := c.Now(); got != 1000*ms {
			t.Errorf("a clock that was not started moved to %d", got)
		}
		c.Start(2)
		<-time.After(time.Second)
		if got := c.Now(); got != 3000*ms {
			t.Errorf("a second at twice the speed: %d", got.Physical())
		}
		c.Start(1)
		<-time.After(time.Second)
		if got := c.Now(); got != 4000*ms {
			t.Errorf("another second: %d", got.Physical())
		}
	})
}

func TestClockStopsBelowWhatIsToCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(1000 * ms)
		c.Limit(1500 * ms)
		c.Start(1)
		<-time.After(10 * time.Second)
		if got := c.Now(); got >= 1500*ms || got < 1490*ms {
			t.Errorf("the clock stands at %d, a commit at 1500 is to come", got.Physical())
		}
		// Timestamps can still be had, each once, until there is no room; then they
		// wait for the commit.
		last, n := c.Now(), 0
		for ; ; n++ {
			ts, wait := c.take(1<<16, false)
			if wait != nil {
				break
			}
			if ts <= last || ts >= 1500*ms {
				t.Fatalf("took %d after %d, the limit is %d", ts, last, 1500*ms)
			}
			last = ts
		}
		if n < 3 {
			t.Errorf("room for %d requests only", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience/2)
		defer cancel()
		if ts, err := c.Take(ctx, 1<<16); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("took %d, %v, with no room left", ts, err)
		}
		// Who has the patience gets one from above; nothing is promised by that.
		beyond, err := c.Take(t.Context(), 1<<16)
		if err != nil || beyond < 1500*ms || c.Now() >= 1500*ms {
			t.Errorf("took %d, %v, now %d", beyond, err, c.Now())
		}
		last = beyond
		took := make(chan tso.TS)
		go func() {
			ts, _ := c.Take(t.Context(), 1<<16)
			took <- ts
		}()
		synctest.Wait()
		c.Free()
		if ts := <-took; ts <= last {
			t.Errorf("took %d after %d", ts, last)
		}
	})
}

func TestTimestampsOfOneRequestShareTheirMillisecond(t *testing.T) {
	c := newClock(1000*ms + 1<<18 - 3)
	ts, err := c.Take(t.Context(), 10)
	if err != nil || ts.Logical() < 10 || ts.Physical() != 1001 {
		t.Errorf("took %d.%d, %v", ts.Physical(), ts.Logical(), err)
	}
}

func TestStandingClockIsSet(t *testing.T) {
	c := newClock(1000 * ms)
	c.Limit(1100 * ms)
	c.Reach(1050 * ms)
	if got := c.Now(); got != 1050*ms {
		t.Errorf("reached %d", got.Physical())
	}
	c.Reach(1200 * ms)
	if got := c.Now(); got >= 1100*ms {
		t.Errorf("reached %d, past a commit to come", got.Physical())
	}
	c.Free()
	if got := c.Now(); got != 1200*ms {
		t.Errorf("reached %d", got.Physical())
	}
	c.Reach(1100 * ms)
	if got := c.Now(); got != 1200*ms {
		t.Errorf("went back to %d", got.Physical())
	}
}
