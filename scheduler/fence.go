package scheduler

import "github.com/sluice-cdc/sluice/capture"

// What is compared before a message counts. Each of these is one line because each is
// turned round by itself to see that the simulator notices.

// deposed: the message is of an owner before the one that is known.
func deposed(of, known Revision) bool { return of < known }

// elected: the message is of a later owner than the one that is known.
func elected(of, known Revision) bool { return of > known }

// otherEpoch: the message is of the changefeed before or after an operator set its
// checkpoint.
func otherEpoch(of, mine uint64) bool { return of != mine }

// otherLife: the message is for another life of the capture's half. Who asks for the
// first time does not know which it is.
func otherLife(of, mine uint64) bool { return of != mine && of != 0 }

// late: a message with this number, or a later one, has been taken.
func late(seq, taken uint64) bool { return seq <= taken }

// outgrown: the term is below the one that was given since.
func outgrown(of, given Term) bool { return of < given }

// elsewhere: the message is for another capture, at an address that it once had.
func elsewhere(of, mine capture.ID) bool { return of != mine }

// newer: of two placements of the same keys the later one is meant. The earlier one
// is that of a capture that was fenced off and does not know yet.
func newer(a, b Term) bool { return a > b }

// reborn: the report is of a later life of the capture's half; what the last one had
// is gone.
func reborn(of, known uint64) bool { return of > known }

// overtaken: the report is of a life that is over.
func overtaken(of, known uint64) bool { return of < known }
