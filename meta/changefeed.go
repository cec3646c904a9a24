package meta

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// Status is how far a changefeed is, and what it is about.
type Status struct {
	// CheckpointTS is up to where everything is downstream, ResolvedTS up to where
	// everything has arrived.
	CheckpointTS tso.TS `json:"checkpoint-ts"`
	ResolvedTS   tso.TS `json:"resolved-ts"`
	// Epoch grows when an operator sets the checkpoint, and at no other time.
	Epoch uint64 `json:"epoch"`
	// Run is the present or the last run, 0 where there was none. It only rises, and is
	// in the head of whatever captures say to each other of the changefeed.
	Run uint64 `json:"run,omitempty"`
	// State is a word of the changefeed's life, kept as it comes.
	State string `json:"state,omitempty"`
}

// later are the keys of a status that a later release has written, and that stay where an
// owner of this one writes it again.
type later map[string]json.RawMessage

// beside adds them to a status.
func (l later) beside(st *Status) ([]byte, error) {
	text, err := json.Marshal(st)
	if err != nil || len(l) == 0 {
		return text, err
	}
	out := later{}
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, err
	}
	maps.Copy(out, l)
	return json.Marshal(out)
}

// follows checks that a status may come after another one (P3). The zero Status
// stands for none.
func (st Status) follows(was Status) error {
	switch {
	case st.CheckpointTS > st.ResolvedTS:
		return cdcerr.Bug("P3: checkpoint-ts %d above resolved-ts %d", st.CheckpointTS, st.ResolvedTS)
	case st.Epoch < was.Epoch:
		return cdcerr.Bug("P3: epoch %d after epoch %d", st.Epoch, was.Epoch)
	case st.Run < was.Run:
		return cdcerr.Bug("run %d after run %d", st.Run, was.Run)
	case st.Epoch > was.Epoch:
		return nil
	case st.CheckpointTS < was.CheckpointTS:
		return cdcerr.Bug("P3: checkpoint-ts would go back from %d to %d within epoch %d", was.CheckpointTS, st.CheckpointTS, st.Epoch)
	case st.ResolvedTS < was.ResolvedTS:
		return cdcerr.Bug("P3: resolved-ts would go back from %d to %d within epoch %d", was.ResolvedTS, st.ResolvedTS, st.Epoch)
	}
	return nil
}

// Changefeed is one changefeed as it stood when it was read. It is what a write of
// it is compared with.
type Changefeed struct {
	ID ChangefeedID
	// Info is its identity and configuration, in the JSON of whoever wrote it.
	Info   json.RawMessage
	Status Status
	// Err is why it cannot be read: then Info and Status are not to be trusted.
	Err error
	// Created is the revision in which it was made: one that was removed and made again
	// under its name has another.
	Created int64

	infoErr, statusErr error

	status         Status // as it was read, whatever becomes of Status
	later          later
	infoRevision   int64
	statusRevision int64
}

// Revision is that of the last write of either key.
func (c *Changefeed) Revision() int64 { return max(c.infoRevision, c.statusRevision) }

// take reads one of its keys.
func (c *Changefeed) take(k key, kv *mvccpb.KeyValue) {
	switch k.kind {
	case infoKey:
		c.infoRevision, c.Info, c.infoErr, c.Created = kv.ModRevision, slices.Clone(kv.Value), nil, kv.CreateRevision
		if !json.Valid(kv.Value) {
			c.infoErr = corrupted(kv, nil)
		}
	case statusKey:
		c.statusRevision = kv.ModRevision
		c.Status, c.later, c.statusErr = parseStatus(kv)
		c.status = c.Status
	}
}

// whole notes what cannot be read, or is missing.
func (c *Changefeed) whole() {
	c.Err = errors.Join(c.infoErr, c.statusErr)
	switch {
	case c.Err != nil:
	case c.infoRevision == 0:
		c.Err = cdcerr.MetaCorrupted.New("changefeed %s has a status and no info", c.ID)
	case c.statusRevision == 0:
		c.Err = cdcerr.MetaCorrupted.New("changefeed %s has an info and no status", c.ID)
	}
}

func parseStatus(kv *mvccpb.KeyValue) (st Status, more later, err error) {
	for _, into := range []any{&st, &more} {
		if err := json.Unmarshal(kv.Value, into); err != nil {
			return Status{}, nil, corrupted(kv, err)
		}
	}
	if st.CheckpointTS == 0 || st.CheckpointTS > st.ResolvedTS {
		return Status{}, nil, corrupted(kv, nil)
	}
	for f := range reflect.TypeFor[Status]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		delete(more, name)
	}
	return st, more, nil
}

// Changefeeds are all changefeeds, by namespace and name.
func (s *Store) Changefeeds(ctx context.Context) ([]*Changefeed, error) {
	res, err := s.get(ctx, "listing changefeeds", s.keys.feeds(), clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	return s.changefeeds(res.Kvs), nil
}

// changefeeds puts keys together, which come in their order.
func (s *Store) changefeeds(kvs []*mvccpb.KeyValue) []*Changefeed {
	var out []*Changefeed
	for _, kv := range kvs {
		k := s.keys.parse(string(kv.Key))
		if k.kind != infoKey && k.kind != statusKey {
			continue
		}
		if len(out) == 0 || out[len(out)-1].ID != k.changefeed {
			out = append(out, &Changefeed{ID: k.changefeed})
		}
		out[len(out)-1].take(k, kv)
	}
	for _, c := range out {
		c.whole()
	}
	return out
}

// Changefeed is one of them; ChangefeedNotFound where there is none.
func (s *Store) Changefeed(ctx context.Context, id ChangefeedID) (*Changefeed, error) {
	if err := id.validate(); err != nil {
		return nil, err
	}
	res, err := s.get(ctx, "reading changefeed "+id.String(), s.keys.feed(id)+"/", clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	all := s.changefeeds(res.Kvs)
	if len(all) == 0 {
		return nil, cdcerr.ChangefeedNotFound.New("changefeed %s", id)
	}
	return all[0], nil
}

// CreateChangefeed writes a new changefeed; ChangefeedExists where there is one.
func (s *Store) CreateChangefeed(ctx context.Context, f Fence, id ChangefeedID, info json.RawMessage, st Status) (*Changefeed, error) {
	if err := id.validate(); err != nil {
		return nil, err
	}
	if err := st.follows(Status{Epoch: st.Epoch}); err != nil {
		return nil, err
	}
	ops, err := s.writes(id, info, &st, nil)
	if err != nil {
		return nil, err
	}
	revision, err := s.set(ctx, "creating changefeed "+id.String(), f,
		[]clientv3.Cmp{absent(s.keys.info(id)), absent(s.keys.status(id))}, ops)
	if cdcerr.MetaConflict.Is(err) {
		return nil, cdcerr.ChangefeedExists.New("changefeed %s", id)
	}
	if err != nil {
		return nil, err
	}
	return &Changefeed{ID: id, Info: info, Status: st, Created: revision, status: st, infoRevision: revision, statusRevision: revision}, nil
}

// writes are the operations that write an info, a status, or both.
func (s *Store) writes(id ChangefeedID, info json.RawMessage, st *Status, more later) ([]clientv3.Op, error) {
	var ops []clientv3.Op
	if info != nil {
		switch {
		case len(info) > ValueMax:
			return nil, cdcerr.InvalidArgument.New("changefeed %s: its configuration takes %d bytes, %d is the most", id, len(info), ValueMax)
		case !json.Valid(info):
			return nil, cdcerr.Bug("changefeed %s: its info is not JSON", id)
		}
		ops = append(ops, clientv3.OpPut(s.keys.info(id), string(info)))
	}
	if st != nil {
		if st.CheckpointTS == 0 {
			return nil, cdcerr.Bug("changefeed %s: a status without checkpoint-ts", id)
		}
		value, err := more.beside(st)
		if err != nil {
			return nil, cdcerr.Bug("changefeed %s: %v", id, err)
		}
		ops = append(ops, clientv3.OpPut(s.keys.status(id), string(value)))
	}
	return ops, nil
}

// PutStatus writes how far a changefeed is, if its status is as was has it. A
// checkpoint-ts or resolved-ts that goes back within an epoch is refused (P3).
func (s *Store) PutStatus(ctx context.Context, f Fence, was *Changefeed, st Status) (*Changefeed, error) {
	return s.Put(ctx, f, was, nil, st)
}

// Put writes status and configuration at once, if both are as was has them; a nil
// configuration is left as it is, whoever has written it since.
func (s *Store) Put(ctx context.Context, f Fence, was *Changefeed, info json.RawMessage, st Status) (*Changefeed, error) {
	if err := st.follows(was.status); err != nil {
		return nil, err
	}
	ops, err := s.writes(was.ID, info, &st, was.later)
	if err != nil {
		return nil, err
	}
	conditions := []clientv3.Cmp{unchanged(s.keys.status(was.ID), was.statusRevision)}
	if info != nil {
		conditions = append(conditions, unchanged(s.keys.info(was.ID), was.infoRevision))
	}
	revision, err := s.set(ctx, "writing changefeed "+was.ID.String(), f, conditions, ops)
	if err != nil {
		return nil, err
	}
	now := *was
	now.Status, now.status, now.statusRevision = st, st, revision
	if info != nil {
		now.Info, now.infoRevision = info, revision
	}
	return &now, nil
}

// RemoveChangefeed forgets a changefeed, if it is as was has it.
func (s *Store) RemoveChangefeed(ctx context.Context, f Fence, was *Changefeed) error {
	info, status := s.keys.info(was.ID), s.keys.status(was.ID)
	_, err := s.set(ctx, "removing changefeed "+was.ID.String(), f,
		[]clientv3.Cmp{unchanged(info, was.infoRevision), unchanged(status, was.statusRevision)},
		[]clientv3.Op{clientv3.OpDelete(info), clientv3.OpDelete(status)})
	return err
}
