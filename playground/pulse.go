package playground

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/sluice-cdc/sluice/event"
)

// pulseEvery is how often a run that takes long says what it is doing: rarely
// enough not to fill a log, often enough that nobody takes it for dead.
const pulseEvery = 10 * time.Second

// pulse knows what a run is doing, for whoever wonders whether it is alive.
type pulse struct {
	mu    sync.Mutex // guards what follows
	doing string
	since time.Time
	sent  int // rows that the sink has taken
	now   int // rows that the sink is taking; 0: none
	from  time.Time
}

// do says what comes next.
func (p *pulse) do(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doing, p.since, p.sent, p.now = what, time.Now(), 0, 0
}

// writing says that the sink is given rows, and what it returns that it has them.
func (p *pulse) writing(txns []event.Txn) (written func()) {
	rows := 0
	for i := range txns {
		rows += len(txns[i].Rows)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now, p.from = rows, time.Now()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.sent, p.now = p.sent+p.now, 0
	}
}

// busy tells of a write that has not returned; empty where none takes long.
func (p *pulse) busy(at time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == 0 || at.Sub(p.from) < time.Second {
		return ""
	}
	return fmt.Sprintf("; the downstream has been taking %d rows for %.0f s", p.now, at.Sub(p.from).Seconds())
}

// line is what the run is doing.
func (p *pulse) line(name string, at time.Time) string {
	busy := p.busy(at)
	p.mu.Lock()
	defer p.mu.Unlock()
	sent := ""
	if p.sent > 0 {
		sent = fmt.Sprintf(", %d rows written", p.sent)
	}
	return fmt.Sprintf("%s: %s for %.0f s%s%s", name, p.doing, at.Sub(p.since).Seconds(), sent, busy)
}

// beat prints a line now and then until ctx ends.
func (p *pulse) beat(ctx context.Context, name string, every time.Duration, words io.Writer) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-tick.C:
			fmt.Fprintln(words, p.line(name, at))
		}
	}
}
