package redo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/sink"
)

// witness is what a downstream tells of itself before a log is applied to it, and notes of
// that. A log alone proves only half: that its newest meta was removed, that the changefeed
// went on without it or with one elsewhere, that it was applied once and the downstream is
// in use since, only the downstream can tell.
type witness struct {
	sink     sink.Journaler // nil: it keeps no journal
	mine     sink.JournalApplied
	earlier  sink.JournalApplied // an apply of this log that this one goes on with; zero: none
	unproven []string
	before   bool // it was applied to its end, and nothing came after
}

func newWitness(ctx context.Context, b objstore.Bucket, inv *Inventory, cfg ApplyConfig, s sink.Sink) (*witness, error) {
	w := &witness{mine: sink.JournalApplied{Log: inv.ID.Incarnation, To: cfg.Merge.To, Part: cfg.Part.Name}}
	// What is no snapshot is refused, or with Force noted.
	refused := func(err error) error {
		if err != nil && cfg.Force {
			w.unproven = append(w.unproven, err.Error())
			return nil
		}
		return err
	}
	if err := inv.Err(); err != nil {
		return nil, err
	}
	j, ok := s.(sink.Journaler)
	if !ok || !j.Journals() {
		w.unproven = append(w.unproven, "this downstream keeps no record of who has written it, so that it may be another one than the changefeed's, be written still, or have gone on since")
		return w, nil
	}
	w.sink = j
	kept, err := j.Journal(ctx)
	if err != nil {
		return nil, err
	}
	if kept == nil {
		kept = &sink.Journal{}
	}
	if a := kept.Applied; a != nil {
		if a.Log == w.mine.Log {
			w.earlier = *a
		}
		w.before = a.Done && !cfg.Force && a.Log == w.mine.Log && a.To == w.mine.To && a.Part == w.mine.Part
		if w.before {
			return w, nil
		}
		if err := refused(appliedBefore(inv, a, w.mine.Part)); err != nil {
			return nil, err
		}
	}
	if kept.Log == "" && kept.Passed == 0 { // no run has noted anything
		w.unproven = append(w.unproven, fmt.Sprintf("this downstream has no record of the changefeed %s/%s with a redo log, so that it may be another one than the changefeed's", inv.ID.Namespace, inv.ID.Changefeed))
		return w, nil
	}
	if kept.Log != inv.ID.Incarnation {
		err := elsewhere(ctx, b, inv, kept)
		if cdcerr.RedoOvertaken.Is(err) {
			err = refused(err)
		}
		return w, err
	}
	if kept.Passed > inv.Meta.Resolved {
		return w, refused(cdcerr.RedoBehind.New("redo log %v: its meta says resolved-ts %d, and the downstream was written up to %d by this log: newer metas were removed from the storage",
			inv.ID, inv.Meta.Resolved, kept.Passed))
	}
	if late := inv.Meta.Checkpoint.Sub(kept.Passed); kept.Passed < inv.Meta.Checkpoint && late > aheadMax {
		w.unproven = append(w.unproven, fmt.Sprintf("its own record of the changefeed ends at %d, %v before the log's checkpoint-ts %d: it may be a copy of the downstream, or one to which the changefeed wrote before",
			kept.Passed, late.Round(time.Second), inv.Meta.Checkpoint))
	}
	return w, nil
}

// appliedBefore is an error if a log was applied that is not the one that is to be, or that
// came to its end: one that was cut off goes on. The DDLs that a part left out count as done
// since, so that only the same part goes on with it.
func appliedBefore(inv *Inventory, a *sink.JournalApplied, part string) error {
	at := a.At.UTC().Format(time.DateTime)
	switch {
	case a.Done:
		part := ""
		if a.Part != "" {
			part = " (" + a.Part + ")"
		}
		return cdcerr.RedoApplied.New("the log %s/%s (%s) was applied to this downstream up to %d%s, at %s UTC", inv.ID.Namespace, inv.ID.Changefeed, a.Log, a.To, part, at)
	case a.Log == inv.ID.Incarnation && a.Part != "" && a.Part != part:
		return cdcerr.RedoApplied.New("a part of the log (%s) was begun to be applied to this downstream at %s UTC, up to %d, and did not come to its end: go on with those rules", a.Part, at, a.To)
	case a.Log != inv.ID.Incarnation:
		return cdcerr.RedoApplied.New("another log, %s/%s (%s), was begun to be applied to this downstream at %s UTC, up to %d, and did not come to its end", inv.ID.Namespace, inv.ID.Changefeed, a.Log, at, a.To)
	}
	return nil
}

// elsewhere is an error if the downstream was written last by a log that is not in this
// storage, or by none. One that is there tells by itself whether it did harm.
func elsewhere(ctx context.Context, b objstore.Bucket, inv *Inventory, kept *sink.Journal) error {
	if kept.Log == "" {
		return cdcerr.RedoOvertaken.New("redo log %v, of commit-ts %d to %d: the changefeed went on without a redo log, from %d on at the latest, and what that has written stands downstream",
			inv.ID, inv.Meta.Checkpoint.Next(), inv.Meta.Resolved, kept.Passed)
	}
	other := inv.ID
	other.Incarnation = kept.Log
	last, err := LastMeta(ctx, b, other)
	if cdcerr.RedoMetaNotFound.Is(err) {
		return cdcerr.RedoOvertaken.New("redo log %v, of commit-ts %d to %d: the changefeed went on with the log %v in %s, and what that has let through, up to %d at least, may stand downstream",
			inv.ID, inv.Meta.Checkpoint.Next(), inv.Meta.Resolved, other, kept.Storage, kept.Passed)
	}
	if err == nil && kept.Passed > last.Resolved {
		return cdcerr.RedoOvertaken.New("redo log %v, of commit-ts %d to %d: the changefeed went on with the log %v, whose meta says resolved-ts %d, and the downstream was written up to %d by that one: newer metas of it were removed from the storage",
			inv.ID, inv.Meta.Checkpoint.Next(), inv.Meta.Resolved, other, last.Resolved, kept.Passed)
	}
	return err
}

// inexactKept is how many reasons a note has, and inexactBytes how much of each: what an
// operator still reads, and a row still takes.
const (
	inexactKept  = 300
	inexactBytes = 1 << 10
)

// recall adds to what this apply knows to be inexact what those before it have noted: their
// DDLs are done, and tell nothing any more.
func (w *witness) recall(done *Applied) {
	now := slices.Clone(done.Unproven)
	for _, d := range done.Doubts {
		now = append(now, d.String())
	}
	for i, why := range now {
		now[i] = strings.ToValidUTF8(why[:min(len(why), inexactBytes)], "")
	}
	for _, why := range w.earlier.Inexact {
		if !slices.Contains(now, why) {
			now, done.Unproven = append(now, why), append(done.Unproven, why)
		}
	}
	w.mine.More = max(w.earlier.More, len(now)-inexactKept)
	w.mine.Inexact = now[:min(len(now), inexactKept)]
	if n := w.earlier.More; n > 0 {
		done.Unproven = append(done.Unproven, fmt.Sprintf("%d more reasons, at least, which were too many to be kept", n))
	}
}

// begun notes that the log is being applied, before anything of it is downstream.
func (w *witness) begun(ctx context.Context, leave sink.Leave) error {
	return w.note(ctx, leave, false)
}

// ended notes that all of it is applied.
func (w *witness) ended(ctx context.Context, leave sink.Leave) error { return w.note(ctx, leave, true) }

func (w *witness) note(ctx context.Context, leave sink.Leave, done bool) error {
	if w.sink == nil {
		return nil
	}
	return w.sink.Note(ctx, leave, func(j *sink.Journal) bool {
		mine := w.mine
		mine.Done, mine.At = done, time.Now().UTC()
		j.Applied = &mine
		return true
	})
}
