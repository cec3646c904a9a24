package catalog

// analyzeSkipped is what a job notes when no statistics are gathered.
const analyzeSkipped = 2

// rollingback tells whether the job is being undone.
func (w *work) rollingback() bool { return w.j.failure != nil }

// reportFailure writes into the job why it is being undone.
func (w *work) reportFailure() {
	if w.info.Err == nil {
		w.info.Err = w.j.failure
		w.info.ErrCount++
	}
}

// snapshot fixes the moment as of which a backfill reads.
func (w *work) snapshot() { w.info.SnapshotVer = w.start + 1 }

// reorgType notes how a backfill is run: 1, row by row in transactions.
func (w *work) reorgType(tp int) {
	if w.info.Reorg != nil {
		w.info.Reorg.ReorgTp = tp
	}
}

func (w *work) analyzed() int {
	if w.info.Reorg == nil {
		return analyzeSkipped
	}
	return w.info.Reorg.AnalyzeState
}

func (w *work) analyze() { w.info.Reorg.AnalyzeState = analyzeSkipped }
