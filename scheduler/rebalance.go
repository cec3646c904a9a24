package scheduler

// rebalanceAsked lets the next look at the balance be now, because an operator asked.
// It is over when the look finds nothing to do.
func (o *Owner) rebalanceAsked() {
	if o.rebalance && o.now > o.cfg.BalanceTicks {
		o.balanced = o.now - o.cfg.BalanceTicks
	}
}
