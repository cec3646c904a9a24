package scheduler

import (
	"slices"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// reshape is a split or a merge under way: children are got ready while the parents
// write; then the parents stop, and the children write on from the least of where they
// stopped.
type reshape struct {
	table    *table
	parents  []*ReplicationSet
	children []*ReplicationSet // in key order, together the parents' keys
	stopping bool
}

// weighty is a set to be split, and the tick before which nothing is looked up for it.
type weighty struct {
	set *ReplicationSet
	at  uint64
}

// CutRequest asks for the inner borders that part a span into about equally heavy
// parts.
type CutRequest struct {
	Span  span.Span
	Parts int
}

// mergesLook is how many split tables one look covers: all are seen in turn.
const mergesLook = 64

// weigh lets a set wait for being split if it is large.
func (o *Owner) weigh(s *ReplicationSet) {
	if !s.large && s.counted && o.parts(s) > 1 {
		s.large = true
		o.large = append(o.large, weighty{set: s})
	}
}

// parts is into how many parts a set's load should be split.
func (o *Owner) parts(s *ReplicationSet) int {
	n := 1
	if s.table.whole {
		return n
	}
	if c := o.cfg.Split.Regions; c > 0 && s.regions > c {
		each := o.cfg.Split.each()
		n = max(n, int((s.regions+each-1)/each))
	}
	if c := o.cfg.Split.Traffic; c > 0 && s.traffic > c {
		n = max(n, int((s.traffic+c-1)/c))
	}
	return n
}

// reshapeSome asks for the borders of what is to be split, and merges what is small.
func (o *Owner) reshapeSome() {
	if !o.cfg.Split.on() {
		return
	}
	all := o.large
	o.large = nil
	for _, x := range all {
		s, t := x.set, x.set.table
		if x.at > o.now {
			o.large = append(o.large, x)
			continue
		}
		n := min(o.parts(s), o.cfg.Split.PartMax-len(t.sets)+1)
		switch {
		case !s.counted || n < 2:
			s.large = false
		case s.State != ReplicatingState || t.shape != nil || o.blocked(t.id):
			o.large = append(o.large, x) // later
		default:
			o.cuts = append(o.cuts, CutRequest{s.Span, n})
		}
	}
	if o.now%o.cfg.BalanceTicks == 0 && len(o.large) == 0 {
		o.mergeSome()
	}
}

// Cut answers a CutRequest. Borders that do not part the span mean that it stays
// whole for a while: there may be some later.
func (o *Owner) Cut(s span.Span, borders []span.Key) {
	t := o.tables[s.TableID]
	if t == nil {
		return
	}
	z := t.exact(s)
	if z == nil || !z.large {
		return
	}
	if t.whole { // a DDL has made it so since the borders were asked for
		z.large = false
		return
	}
	again := weighty{set: z, at: o.now + o.cfg.BalanceTicks}
	if z.State != ReplicatingState || t.shape != nil || o.blocked(t.id) || o.idlest(nil) == nil {
		o.large = append(o.large, again)
		return
	}
	var spans []span.Span
	from := s.Start
	for _, b := range borders {
		if b > from && s.Contains(b) {
			spans = append(spans, span.Span{TableID: s.TableID, Start: from, End: b})
			from = b
		}
	}
	if len(spans) == 0 {
		o.large = append(o.large, again)
		return
	}
	z.large = false
	spans = append(spans, span.Span{TableID: s.TableID, Start: from, End: s.End})
	o.begin(t, []*ReplicationSet{z}, spans)
}

// begin gets the children ready.
func (o *Owner) begin(t *table, parents []*ReplicationSet, spans []span.Span) {
	to := o.idlest(nil)
	if to == nil {
		return
	}
	from := tso.Max
	for _, p := range parents {
		from = min(from, o.known(p))
	}
	r := &reshape{table: t, parents: parents}
	t.shape = r
	for _, s := range spans {
		c := &ReplicationSet{Span: s, table: t, Checkpoint: from, reshape: r}
		if next := o.idlest(nil); next != nil { // one on trial takes a single span
			to = next
		}
		if len(spans) > 1 {
			to = o.sparsest(r, to)
		}
		r.children = append(r.children, c)
		o.place(c, to, "its table is cut anew")
	}
}

// sparsest is the capture with the fewest of a table's new parts, the one at hand where
// others have no fewer.
func (o *Owner) sparsest(r *reshape, idlest *member) *member {
	of := map[*member]int{}
	for _, c := range r.children {
		of[c.secondary.m]++
	}
	best := idlest
	for _, m := range o.members {
		if m.takes() && (of[m] < of[best] || of[m] == of[best] && len(m.sets) < len(best.sets)) {
			best = m
		}
	}
	return best
}

// join merges the tables that a DDL lets be in parts no more: it is not carried out
// before they are in one.
func (o *Owner) join() {
	for _, p := range o.pending {
		for _, id := range p.Whole {
			if t := o.tables[id]; t != nil && len(t.sets) > 0 && has(p.Tables, id) && !p.running {
				o.joinTable(t)
			}
		}
	}
}

func (o *Owner) joinTable(t *table) {
	switch r := t.shape; {
	case r != nil && len(r.children) > 1:
		o.abort(r)
	case r != nil || len(t.sets) == 1 || slices.ContainsFunc(t.sets, func(s *ReplicationSet) bool { return s.State != ReplicatingState }):
		// what is under way ends first
	default:
		o.begin(t, slices.Clone(t.sets), []span.Span{t.span()})
	}
}

// span is all of a table.
func (t *table) span() span.Span {
	return span.Span{TableID: t.id, Start: t.sets[0].Span.Start, End: t.sets[len(t.sets)-1].Span.End}
}

// uniting tells whether a table in parts waits to be merged for a DDL: none of its parts
// moves then, or there would always be one that does.
func (o *Owner) uniting(t *table) bool {
	return len(t.sets) > 1 && slices.ContainsFunc(o.pending, func(p *pending) bool { return has(p.Whole, t.id) && has(p.Tables, t.id) })
}

// reshapeReady stops the parents once every child is ready.
func (o *Owner) reshapeReady(r *reshape) {
	if r.stopping || slices.ContainsFunc(r.children, func(c *ReplicationSet) bool { return !c.ready }) {
		return
	}
	r.stopping = true
	for _, p := range r.parents {
		o.become(p, CommitState, "its parts are ready")
		o.halt(p)
	}
}

// dissolves tells whether a set stops for good, for its parts to write.
func (s *ReplicationSet) dissolves() bool {
	return s.State == CommitState && s.table.shape != nil && s.table.shape.stopping && slices.Contains(s.table.shape.parents, s)
}

// dissolve puts the children in the parents' place, in one step (P2), once nobody
// writes for the parents (P1).
func (o *Owner) dissolve(t *table) {
	r := t.shape
	if slices.ContainsFunc(r.parents, func(p *ReplicationSet) bool { return p.primary.m != nil }) {
		return
	}
	from := tso.Max
	for _, p := range r.parents {
		from = min(from, p.Checkpoint)
		o.uncount(p)
		p.due = 0
	}
	t.shape = nil
	o.barrierMoved = true // a DDL may have waited for it
	if len(r.children) > 1 {
		t.cut = o.now
	}
	sets := slices.DeleteFunc(slices.Clone(t.sets), func(s *ReplicationSet) bool { return slices.Contains(r.parents, s) })
	for _, c := range r.children {
		c.reshape, c.Checkpoint = nil, from
		o.count(c)
	}
	o.replace(t, append(sets, r.children...))
	for _, c := range r.children {
		if c.ready {
			o.commit(c)
		} else if c.secondary.m == nil {
			o.settle(c, "its capture is gone")
		}
	}
}

// replace gives a table other sets.
func (o *Owner) replace(t *table, sets []*ReplicationSet) {
	slices.SortFunc(sets, func(a, b *ReplicationSet) int {
		if a.Span.Start < b.Span.Start {
			return -1
		}
		return 1
	})
	t.sets = sets
	if len(sets) > 1 && !slices.Contains(o.split, t) {
		o.split = append(o.split, t)
	}
	for i, s := range sets {
		if s.Span.Empty() || i > 0 && sets[i-1].Span.End != s.Span.Start {
			o.err = cdcerr.Bug("table %d: %v does not follow %v", t.id, s.Span, sets[max(i, 1)-1].Span)
		}
	}
}

// abort gives a split or merge up, unless the parents have been told to stop.
func (o *Owner) abort(r *reshape) {
	if !r.stopping {
		o.endShape(r)
	}
}

func (o *Owner) endShape(r *reshape) {
	r.table.shape = nil
	o.barrierMoved = true // a DDL may have waited for it
	for _, c := range r.children {
		o.remove(c, "its table stays as it is")
	}
}

// mergeSome looks at some tables for parts beside each other that are small together.
func (o *Owner) mergeSome() {
	for range min(mergesLook, len(o.split)) {
		if o.merging >= len(o.split) {
			o.merging = 0
		}
		t := o.split[o.merging]
		if len(t.sets) < 2 {
			o.split = slices.Delete(o.split, o.merging, o.merging+1)
			if len(o.split) == 0 {
				return
			}
			continue
		}
		o.merging++
		if t.shape == nil && o.now-t.cut >= o.cfg.Split.RestTicks && !o.blocked(t.id) {
			o.mergeRun(t)
		}
	}
}

// mergeRun merges a table that is small as a whole, or the first run of parts that
// together weigh less than half of what a part has that is cut. A part of which nobody has
// told yet what it weighs may weigh anything.
func (o *Owner) mergeRun(t *table) {
	for i := 0; i+1 < len(t.sets); i++ {
		j := i
		if i == 0 && o.light(t.sets, o.cfg.Split.Regions) {
			j = len(t.sets) - 1
		}
		for ; j+1 < len(t.sets) && o.light(t.sets[i:j+2], o.cfg.Split.each()); j++ {
		}
		if j > i {
			parents := slices.Clone(t.sets[i : j+1])
			o.begin(t, parents, []span.Span{{TableID: t.id, Start: t.sets[i].Span.Start, End: t.sets[j].Span.End}})
			return
		}
	}
}

// light tells whether sets rest, and have together at most half of so many regions, and
// of the traffic of one.
func (o *Owner) light(sets []*ReplicationSet, most uint32) bool {
	var regions uint32
	var traffic uint64
	for _, s := range sets {
		if s.State != ReplicatingState || s.regions == 0 {
			return false
		}
		regions += s.regions
		traffic += s.traffic
	}
	t := o.cfg.Split.Traffic
	return (most == 0 || regions <= most/2) && (t == 0 || traffic <= t/2)
}
