package sorter

import "slices"

// victim is an input that gives rows to disk, locked until that is settled.
type victim struct {
	in     *Input
	blocks int // so many from the first on
	chunks map[*chunk]struct{}
	run    *run
}

// evictLocked writes the oldest rows to disk, about an epoch of them; false when
// there are none. Sorter.mu is given up meanwhile.
//
// The oldest go first, of all inputs, for three reasons. Rows alias the messages
// that brought them, and messages hold rows of many spans: memory is free only
// once the rows of an age are all gone. What one reader has read and a slower
// one has not is old. And what goes is read in order, before the rest.
func (s *Sorter) evictLocked() (done bool, err error) {
	s.evicting = true
	s.mu.Unlock()
	done, err = s.evict()
	s.mu.Lock()
	s.evicting = false
	s.wakeLocked()
	return done, err
}

func (s *Sorter) evict() (done bool, err error) {
	inputs, upto, size := s.oldest()
	if size == 0 {
		return false, nil
	}
	s.disk.sweep()
	if err := s.disk.admit(size); err != nil {
		return false, err
	}
	w, err := s.disk.create()
	if err != nil {
		return false, err
	}
	var victims []victim
	defer func() {
		for _, v := range victims {
			v.in.mu.Unlock()
		}
	}()
	var memory scratch
	for _, in := range inputs {
		in.mu.Lock()
		v := victim{in: in}
		victims = append(victims, v)
		sorted, _ := memory.sortUnique(v.gather(memory.entries[:0], upto))
		if len(sorted) > 0 {
			if v.run, err = w.add(sorted); err != nil {
				w.abort()
				return false, err
			}
		}
		victims[len(victims)-1] = v
	}
	if w.next == 0 { // all that was found has gone by now
		w.abort()
		return true, nil
	}
	if err := w.finish(); err != nil {
		return false, err
	}
	s.settle(victims)
	return true, nil
}

// oldest finds the inputs that hold rows of the oldest epochs, so many epochs
// that they make up one as it came in, and what the rows cost.
func (s *Sorter) oldest() (of []*Input, upto uint64, size int64) {
	type held struct {
		epoch uint64
		in    *Input
		bytes int64
	}
	var all []held
	s.mu.Lock()
	inputs := make([]*Input, 0, len(s.inputs))
	for in := range s.inputs {
		inputs = append(inputs, in)
		for _, c := range in.closed.chunks {
			all = append(all, held{c.epoch, in, c.bytes})
		}
	}
	s.mu.Unlock()
	for _, in := range inputs {
		in.mu.Lock()
		for _, b := range in.blocks {
			all = append(all, held{b.epoch, in, b.bytes})
		}
		in.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b held) int {
		switch {
		case a.epoch < b.epoch:
			return -1
		case a.epoch > b.epoch:
			return 1
		}
		return 0
	})
	seen := make(map[*Input]struct{})
	for _, h := range all {
		if h.epoch > upto && size > 0 && size >= s.quota/epochs {
			break
		}
		upto = h.epoch
		size += h.bytes
		if _, twice := seen[h.in]; !twice {
			seen[h.in] = struct{}{}
			of = append(of, h.in)
		}
	}
	return of, upto, size
}

// gather finds the input's rows of epochs up to one.
func (v *victim) gather(dst []entry, upto uint64) []entry {
	in := v.in
	for v.blocks < len(in.blocks) && in.blocks[v.blocks].epoch <= upto {
		rows := in.blocks[v.blocks].rows
		for i := range rows {
			if rows[i].CommitTS > in.resolved {
				dst = append(dst, entryOf(&rows[i]))
			}
		}
		v.blocks++
	}
	in.sorter.mu.Lock()
	defer in.sorter.mu.Unlock()
	v.chunks = make(map[*chunk]struct{})
	for _, c := range in.closed.chunks {
		if c.epoch <= upto {
			v.chunks[c] = struct{}{}
			dst = append(dst, c.entries...)
		}
	}
	return dst
}

// settle takes from memory what is on disk now. Readers have forgotten some of
// it meanwhile, perhaps.
func (s *Sorter) settle(victims []victim) {
	s.mu.Lock()
	for _, v := range victims {
		in := v.in
		if v.run == nil {
			continue
		}
		for _, b := range in.blocks[:v.blocks] {
			s.used -= b.bytes
		}
		in.blocks = slices.Delete(in.blocks, 0, v.blocks)
		s.used -= in.closed.remove(v.chunks)
		if in.gone || v.run.most <= in.floor {
			v.run.drop()
			continue
		}
		in.runs = append(in.runs, v.run)
		in.holdLocked()
	}
	s.mu.Unlock()
	s.sweep()
}
