package lock

import "github.com/sluice-cdc/sluice/tso"

const (
	// liteMax is up to how many keys of a transaction in one region are named one
	// by one. Beyond, the store finds them itself, which costs it a walk over all
	// locks of the region.
	liteMax = 16
	// txnsMax bounds the transactions of one such walk, so that a request stays in
	// the tens of kilobytes.
	txnsMax = 1024
)

// Deed is one call to a store that ends locks of one region.
type Deed struct {
	// Pessimistic takes pessimistic locks of StartTS away, at Keys.
	Pessimistic bool
	ForUpdateTS tso.TS

	// Else the locks of StartTS at Keys end: committed at CommitTS, or rolled
	// back where that is 0. Without Keys all locks of Txns in the region do.
	StartTS  tso.TS
	CommitTS tso.TS
	Keys     [][]byte
	Txns     []Decided
	File     bool
}

// Decided is a transaction with its end: CommitTS 0 is a rollback.
type Decided struct {
	StartTS  tso.TS
	CommitTS tso.TS
	File     bool
}

// Plan says what to do about locks that were found in one region, given what
// became of their transactions, in the order in which the locks stand.
func Plan(locks []Lock, verdicts map[tso.TS]Verdict) []Deed {
	var deeds []Deed
	var whole Deed
	for _, group := range group(locks) {
		v := verdicts[group.start]
		if v.Outcome != Abandoned && !v.Outcome.Final() {
			continue
		}
		if len(group.pessimistic) > 0 {
			deeds = append(deeds, Deed{Pessimistic: true, StartTS: group.start, ForUpdateTS: group.forUpdate, Keys: group.pessimistic, File: group.file})
		}
		switch {
		case len(group.written) == 0 || !v.Outcome.Final():
		case len(group.written) <= liteMax && group.size <= liteMax:
			deeds = append(deeds, Deed{StartTS: group.start, CommitTS: v.CommitTS, Keys: group.written, File: group.file})
		default:
			if len(whole.Txns) == txnsMax {
				deeds = append(deeds, whole)
				whole = Deed{}
			}
			whole.Txns = append(whole.Txns, Decided{StartTS: group.start, CommitTS: v.CommitTS, File: group.file})
		}
	}
	if len(whole.Txns) > 0 {
		deeds = append(deeds, whole)
	}
	return deeds
}

// Cases opens one case for each transaction among locks that has no verdict in
// known, in the order in which they stand. A lock that was written speaks for its
// transaction before a pessimistic one does.
func Cases(locks []Lock, known map[tso.TS]Verdict, caller tso.TS) []*Case {
	var cases []*Case
	at := map[tso.TS]int{}
	for i := range locks {
		l := &locks[i]
		if _, ok := known[l.StartTS]; ok {
			continue
		}
		j, again := at[l.StartTS]
		switch {
		case !again:
			at[l.StartTS] = len(cases)
			cases = append(cases, New(*l, caller))
		case cases[j].lock.Pessimistic && !l.Pessimistic:
			cases[j] = New(*l, caller)
		}
	}
	return cases
}

// StartTS names the transaction of the case.
func (c *Case) StartTS() tso.TS { return c.lock.StartTS }

// held are the locks of one transaction among others.
type held struct {
	start                tso.TS
	forUpdate            tso.TS
	size                 uint64
	written, pessimistic [][]byte
	file                 bool
}

func group(locks []Lock) []*held {
	var out []*held
	by := map[tso.TS]*held{}
	for i := range locks {
		l := &locks[i]
		g := by[l.StartTS]
		if g == nil {
			g = &held{start: l.StartTS, file: l.File}
			by[l.StartTS] = g
			out = append(out, g)
		}
		if !l.Pessimistic {
			g.written = append(g.written, l.Key)
			g.size = max(g.size, l.Size)
			continue
		}
		g.pessimistic = append(g.pessimistic, l.Key)
		upto := l.ForUpdateTS
		if upto == 0 {
			upto = tso.Max // from a store that does not say: whatever it is
		}
		g.forUpdate = max(g.forUpdate, upto)
	}
	return out
}
