package changefeed

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/strict"
	"github.com/sluice-cdc/sluice/tso"
)

// Info is what a changefeed is, and what is wrong with it: all that is kept of it
// beside its Status.
type Info struct {
	Namespace      string    `json:"namespace"`
	Name           string    `json:"changefeed-id"`
	UpstreamID     uint64    `json:"upstream-id"`
	SinkURI        URI       `json:"sink-uri"`
	CreateTime     time.Time `json:"create-time"`
	CreatorVersion string    `json:"creator-version"`
	StartTS        tso.TS    `json:"start-ts"`
	TargetTS       tso.TS    `json:"target-ts"` // 0 never ends
	Config         Config    `json:"config"`

	Error   *Fault   `json:"error,omitempty"`
	Warning *Fault   `json:"warning,omitempty"`
	Trouble *Trouble `json:"trouble,omitempty"`

	// RedoTurns counts how often the redo log was turned on or off, or put elsewhere: what
	// is written meanwhile is not in the one before.
	RedoTurns uint64 `json:"redo-turns,omitempty"`
	// Upstream is where the upstream was last, as far as somebody has to know once it is
	// not there.
	Upstream *Addresses `json:"upstream,omitempty"`
	// Loss is that the upstream is lost, once that is decided.
	Loss *Loss `json:"upstream-loss,omitempty"`

	later *later // nil: nothing
}

// later is what a later release has written beside what is known here. It is kept where
// the changefeed is written again: while servers are replaced by those of the next release
// one after another, a changefeed goes from the one to the other and back.
type later struct {
	keys []string // their paths
	read any      // all that stood there; secrets of that release may be in it
	was  any      // what this release would have written then
}

// Later are the keys that a later release has written, and that mean nothing here.
func (i *Info) Later() []string {
	if i.later == nil {
		return nil
	}
	return i.later.keys
}

// Trouble is how long a changefeed has not gone on, and how often it was tried.
type Trouble struct {
	Since    time.Time `json:"since"`
	Attempts int       `json:"attempts"`
	RetryAt  time.Time `json:"retry-at"`
	// From is the checkpoint-ts beyond which the trouble is over.
	From tso.TS `json:"from"`
	// Away says that nothing of the upstream is reached: that is waited for, by whoever
	// leads, and no time in which the changefeed could go on.
	Away bool `json:"away,omitempty"`
}

// Status is how far a changefeed is.
type Status struct {
	CheckpointTS tso.TS `json:"checkpoint-ts"`
	ResolvedTS   tso.TS `json:"resolved-ts"`
	// Epoch grows when an operator sets the checkpoint, and at no other time.
	Epoch uint64 `json:"epoch"`
	// Run is the present or the last run, 0 before the first. Runs have rising numbers,
	// whoever led; it goes on over owners, and ends with the state that runs.
	Run   uint64 `json:"run,omitempty"`
	State State  `json:"state"`
}

// ID is the changefeed's name.
func (i *Info) ID() ID { return ID{i.Namespace, i.Name} }

// Stored is what etcd keeps, secrets in clear. For everything else there is
// encoding/json, which masks them.
func (i *Info) Stored() (json.RawMessage, error) {
	out, err := json.Marshal(tree(reflect.ValueOf(i).Elem()))
	if err != nil {
		return nil, cdcerr.Bug("changefeed %s is no JSON: %v", i.ID(), err)
	}
	if i.later == nil {
		return out, nil
	}
	now, err := decode(out)
	if err != nil {
		return nil, err
	}
	if out, err = json.Marshal(i.later.beside(now)); err != nil {
		return nil, cdcerr.Bug("changefeed %s is no JSON: %v", i.ID(), err)
	}
	return out, nil
}

// beside is what is written now with what a later release wrote. What comes and goes, as
// errors do, takes that with it.
func (l *later) beside(now any) any {
	read, _ := l.read.(map[string]any)
	is, _ := now.(map[string]any)
	was, _ := l.was.(map[string]any)
	read = maps.Clone(read)
	for name := range read {
		if name != "config" && !reflect.DeepEqual(is[name], was[name]) {
			delete(read, name)
		}
	}
	return strict.Keep(now, l.was, read, reflect.TypeFor[Info](), "json")
}

// ParseInfo reads what Stored wrote. A key that is not known is a later release's, and
// kept. Keys that are not there have their default.
func ParseInfo(text []byte) (*Info, error) {
	var unknown *strict.Error
	if err := strict.JSON(text, &Info{}); err != nil && !errors.As(err, &unknown) {
		return nil, cdcerr.ConfigInvalid.Wrap(err, "what is kept of a changefeed, perhaps by a later release")
	}
	given, err := decode(text)
	if err != nil {
		return nil, err
	}
	initial := Info{Config: Default()}
	base, err := initial.Stored()
	if err != nil {
		return nil, err
	}
	first, err := decode(base)
	if err != nil {
		return nil, err
	}
	whole, err := json.Marshal(overlay(first, given, first))
	if err != nil {
		return nil, cdcerr.Bug("what is kept of a changefeed is no JSON: %v", err)
	}
	out := &Info{}
	if err := json.Unmarshal(whole, out); err != nil {
		return nil, cdcerr.ConfigInvalid.Wrap(err, "what is kept of a changefeed, perhaps by a later release")
	}
	if unknown != nil {
		if err := out.remember(given, unknown); err != nil {
			return nil, err
		}
	}
	return out, out.ID().Validate()
}

// remember notes what is not known of what was read.
func (i *Info) remember(read any, unknown *strict.Error) error {
	text, err := i.Stored()
	if err != nil {
		return err
	}
	l := &later{read: read}
	if l.was, err = decode(text); err != nil {
		return err
	}
	for _, k := range unknown.Keys {
		l.keys = append(l.keys, k.Path)
	}
	slices.Sort(l.keys)
	l.keys = slices.Compact(l.keys)
	i.later = l
	return nil
}

// Creation is a changefeed that is wanted.
type Creation struct {
	ID         ID
	UpstreamID uint64
	SinkURI    URI
	StartTS    tso.TS // 0: now
	TargetTS   tso.TS // 0: never
	Config     Config
	Version    string // of the server that creates it

	Now       time.Time
	Present   tso.TS // PD's
	Safepoint tso.TS // below which garbage collection may have been; 0 is not known
	Limits    Limits
}

// Create checks all that can be known without the upstream's tables and the sink.
// The notes are for whoever asked. What comes out goes to New once it is kept.
func Create(c Creation) (Info, Status, []string, error) {
	fail := func(err error) (Info, Status, []string, error) { return Info{}, Status{}, nil, err }
	if err := c.ID.Validate(); err != nil {
		return fail(err)
	}
	if err := c.Config.Validate(c.Limits); err != nil {
		return fail(err)
	}
	notes, err := c.Config.Check(c.SinkURI)
	if err != nil {
		return fail(err)
	}
	if c.StartTS == 0 {
		c.StartTS = c.Present
	}
	switch {
	case c.StartTS == 0:
		return fail(cdcerr.Bug("a changefeed is created at no time"))
	case c.StartTS > c.Present:
		return fail(cdcerr.InvalidArgument.New("start-ts %d (%s) is in the future: the upstream's present is %d (%s)", c.StartTS, c.StartTS.Time(), c.Present, c.Present.Time()))
	case c.TargetTS != 0 && c.TargetTS <= c.StartTS:
		return fail(cdcerr.TargetTSInvalid.New("target-ts %d, start-ts %d", c.TargetTS, c.StartTS))
	case c.Config.CheckGCSafePoint && c.StartTS <= c.Safepoint:
		return fail(cdcerr.StartTSBeforeGC.New("start-ts %d (%s), GC safepoint %d (%s)", c.StartTS, c.StartTS.Time(), c.Safepoint, c.Safepoint.Time()))
	}
	info := Info{
		Namespace: c.ID.Namespace, Name: c.ID.Name, UpstreamID: c.UpstreamID, SinkURI: c.SinkURI, CreateTime: c.Now, CreatorVersion: c.Version,
		StartTS: c.StartTS, TargetTS: c.TargetTS, Config: c.Config,
	}
	// A DDL at the start-ts is to be carried out, which a checkpoint says of those above it.
	before := c.StartTS.Prev()
	return info, Status{CheckpointTS: before, ResolvedTS: before, State: Normal}, notes, nil
}
