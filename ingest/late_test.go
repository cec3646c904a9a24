package ingest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sluice-cdc/sluice/ingest"
	"github.com/sluice-cdc/sluice/span"
)

// A reader from an old start-ts pulls for itself until it has caught up.
func TestLateReader(t *testing.T) {
	bubble(t, "joins when it can", func(w *world) {
		a := w.reader(false, 100, 1)
		w.up.send(0, 120, 105, 115)
		w.read(a, 100)
		b := w.reader(false, 90, 1)
		w.want("1 from 100", "1 from 90")
		w.up.send(1, 110, 95, 105)
		if ts, got := w.read(b, 90); ts != 110 || got != "95 105" {
			w.Fatal(ts, got)
		}
		w.want("1 from 100", "1 from 90") // 115 is gone from the first
		w.up.send(0, 140, 125, 135)
		w.up.send(1, 130, 115, 125)
		if ts, got := w.read(b, 110); ts != 130 || got != "115 125" {
			w.Fatal(ts, got)
		}
		w.want("1 from 100") // which holds 125 and 135
		if ts, got := w.read(b, 130); ts != 140 || got != "135" {
			w.Fatal(ts, got)
		}
		if ts, got := w.read(a, 120); ts != 140 || got != "125 135" {
			w.Fatal(ts, got)
		}
		if w.rows.Used().Memory != 0 {
			w.Fatal("rows are left")
		}
		a.Close()
		w.want("1 from 100")
		b.Close()
		w.want()
	})
	bubble(t, "does not go back when the first is behind", func(w *world) {
		a := w.reader(false, 100, 1)
		w.up.send(0, 120, 115)
		w.read(a, 100)
		b := w.reader(false, 90, 1)
		w.up.send(1, 130, 115, 125)
		if ts, got := w.read(b, 90); ts != 130 || got != "115 125" {
			w.Fatal(ts, got)
		}
		w.want("1 from 100", "1 from 90")
		w.up.send(0, 131, 125)
		w.up.send(1, 135)
		w.read(b, 130)
		w.want("1 from 100", "1 from 90") // 131 is below 135
		w.up.send(0, 136)
		w.up.send(1, 136)
		w.read(b, 135)
		w.want("1 from 100")
		a.Close()
		b.Close()
	})
}

func TestLateReadersAmongThemselves(t *testing.T) {
	bubble(t, "takes over when the first ends", func(w *world) {
		a := w.reader(false, 100, 1)
		w.up.send(0, 120, 105)
		w.read(a, 100)
		b, c := w.reader(false, 90, 1), w.reader(false, 80, 1)
		w.want("1 from 100", "1 from 90", "1 from 80")
		a.Close()
		w.want("1 from 90", "1 from 80")
		w.up.send(0, 130, 105, 125)
		w.up.send(1, 100, 85, 95)
		if ts, got := w.read(c, 80); ts != 100 || got != "85 95" {
			w.Fatal(ts, got)
		}
		w.want("1 from 90")
		if ts, got := w.read(c, 100); ts != 130 || got != "105 125" {
			w.Fatal(ts, got)
		}
		if ts, got := w.read(b, 90); ts != 130 || got != "105 125" {
			w.Fatal(ts, got)
		}
		b.Close()
		c.Close()
	})
	bubble(t, "is joined by who is as late", func(w *world) {
		a := w.reader(false, 100, 1)
		w.up.send(0, 120, 105)
		w.read(a, 100)
		b, c := w.reader(false, 90, 1), w.reader(false, 95, 1)
		w.want("1 from 100", "1 from 90")
		w.up.send(1, 120, 92, 105)
		if _, got := w.read(c, 95); got != "105" {
			w.Fatal(got)
		}
		w.want("1 from 100", "1 from 90") // c has come over, b has not
		if _, got := w.read(b, 90); got != "92 105" {
			w.Fatal(got)
		}
		w.want("1 from 100")
		for _, r := range []*ingest.Reader{a, b, c} {
			r.Close()
		}
	})
}

func TestFailures(t *testing.T) {
	bubble(t, "end all readers of the span, and only them", func(w *world) {
		a, b, c := w.reader(false, 100, 1, 2), w.reader(false, 100, 1), w.reader(false, 100, 2)
		w.up.send(0, 110, 105)
		w.up.send(1, 110)
		synctest.Wait()
		broken := errors.New("broken")
		w.up.fail(0, broken)
		for _, r := range []*ingest.Reader{a, b} {
			<-r.Failed()
			if err := r.Err(); !errors.Is(err, broken) || !strings.Contains(err.Error(), "table 1") {
				w.Fatal(err)
			}
			// Nothing that is missing passes for complete.
			if ts, got := w.read(r, 100); ts != 110 || got != "105" {
				w.Fatal(ts, got)
			}
		}
		select {
		case <-c.Failed():
			w.Fatal("a reader of another table has failed")
		default:
		}
		// Who comes anew gets a stream of his own, from his own start.
		d := w.reader(false, 100, 1)
		w.want("2 from 100", "1 from 100")
		w.up.send(1, 110, 105)
		if ts, got := w.read(d, 100); ts != 110 || got != "105" {
			w.Fatal(ts, got)
		}
		for _, r := range []*ingest.Reader{a, b, c, d} {
			r.Close()
		}
		w.want()
		if w.rows.Used().Memory != 0 {
			w.Fatal("rows are left")
		}
	})
}

func TestEnds(t *testing.T) {
	bubble(t, "of a subscription that ends without a reason", func(w *world) {
		r := w.reader(false, 100, 1)
		w.up.send(0, 110)
		r2 := w.reader(false, 110, 1)
		w.stop()
		for _, r := range []*ingest.Reader{r, r2} {
			<-r.Failed()
			if r.Err() == nil {
				w.Fatal("no error")
			}
			r.Close()
		}
		if err := w.reader(false, 100).Follow(context.Background(), span.OfTable(1), 100); err == nil {
			w.Fatal("followed after the end")
		}
	})
	bubble(t, "of a reader that gives up before Run has begun", func(w *world) {
		in := ingest.New(w.up, w.rows)
		a, b := in.NewReader(ingest.ReaderConfig{}), in.NewReader(ingest.ReaderConfig{})
		ctx, cancel := context.WithCancel(context.Background())
		gone := make(chan error, 1)
		go func() { gone <- a.Follow(ctx, span.OfTable(1), 100) }()
		synctest.Wait()
		must(w.T, b.Follow(context.Background(), span.OfTable(1), 100)) // joins
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			w.Fatal(err)
		}
		<-b.Failed() // it would wait for ever
		a.Close()
		b.Close()
	})
}
