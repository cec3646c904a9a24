package scheduler

// balance evens out how many spans captures have, a batch at a time, when nothing
// more urgent is under way.
func (o *Owner) balance() {
	if o.now-o.balanced < o.cfg.BalanceTicks && !o.rebalance {
		return
	}
	if o.moving > 0 || len(o.absent) > 0 || len(o.lost) > 0 {
		return
	}
	o.balanced = o.now
	if !o.spread("spans are evened out") {
		o.rebalance = false
		return
	}
	o.balanced = o.now - o.cfg.BalanceTicks // there may be more: look again as soon as these are done
}

// spread moves spans from captures above the mean to those below, and tells whether it
// moved any.
func (o *Owner) spread(why string) bool {
	total, takers := 0, 0
	for _, m := range o.members {
		if m.takes() {
			takers++
			total += len(m.sets)
		}
	}
	if takers < 2 {
		return false
	}
	full := (total + takers - 1) / takers
	moved := false
	for _, m := range o.members {
		if !m.takes() {
			continue
		}
		surplus := len(m.sets) - full
		for i := len(m.sets) - 1; i >= 0 && surplus > 0 && o.moving < o.cfg.MovesMax; i-- {
			to := o.idlest(m)
			if to == nil || len(to.sets) >= full {
				break
			}
			if o.moveSet(m.sets[i], to, why) {
				moved = true
				surplus--
			}
		}
	}
	return moved
}
