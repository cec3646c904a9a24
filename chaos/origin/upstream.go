package origin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-cdc/sluice/chaos/process"
	"github.com/sluice-cdc/sluice/tso"
)

// Env is the variable that holds a Config in JSON: a program that finds it set is
// to call Serve over its input and output, and nothing else.
const Env = "SLUICE_CHAOS_UPSTREAM"

// Upstream asks a process that serves.
type Upstream struct {
	process *process.Process

	killed atomic.Bool

	mu   sync.Mutex // held from a question to its answer
	from *json.Decoder
}

// Open starts the process: program is one that knows Env.
func Open(c Config, program, log string) (*Upstream, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	p, err := process.Start(process.Command{Name: "the upstream", Program: program, Env: []string{Env + "=" + string(text)}, Log: log, Talk: true})
	if err != nil {
		return nil, err
	}
	return &Upstream{process: p, from: json.NewDecoder(p.Out)}, nil
}

// closeMax is how long the process may take to end.
const closeMax = 20 * time.Second

// Close ends the process.
func (u *Upstream) Close() error {
	if u.killed.Load() {
		return errors.Join(u.process.In.Close(), u.process.Out.Close()) // how it ended is known
	}
	return errors.Join(u.process.Leave(closeMax), u.process.Out.Close())
}

func (u *Upstream) ask(what string, with, into any) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	q := request{Ask: what}
	var err error
	if with != nil {
		if q.With, err = json.Marshal(with); err != nil {
			return err
		}
	}
	if err = json.NewEncoder(u.process.In).Encode(q); err != nil {
		return fmt.Errorf("asking the upstream for %s: %w", what, err)
	}
	var a answer
	switch err := u.from.Decode(&a); {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("the upstream has ended before it answered %s: %w", what, u.process.Wait())
	case err != nil:
		return fmt.Errorf("the upstream's answer to %s: %w", what, err)
	case a.Error != "":
		return fmt.Errorf("the upstream, of %s: %s", what, a.Error)
	case into == nil:
		return nil
	}
	return json.Unmarshal(a.Body, into)
}

// Place tells where it is.
func (u *Upstream) Place() (p Place, err error) {
	err = u.ask(askPlace, nil, &p)
	return p, err
}

// Begin makes the tables and begins the load.
func (u *Upstream) Begin() error { return u.ask(askBegin, nil, nil) }

// End ends the load.
func (u *Upstream) End() (e End, err error) {
	err = u.ask(askEnd, nil, &e)
	return e, err
}

// Statements are the DDL that was carried out.
func (u *Upstream) Statements() (s []Statement, err error) {
	err = u.ask(askStatements, nil, &s)
	return s, err
}

// Tables are the ids of the heartbeat's tables and of the bank's, which keep them, by
// their names with that of the database before.
func (u *Upstream) Tables() (ids map[string]int64, err error) {
	err = u.ask(askTables, nil, &ids)
	return ids, err
}

// Databases are those that the load writes to.
func (u *Upstream) Databases() (names []string, err error) {
	err = u.ask(askDatabases, nil, &names)
	return names, err
}

// Kill ends the process where it stands. Nothing can be asked any more; Close is still due.
func (u *Upstream) Kill() {
	u.process.Kill()
	u.killed.Store(true)
}

// Balances are what the accounts held at moments.
func (u *Upstream) Balances(at []tso.TS) (a []Accounts, err error) {
	err = u.ask(askBalances, at, &a)
	return a, err
}

// Compare tells how a downstream differs from what stood upstream at a moment.
func (u *Upstream) Compare(d Downstream) (differences []string, err error) {
	err = u.ask(askCompare, d, &differences)
	return differences, err
}
