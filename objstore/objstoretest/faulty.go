package objstoretest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/objstore"
)

// Op is a kind of operation.
type Op string

// The operations.
const (
	Put    Op = "put"
	PutNew Op = "put new"
	Get    Op = "get"
	List   Op = "list"
	Delete Op = "delete"
)

// Call is one operation, numbered from 1 on in the order in which they began.
type Call struct {
	Number int
	Op     Op
	Name   string // of a List: the prefix
}

// Fault is what becomes of an operation.
type Fault uint8

// The faults.
const (
	None Fault = iota
	Fail       // nothing happens, and an error is the answer
	Lost       // it is done, and an error is the answer
	Tear       // of an object half is there, and an error is the answer; else as Fail
	Kill       // it is done; its caller and all later ones get errors, as if the process had died
)

// Faults are all that make an operation fail.
func Faults() []Fault { return []Fault{Fail, Lost, Tear, Kill} }

func (f Fault) String() string { return [...]string{"none", "fail", "lost", "tear", "kill"}[f] }

// ErrInjected is in every error that a Faulty makes up.
var ErrInjected = errors.New("injected")

// Faulty is a bucket that fails on command. Decide is asked at every operation, by
// many goroutines; while it does not return, the operation waits.
type Faulty struct {
	objstore.Bucket
	Decide func(ctx context.Context, c Call) Fault

	calls  atomic.Int64
	killed atomic.Bool
}

// At has the nth operation meet with a fault, and calls kill with it where the fault is
// Kill. Met tells whether there was such an operation.
func At(n int, fault Fault, kill func()) (decide func(context.Context, Call) Fault, met *atomic.Bool) {
	met = new(atomic.Bool)
	return func(_ context.Context, c Call) Fault {
		if c.Number != n {
			return None
		}
		met.Store(true)
		if fault == Kill {
			kill()
		}
		return fault
	}, met
}

// Calls is how many operations have begun.
func (f *Faulty) Calls() int { return int(f.calls.Load()) }

// Kill makes all further operations fail.
func (f *Faulty) Kill() { f.killed.Store(true) }

// Killed tells whether a Kill has happened.
func (f *Faulty) Killed() bool { return f.killed.Load() }

func injected(c Call, what Fault) error {
	return cdcerr.StorageAPI.Wrap(ErrInjected, "operation %d, %s %s: %s", c.Number, c.Op, c.Name, what)
}

func (f *Faulty) call(ctx context.Context, op Op, name string, do func() error, tear func() error) error {
	c := Call{Number: int(f.calls.Add(1)), Op: op, Name: name}
	if f.killed.Load() {
		return injected(c, Kill)
	}
	what := None
	if f.Decide != nil {
		what = f.Decide(ctx, c)
	}
	var err error
	switch what {
	case None:
		if err = do(); err == nil && f.killed.Load() {
			err = injected(c, Kill) // done, and nobody is there to hear of it
		}
		return err
	case Fail:
	case Tear:
		if tear != nil {
			err = tear()
		}
	case Kill:
		f.killed.Store(true)
		err = do()
	case Lost:
		err = do()
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w, and by itself: %w", injected(c, what), err)
	}
	return injected(c, what)
}

// Put implements objstore.Bucket.
func (f *Faulty) Put(ctx context.Context, name string, data []byte) error {
	return f.call(ctx, Put, name,
		func() error { return f.Bucket.Put(ctx, name, data) },
		func() error { return f.Bucket.Put(ctx, name, data[:len(data)/2]) })
}

// PutNew implements objstore.Bucket.
func (f *Faulty) PutNew(ctx context.Context, name string, data []byte) error {
	return f.call(ctx, PutNew, name,
		func() error { return f.Bucket.PutNew(ctx, name, data) },
		func() error { return f.Bucket.PutNew(ctx, name, data[:len(data)/2]) })
}

// Get implements objstore.Bucket.
func (f *Faulty) Get(ctx context.Context, name string, offset, length int64) (data []byte, err error) {
	err = f.call(ctx, Get, name, func() error {
		data, err = f.Bucket.Get(ctx, name, offset, length)
		return err
	}, nil)
	if err != nil {
		return nil, err
	}
	return data, nil
}

// List implements objstore.Bucket.
func (f *Faulty) List(ctx context.Context, prefix, after string, visit func(objstore.Object) error) error {
	return f.call(ctx, List, prefix, func() error { return f.Bucket.List(ctx, prefix, after, visit) }, nil)
}

// Delete implements objstore.Bucket.
func (f *Faulty) Delete(ctx context.Context, name string) error {
	return f.call(ctx, Delete, name, func() error { return f.Bucket.Delete(ctx, name) }, nil)
}
