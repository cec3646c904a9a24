package upstream

import (
	"testing"
	"testing/synctest"
	"time"
)

// A store that says nothing, over a stream that is open or by letting none come about,
// is unheard; one with scans to do is not, nor is anybody who was just heard.
func TestUnheard(t *testing.T) {
	const long = 150 * time.Millisecond
	p := startPuppet(t, nil)
	split(p)
	c := open(t, p.config())
	w := subscribe(t, c, Subscription{Span: keys("a", "z"), StartTS: 10}, nil)
	f, g := p.kv[1].feed(t), p.kv[2].feed(t)
	q, r := f.request(), g.request()
	g.rows(r, initialized)
	g.resolved(20, r)
	speaks := time.NewTicker(10 * time.Millisecond)
	defer speaks.Stop()
	begun := time.Now()
	for range speaks.C {
		g.resolved(20, r)
		if since := time.Since(begun); since > 2*long {
			break
		}
	}
	// As long as store 1 only scans, nothing has to come from there; and from store 2
	// something came a moment ago, or the machine has slept: then it counts from there.
	eventually(t, "whoever was heard is", func() bool { g.resolved(20, r); return c.Unheard() < long })
	f.rows(q, initialized)
	f.resolved(30, q)
	eventually(t, "who is silent is unheard", func() bool { g.resolved(30, r); return c.Unheard() > long })
	f.resolved(30, q)
	g.resolved(30, r)
	eventually(t, "it is heard again", func() bool { g.resolved(30, r); f.resolved(30, q); return c.Unheard() < long })
	// Now nobody comes through, and what the last stream heard is forgotten with it.
	p.kv[1].door.shut()
	eventually(t, "who lets nobody in is unheard", func() bool { g.resolved(30, r); return c.Unheard() > long })
	p.kv[1].door.open()
	f = p.kv[1].feed(t)
	q = f.request()
	f.rows(q, initialized)
	eventually(t, "it is heard once more", func() bool { g.resolved(40, r); f.resolved(40, q); return c.Unheard() < long })
	w.until(40)
}

// How long a store is unheard counts over all calls to it, until it is not wanted for a
// while.
func TestEars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e ears
		e.open(1)
		time.Sleep(time.Second)
		e.broke(1)
		time.Sleep(time.Second)
		e.open(1)
		e.broke(1)
		e.open(1)
		if got := e.silence(1); got != 2*time.Second {
			t.Errorf("over three streams: %v", got)
		}
		e.forgive()
		e.open(2)
		if got := e.silence(1); got != 0 {
			t.Errorf("forgiven: %v", got)
		}
		time.Sleep(time.Minute)
		if got := e.silence(1); got != time.Minute {
			t.Errorf("unheard: %v", got)
		}
		e.hear(2)
		if got := e.silence(2); got != 0 {
			t.Errorf("heard: %v", got)
		}
		e.broke(1)
		time.Sleep(earMax + time.Second)
		e.open(1)
		if got := e.silence(1); got != 0 {
			t.Errorf("wanted anew: %v", got)
		}
		time.Sleep(time.Minute)
		e.open(2) // its stream ended for want of subscriptions
		if got := e.silence(2); got != 0 {
			t.Errorf("wanted anew after a good end: %v", got)
		}
	})
}
