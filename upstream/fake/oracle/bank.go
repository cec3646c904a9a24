package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
	"github.com/sluice-cdc/sluice/verify"
)

// bank folds the accounts: their sum is the same after each commit, from the
// one on that has opened them all.
type bank struct {
	accounts int
	balances map[string]int64 // by key, as of the commits that are settled
	sum      int64
	pending  []deposit // above the last checkpoint
	settled  tso.TS
	judged   int
}

// deposit is what one account holds after one commit.
type deposit struct {
	commit  tso.TS
	key     string
	balance int64
}

func newBank(accounts int) *bank { return &bank{accounts: accounts, balances: map[string]int64{}} }

// row takes a row of the bank that comes for the first time.
func (b *bank) row(d *Delivery) {
	if d.Schema != workload.BankDB {
		return
	}
	for _, c := range d.After {
		if c.Name == "balance" {
			v, err := strconv.ParseInt(c.Text.Text, 10, 64)
			if err != nil {
				return // told already: its text is not what was meant
			}
			b.pending = append(b.pending, deposit{d.CommitTS, string(d.Key), v})
		}
	}
}

// settle folds the commits at or below a checkpoint, and judges each.
func (b *bank) settle(ts tso.TS, v *verify.Verdict) {
	if ts <= b.settled {
		return
	}
	b.settled = ts
	slices.SortStableFunc(b.pending, func(x, y deposit) int { return cmp.Compare(x.commit, y.commit) })
	for len(b.pending) > 0 && b.pending[0].commit <= ts {
		at := b.pending[0].commit
		for len(b.pending) > 0 && b.pending[0].commit == at {
			p := b.pending[0]
			b.sum += p.balance - b.balances[p.key]
			b.balances[p.key] = p.balance
			b.pending = b.pending[1:]
		}
		b.judged++
		if want := int64(b.accounts) * workload.Opening; b.sum != want || len(b.balances) != b.accounts {
			differ(v, verify.Difference{
				TS: at, Table: workload.BankDB, Column: "balance",
				Want: fmt.Sprintf("%d accounts that hold %d", b.accounts, want), Got: fmt.Sprintf("%d that hold %d", len(b.balances), b.sum),
			})
		}
	}
}
