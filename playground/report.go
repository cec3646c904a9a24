package playground

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/verify"
)

// report prints one recording's line, and what is behind it.
func (p *player) report(name string, v *verdicts) {
	rows := "unseen"
	if v.rows != nil {
		p.explain(name, "rows", v.rows)
		if rows = "equal"; !v.rows.Equal() {
			rows = v.rows.Word()
		}
	}
	p.explain(name, "end", v.end)
	fmt.Fprintf(p.out, "%s rows=%s end=%s %.1f\n", name, rows, v.end.Word(), v.took.Seconds())
}

// explain prints everything that a verdict rests on that is not plain equality.
func (p *player) explain(name, what string, v *verify.Verdict) {
	for _, n := range v.Notes {
		fmt.Fprintf(p.words, "%s %s: %s\n", name, what, n)
	}
	for _, l := range v.Listings {
		fmt.Fprintf(p.words, "%s %s listed: %s\n", name, what, l)
	}
	if more := v.Listed - len(v.Listings); more > 0 {
		fmt.Fprintf(p.words, "%s %s listed: … and %d more\n", name, what, more)
	}
	for _, d := range v.First {
		fmt.Fprintf(p.words, "%s %s differs: %s\n", name, what, d)
	}
	if more := v.Differences - len(v.First); more > 0 {
		fmt.Fprintf(p.words, "%s %s differs: … and %d more\n", name, what, more)
	}
	if p.options.Verify {
		return
	}
	rows := "rows in the table"
	if what == "rows" {
		rows = "changes judged by what the table held after them"
	}
	for _, t := range v.Tables {
		word := "equal"
		switch {
		case t.Differences > 0:
			word = fmt.Sprintf("differ(%d)", t.Differences)
		case t.Listed > 0:
			word = fmt.Sprintf("listed(%d)", t.Listed)
		}
		fmt.Fprintf(p.words, "%s %s: %-32s %8d %s  %s\n", name, what, t.Table, t.Rows, rows, word)
	}
}

// watch prints a line a second until ctx ends.
func (p *player) watch(ctx context.Context, s status) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		lag, done := "unknown: PD does not answer", s.progress()
		if now, err := s.now(); err == nil {
			lag = fmt.Sprintf("%.2f s", max(0, now.Sub(done.Checkpoint)).Seconds())
		}
		busy := ""
		if s.pulse != nil {
			busy = s.pulse.busy(time.Now())
		}
		fmt.Fprintf(p.words, "%6.1f s  checkpoint %s  lag %s  %d transactions, %d rows, %d DDLs%s\n",
			time.Since(s.start).Seconds(), done.Checkpoint.Time().Format("15:04:05.000"), lag, done.Txns, done.Rows, done.DDLs, busy)
	}
}

// greet says what is about to happen, before the first recording of the demo.
func (p *player) greet(recordings []recording) {
	fmt.Fprintf(p.words, "Replaying what a real TiDB did:")
	for _, r := range recordings {
		fmt.Fprintf(p.words, " %s", r.name)
	}
	speed := fmt.Sprintf("at %g times its own speed", p.options.Speed)
	switch p.options.Speed {
	case 0:
		speed = "as fast as it is read"
	case 1:
		speed = "at its own speed"
	}
	fmt.Fprintf(p.words, ", %s.\nPD and TiKV are fakes that speak gRPC; everything behind them is Sluice.\n", speed)
	if p.options.SinkURI == "" {
		fmt.Fprintf(p.words, "It writes into a database in this process; look into it while it runs:\n\n  %s\n\n", p.client())
	}
}

// client is a command that connects to the database in this process.
func (p *player) client() string {
	host, port, err := net.SplitHostPort(p.embedded)
	if err != nil {
		return p.embedded
	}
	return "mysql --protocol=tcp -h " + host + " -P " + port + " -u root"
}

// stay keeps the database in this process up for whoever wants to look; another
// one stays by itself.
func (p *player) stay(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	if p.options.SinkURI != "" {
		if d, ok := p.target.(*database); ok {
			fmt.Fprintf(p.words, "\nWhat was written stands in %s: database %s.\n", d.cfg, strings.Join(d.ours, ", "))
		}
		return
	}
	fmt.Fprintf(p.words, "\nThe database stays up; any MySQL client can look into it:\n\n  %s\n\nCtrl-C ends.\n", p.client())
	<-ctx.Done()
}
