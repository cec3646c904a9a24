package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
	"github.com/sluice-cdc/sluice/upstream/fake/live"
)

// BankDB is the database of the bank. Its tables a0, a1 … hold an account a row:
// id, owner, balance.
const BankDB = "bank"

// Opening is what every account holds at first; the sum over all of them never
// changes.
const Opening = 1000

// Money is what all accounts of the workload's bank hold together, at every moment; 0
// where it has none.
func (w *Workload) Money() int64 {
	if !slices.Contains(w.Databases(), BankDB) {
		return 0
	}
	return int64(w.cfg.Size) * Opening
}

// bank transfers money between accounts.
type bank struct{ cfg Config }

func (b *bank) databases() []string { return []string{BankDB} }

func (b *bank) streams() int { return 0 }

func (b *bank) alter(context.Context, *Workload, int, *rand.Rand) (bool, error) { return true, nil }

func (b *bank) prepare(ctx context.Context, w *Workload) error {
	if err := w.create(ctx, "", "CREATE DATABASE "+BankDB); err != nil {
		return err
	}
	for i := range b.cfg.Tables {
		sql := fmt.Sprintf("CREATE TABLE a%d (id bigint NOT NULL PRIMARY KEY, owner varchar(32) NOT NULL, balance bigint NOT NULL)", i)
		if err := w.create(ctx, BankDB, sql); err != nil {
			return err
		}
	}
	x, err := w.Server.Begin(ctx, live.Options{}, false)
	if err != nil {
		return err
	}
	defer x.End()
	for n := range b.cfg.Size {
		shape, r, err := b.account(x, n, Opening)
		if err != nil {
			return err
		}
		if err := x.Put(shape, r); err != nil {
			return err
		}
	}
	_, err = x.Commit(ctx)
	return err
}

// account is the row of an account.
func (b *bank) account(x *Session, n int, balance int64) (*catalog.Shape, *Record, error) {
	shape := x.Table(BankDB, "a"+strconv.Itoa(n%b.cfg.Tables))
	if shape == nil {
		return nil, nil, fmt.Errorf("the table of account %d is gone", n)
	}
	r := &Record{}
	for i, text := range []string{strconv.Itoa(n), "owner " + strconv.Itoa(n), strconv.FormatInt(balance, 10)} {
		c, err := textCell(&shape.Table.Columns[i], text)
		if err != nil {
			return nil, nil, err
		}
		r.Cells = append(r.Cells, c)
	}
	// What was added to the table meanwhile tells of whom it is, too.
	for i := len(r.Cells); i < len(shape.Table.Columns); i++ {
		c, err := textCell(&shape.Table.Columns[i], strconv.Itoa(n))
		if err != nil {
			return nil, nil, err
		}
		r.Cells = append(r.Cells, c)
	}
	return shape, r, nil
}

// play is one transfer among two to four accounts.
func (b *bank) play(ctx context.Context, x *Session, rng *rand.Rand) (commit bool, err error) {
	parties := rng.Perm(b.cfg.Size)[:min(2+rng.IntN(3), b.cfg.Size)]
	balances, err := b.balances(ctx, x, parties)
	if err != nil {
		return false, err
	}
	for i := range parties[1:] {
		sum := rng.Int64N(20)
		balances[i], balances[i+1] = balances[i]-sum, balances[i+1]+sum
	}
	for i, n := range parties {
		shape, r, err := b.account(x, n, balances[i])
		if err != nil {
			return false, err
		}
		if err := x.Put(shape, r); err != nil {
			return false, err
		}
	}
	return true, nil
}

// balances reads accounts: under their locks, or of the snapshot.
func (b *bank) balances(ctx context.Context, x *Session, parties []int) ([]int64, error) {
	keys := make([][]byte, len(parties))
	var shape *catalog.Shape
	for i, n := range parties {
		var r *Record
		var err error
		if shape, r, err = b.account(x, n, 0); err != nil {
			return nil, err
		}
		if keys[i], err = x.Key(shape, r); err != nil {
			return nil, err
		}
	}
	values, err := x.Lock(ctx, keys...)
	if err != nil {
		return nil, err
	}
	out := make([]int64, len(parties))
	for i, key := range keys {
		var v []byte
		if values != nil {
			v = values[i]
		} else if v, err = x.Get(ctx, key); err != nil {
			return nil, err
		}
		if out[i], err = intCell(v, shape.Table.Columns[2].ID); err != nil {
			return nil, err
		}
	}
	return out, nil
}
