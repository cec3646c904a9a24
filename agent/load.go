package agent

import (
	"time"

	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/span"
)

const (
	// loadEvery is over how long a span's traffic is counted, or as long as its regions.
	loadEvery = 10 * time.Second
	// loadShare is what such a time counts for in the traffic that is told, in hundredths:
	// a burst that is over within a minute is no reason to cut a table.
	loadShare = 30
)

// loads counts how loaded the spans are that are written here, where anybody asks for it.
type loads struct {
	every   time.Duration // between two counts of regions; 0: nobody asks
	counted time.Time     // when traffic was told last
	looked  time.Time     // when regions were counted last
	of      map[span.Span]*load
}

// load is one span's.
type load struct {
	bytes   uint64 // since it was told last
	traffic uint64 // bytes a second
	regions uint32 // 0: not counted yet
	whole   bool   // it was written from the beginning of the time that bytes is of
}

func newLoads(every time.Duration, now time.Time) loads {
	return loads{every: every, counted: now, of: map[span.Span]*load{}}
}

func (z *loads) clear() { clear(z.of) }

// add takes note of what was read of a span.
func (z *loads) add(s span.Span, bytes uint64) {
	if z.every == 0 || bytes == 0 {
		return
	}
	x := z.of[s]
	if x == nil {
		x = &load{}
		z.of[s] = x
	}
	x.bytes += bytes
}

// weigh says how loaded spans are: those that were written all the time that was counted.
// What has just begun to be written reads what it has to catch up with.
func (l *life) weigh(now time.Time) {
	z := &l.loads
	passed := now.Sub(z.counted)
	if z.every == 0 || passed < min(loadEvery, z.every) {
		return
	}
	z.counted = now
	var regions map[span.Span]int
	if now.Sub(z.looked) >= z.every {
		z.looked, regions = now, l.path.Regions()
	}
	l.mu.Lock()
	all := l.half.Statuses()
	l.mu.Unlock()
	was := z.of
	z.of = make(map[span.Span]*load, len(was))
	var fresh map[span.Span]int
	for _, st := range all {
		if st.Phase != scheduler.Writing {
			continue
		}
		x := was[st.Span]
		if x == nil {
			x = &load{}
		}
		z.of[st.Span] = x
		if x.regions == 0 && regions == nil && fresh == nil {
			fresh = l.path.Regions() // of those that have come since they were counted
		}
		switch n := regions[st.Span]; {
		case n > 0:
			x.regions = uint32(n)
		case x.regions == 0:
			x.regions = uint32(fresh[st.Span])
		}
		x.tell(uint64(float64(x.bytes) / passed.Seconds()))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for s, x := range z.of {
		if x.whole && x.regions > 0 {
			l.half.Load(s, x.regions, x.traffic)
		}
		x.whole, x.bytes = true, 0
	}
}

// tell takes what came a second lately into what is told.
func (x *load) tell(lately uint64) {
	if !x.whole {
		return
	}
	if x.traffic == 0 {
		x.traffic = lately
		return
	}
	x.traffic = (x.traffic*(100-loadShare) + lately*loadShare) / 100
}
