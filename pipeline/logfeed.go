package pipeline

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/ingest"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// RedoLog takes the changes of one changefeed on one capture; *redo.Writer is one.
type RedoLog interface {
	// Append takes a change and the table by which it is decoded. It may wait.
	Append(ctx context.Context, raw *event.RawKV, t *event.Table) error
	// Resolve says that every change at or below ts has been appended.
	Resolve(ts tso.TS)
}

// LogFeedConfig is one changefeed's redo log on one capture.
type LogFeedConfig struct {
	Changefeed string
	// StartTS is where the changefeed was created to begin: rows above it only.
	StartTS        tso.TS
	Filter         *filter.Filter
	ForceReplicate bool
	FilterLoop     bool
	Log            RedoLog
}

// LogFeed reads what is written of a changefeed on a capture a second time, for the redo
// log: ahead of the sink, which waits for it (P5), and held up neither by a downstream
// that is slow nor by DDLs that wait for it.
//
//	Write ─▶ behind: a reader of its own, up to where all are ─▶ all: one reader, in order
//
// One reader has all spans, so that the log is in order and a resolved-ts is one for all.
// A span that begins lower than where that is catches up beside it: what it brings is
// another run of the log.
type LogFeed struct {
	cfg    LogFeedConfig
	in     *ingest.Ingest
	schema Schema
	wake   chan struct{} // holds one token

	mu     sync.Mutex
	orders []logOrder             // guarded by mu, as all below
	spans  map[span.Span]*logSpan // those that are written
	fresh  map[*logSpan]struct{}  // of these, those that what is durable of all need not have
	at     tso.TS                 // all that have joined have been appended up to here
}

// logOrder is a span that comes, or one that goes.
type logOrder struct {
	span span.Span
	of   *logSpan // nil: it goes
}

// logSpan is one span.
type logSpan struct {
	// base is up to where the log has it without this feed.
	base tso.TS
	// joined is where the one reader was when it took the span: what was durable then
	// says nothing of it. tso.Max before.
	joined tso.TS
	cover  *cover // the reader's; nil before it has taken the span
}

// flock is spans that are read together.
type flock struct {
	rows  *ingest.Reader
	at    tso.TS // they have been appended up to here; LogFeed.at of all that have joined
	spans map[span.Span]*logSpan
	units map[span.Span]*cover
	// seats are what rows follows, and from where: what is in a partition may be a
	// span's of its own, and a unit's as well, while a DDL has it pass from one to the
	// other. The log has some rows twice then.
	seats map[span.Span]seat
}

type seat struct {
	spans int // whose it is
	from  tso.TS
}

func newFlock(rows *ingest.Reader) *flock {
	return &flock{rows: rows, spans: map[span.Span]*logSpan{}, units: map[span.Span]*cover{}, seats: map[span.Span]seat{}}
}

// take has a span followed from a timestamp on, up to which the schema is known.
func (k *flock) take(ctx context.Context, schema Schema, s span.Span, z *logSpan, from tso.TS) error {
	c := &cover{of: s}
	k.spans[s], z.cover = z, c
	err := k.settle(ctx, schema, c, from)
	if c.unit {
		k.units[s] = c
	}
	return err
}

// leave gives a span up.
func (k *flock) leave(s span.Span) {
	for _, m := range k.spans[s].cover.all {
		k.rise(m)
	}
	delete(k.spans, s)
	delete(k.units, s)
}

// settle has followed what a span is of, from a timestamp on.
func (k *flock) settle(ctx context.Context, schema Schema, c *cover, from tso.TS) error {
	leave, join, err := c.settle(schema, from)
	if err != nil {
		return err
	}
	for _, m := range leave {
		k.rise(m)
	}
	for _, m := range join {
		if err := k.sit(ctx, m, from); err != nil {
			return err
		}
	}
	return nil
}

func (k *flock) sit(ctx context.Context, m span.Span, from tso.TS) error {
	t, there := k.seats[m]
	if there && from < t.from {
		k.rows.Leave(m)
	}
	if !there || from < t.from {
		if err := k.rows.Follow(ctx, m, from); err != nil {
			return err
		}
		t.from = from
	}
	t.spans++
	k.seats[m] = t
	return nil
}

func (k *flock) rise(m span.Span) {
	t := k.seats[m]
	if t.spans--; t.spans > 0 {
		k.seats[m] = t
		return
	}
	delete(k.seats, m)
	k.rows.Leave(m)
}

// bound is up to where what is followed is all there is, at most upper; the units among
// the spans are settled for that.
func (k *flock) bound(ctx context.Context, schema Schema, at, upper tso.TS) (tso.TS, error) {
	for _, c := range k.units {
		if upper > at && c.outdated(at) {
			if err := k.settle(ctx, schema, c, at); err != nil {
				return 0, err
			}
		}
		upper = min(upper, c.upto)
	}
	return min(upper, k.rows.Resolved()), nil // what has been joined is not further than it was joined at
}

// near is how far those that catch up may be behind for all to wait for it. After it has joined
// they would, and without that it could stay a step behind for ever.
const near = time.Second

// NewLogFeed makes a feed without spans. Of the schema it uses Resolved and TableAt; its
// caller calls Look when it has advanced.
func NewLogFeed(cfg LogFeedConfig, in *ingest.Ingest, schema Schema) *LogFeed {
	return &LogFeed{
		cfg: cfg, in: in, schema: schema, wake: make(chan struct{}, 1),
		spans: map[span.Span]*logSpan{}, fresh: map[*logSpan]struct{}{},
	}
}

// Write lets a span be logged above a timestamp, up to which the log has it already. Like
// Stop and Look it may be called by any goroutine and does not wait; what was done
// already does nothing.
func (f *LogFeed) Write(s span.Span, from tso.TS) {
	f.mu.Lock()
	if f.spans[s] == nil {
		z := &logSpan{base: max(from, f.cfg.StartTS), joined: tso.Max}
		f.spans[s] = z
		f.fresh[z] = struct{}{}
		f.orders = append(f.orders, logOrder{s, z})
	}
	f.mu.Unlock()
	f.Look()
}

// Stop lets a span go. What was appended of it stays in the log.
func (f *LogFeed) Stop(s span.Span) {
	f.mu.Lock()
	if z := f.spans[s]; z != nil {
		delete(f.spans, s)
		delete(f.fresh, z)
		f.orders = append(f.orders, logOrder{span: s})
	}
	f.mu.Unlock()
	f.Look()
}

// Look says that the schema may have advanced.
func (f *LogFeed) Look() {
	select {
	case f.wake <- struct{}{}:
	default: // a token is there already
	}
}

// Logged is up to where the log has every span, durably, if it has made durable what was
// appended up to a timestamp; tso.Max where there is no span.
func (f *LogFeed) Logged(durable tso.TS) tso.TS {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.spans) == 0 {
		return tso.Max
	}
	least := tso.Max
	for z := range f.fresh {
		if durable > z.joined {
			delete(f.fresh, z)
			continue
		}
		least = min(least, z.base)
	}
	if len(f.fresh) < len(f.spans) {
		least = min(least, durable)
	}
	return least
}

// Run feeds the log until ctx ends or something fails. It runs once.
func (f *LogFeed) Run(ctx context.Context) error {
	cutter := newCutter(&Config{Filter: f.cfg.Filter, ForceReplicate: f.cfg.ForceReplicate, FilterLoop: f.cfg.FilterLoop}, f.schema, nil, nil, nil)
	r := &logReader{LogFeed: f, all: newFlock(f.reader()), cutter: cutter, raws: make([]*event.RawKV, rawsLen)}
	defer r.close()
	for {
		if err := r.look(ctx); err != nil {
			return fmt.Errorf("changefeed %s: feeding the redo log: %w", f.cfg.Changefeed, err)
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *LogFeed) reader() *ingest.Reader {
	return f.in.NewReader(ingest.ReaderConfig{FilterLoop: f.cfg.FilterLoop, Wake: f.Look})
}

// logReader is Run's own.
type logReader struct {
	*LogFeed
	all    *flock
	cutter *cutter  // which says what is wanted
	behind []*flock // that catch up
	raws   []*event.RawKV
}

func (r *logReader) close() {
	r.all.rows.Close()
	for _, l := range r.behind {
		l.rows.Close()
	}
}

// look does what can be done: spans that come and go, those behind, and then all.
func (r *logReader) look(ctx context.Context) error {
	select {
	case <-r.all.rows.Failed():
		return r.all.rows.Err()
	default:
	}
	if err := r.obey(ctx); err != nil {
		return err
	}
	schema := r.schema.Resolved()
	wait := false
	for i := 0; i < len(r.behind); {
		l := r.behind[i]
		there, err := r.catchUp(ctx, l, schema)
		switch {
		case err != nil:
			return err
		case there:
			r.behind = append(r.behind[:i], r.behind[i+1:]...)
			continue
		}
		wait = wait || l.rows.Resolved().Time().Add(near).After(r.at.Time())
		i++
	}
	if wait || len(r.all.spans) == 0 {
		return nil
	}
	upper, err := r.bound(ctx, r.all, r.at, schema)
	if upper <= r.at || err != nil {
		return err
	}
	return r.feed(ctx, r.all.rows, r.at, upper, func(upto tso.TS) {
		r.moveTo(upto)
		r.cfg.Log.Resolve(upto)
	})
}

// bound is up to where a flock can be fed. Where only its units hold it, it is looked at
// again after it was.
func (r *logReader) bound(ctx context.Context, k *flock, at, most tso.TS) (tso.TS, error) {
	most = min(most, k.rows.Resolved())
	upper, err := k.bound(ctx, r.schema, at, most)
	if at < upper && upper < most {
		r.Look()
	}
	return upper, err
}

// moveTo notes how far all are.
func (r *logReader) moveTo(ts tso.TS) {
	r.mu.Lock()
	r.at = max(r.at, ts)
	r.mu.Unlock()
}

// obey takes spans in and lets them go. Those that come together and have to catch up
// do so together.
func (r *logReader) obey(ctx context.Context) error {
	r.mu.Lock()
	orders := r.orders
	r.orders = nil
	r.mu.Unlock()
	var l *flock
	for i, o := range orders {
		if o.of != nil && r.schema.Resolved() <= o.of.base {
			// What the span is of is not known yet: it and what follows wait.
			r.mu.Lock()
			r.orders = append(orders[i:len(orders):len(orders)], r.orders...)
			r.mu.Unlock()
			break
		}
		if o.of == nil {
			r.leave(o.span)
			if l != nil && len(l.spans) == 0 {
				l = nil // it is closed
			}
			continue
		}
		if len(r.all.spans) == 0 && o.of.base > r.at {
			r.moveTo(o.of.base) // nobody has anything in between
		}
		if o.of.base >= r.at {
			if err := r.join(ctx, o.span, o.of, o.of.base); err != nil {
				return err
			}
			continue
		}
		if l == nil {
			l = newFlock(r.reader())
			l.at = tso.Max
			r.behind = append(r.behind, l)
		}
		l.at = min(l.at, o.of.base)
		if err := l.take(ctx, r.schema, o.span, o.of, o.of.base); err != nil {
			return err
		}
	}
	return nil
}

// join gives a span to the reader that has all.
func (r *logReader) join(ctx context.Context, s span.Span, z *logSpan, from tso.TS) error {
	if err := r.all.take(ctx, r.schema, s, z, from); err != nil {
		return err
	}
	r.mu.Lock()
	z.joined = r.at
	r.mu.Unlock()
	return nil
}

func (r *logReader) leave(s span.Span) {
	for i, l := range r.behind {
		if l.spans[s] == nil {
			continue
		}
		if l.leave(s); len(l.spans) == 0 {
			l.rows.Close()
			r.behind = append(r.behind[:i], r.behind[i+1:]...)
		}
		return
	}
	r.all.leave(s)
}

// catchUp appends what can be of a flock, and joins it to all once it is there.
func (r *logReader) catchUp(ctx context.Context, l *flock, schema tso.TS) (there bool, err error) {
	select {
	case <-l.rows.Failed():
		return false, l.rows.Err()
	default:
	}
	upper, err := r.bound(ctx, l, l.at, min(schema, r.at))
	if err != nil {
		return false, err
	}
	if upper > l.at {
		if err := r.feed(ctx, l.rows, l.at, upper, func(upto tso.TS) { l.at = upto }); err != nil {
			return false, err
		}
	}
	if l.at < r.at {
		return false, nil
	}
	for s, z := range l.spans {
		if err := r.join(ctx, s, z, r.at); err != nil {
			return false, err
		}
	}
	l.rows.Close()
	return true, nil
}

// feed appends the rows in (lower, upper] that anybody wants, and tells up to where it
// has: nothing at or below comes any more.
func (r *logReader) feed(ctx context.Context, rows *ingest.Reader, lower, upper tso.TS, tell func(upto tso.TS)) error {
	rows.Readable(upper)
	it, err := rows.Fetch(lower, upper)
	if err != nil {
		return err
	}
	defer it.Close()
	for n := len(r.raws); n == len(r.raws); {
		if n, err = it.Next(r.raws); err != nil {
			return err
		}
		for _, raw := range r.raws[:n] {
			t, err := r.cutter.loggedTable(raw)
			if err != nil {
				return err
			}
			if t == nil {
				continue
			}
			if err := r.cfg.Log.Append(ctx, raw, t); err != nil {
				return err
			}
		}
		if n == len(r.raws) {
			if upto := r.raws[n-1].CommitTS.Prev(); upto > lower {
				tell(upto)
				rows.Forget(upto)
			}
		}
	}
	clear(r.raws)
	tell(upper)
	rows.Forget(upper)
	return nil
}
