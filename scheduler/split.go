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
		o.large = append(o.large, s)
	}
}

// parts is into how many parts a set's load should be split.
func (o *Owner) parts(s *ReplicationSet) int {
	n := 1
	if c := o.cfg.Split.Regions; c > 0 && s.regions > c {
		n = max(n, int((s.regions+c-1)/c))
	}
	if c := o.cfg.Split.Traffic; c > 0 && s.traffic > c {
		n = max(n, int((s.traffic+c-1)/c))
	}
	return n
}

// reshapeSome asks for the borders of what is to be split, and merges what is small.
func (o *Owner) reshapeSome() {
	if o.cfg.Split.Regions == 0 && o.cfg.Split.Traffic == 0 {
		return
	}
	all := o.large
	o.large = nil
	for _, s := range all {
		t := s.table
		n := min(o.parts(s), o.cfg.Split.PartMax-len(t.sets)+1)
		switch {
		case !s.counted || n < 2:
			s.large = false
		case s.State != ReplicatingState || t.shape != nil || o.blocked(t.id):
			o.large = append(o.large, s) // later
		default:
			o.cuts = append(o.cuts, CutRequest{s.Span, n})
		}
	}
	if o.now%o.cfg.BalanceTicks == 0 && len(o.large) == 0 {
		o.mergeSome()
	}
}

// Cut answers a CutRequest. Borders that do not part the span mean that it stays
// whole until its load is reported anew.
func (o *Owner) Cut(s span.Span, borders []span.Key) {
	t := o.tables[s.TableID]
	if t == nil {
		return
	}
	z := t.exact(s)
	if z == nil || !z.large {
		return
	}
	z.large = false
	if z.State != ReplicatingState || t.shape != nil || o.rebuilding {
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
		return
	}
	spans = append(spans, span.Span{TableID: s.TableID, Start: from, End: s.End})
	o.begin(t, []*ReplicationSet{z}, spans)
}

// begin gets the children ready.
func (o *Owner) begin(t *table, parents []*ReplicationSet, spans []span.Span) {
	if o.idlest(nil) == nil {
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
		r.children = append(r.children, c)
		o.place(c, o.idlest(nil), "its table is cut anew")
	}
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
		if t.shape == nil && !o.blocked(t.id) {
			o.mergeRun(t)
		}
	}
}

// mergeRun merges the first run of parts that together weigh less than half of what
// would be split again.
func (o *Owner) mergeRun(t *table) {
	for i := 0; i+1 < len(t.sets); i++ {
		sum := *t.sets[i]
		j := i
		for ; j+1 < len(t.sets) && t.sets[j].State == ReplicatingState; j++ {
			next := t.sets[j+1]
			if next.State != ReplicatingState || !o.small(sum.regions+next.regions, sum.traffic+next.traffic) {
				break
			}
			sum.regions += next.regions
			sum.traffic += next.traffic
		}
		if j > i {
			parents := slices.Clone(t.sets[i : j+1])
			o.begin(t, parents, []span.Span{{TableID: t.id, Start: t.sets[i].Span.Start, End: t.sets[j].Span.End}})
			return
		}
	}
}

func (o *Owner) small(regions uint32, traffic uint64) bool {
	r, t := o.cfg.Split.Regions, o.cfg.Split.Traffic
	return (r == 0 || regions <= r/2) && (t == 0 || traffic <= t/2)
}
