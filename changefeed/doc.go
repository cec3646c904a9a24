// Package changefeed owns what a changefeed is: its name, its configuration and
// its life. It is pure.
//
//	file ──ParseTOML──┐
//	API  ──ParseJSON──┴▶ Config ──Validate──▶ Check(sink URI) ──▶ what this release lacks, what does nothing
//	                       │                  Handed(sink URI) ──▶ the URI for sink/downstream
//	                       └─FilterConfig──▶ filter.New
//
//	Creation ──Create──▶ Info, Status ──New──▶ Life ◀──Step── reports of the run
//	                        ▲                   │  ◀── Pause, Resume, Update, Remove
//	                        └──────kept─────────┴──Tick(View)──▶ Ready
//
// Config is one type for all its forms. Keys says of every key what it means, what
// its bounds are and what it does here; Validate, Check and docs/config.md all
// read that list, so that none can say something else.
//
// Secrets are types of their own (Secret, URI): whatever prints them masks them,
// encoding/json and go-toml too. Reveal and Info.Stored do not. A configuration or
// a sink URI that comes back masked keeps its secrets.
//
// Create is for a new changefeed, and then: hold GC at the start-ts, read PD's
// safepoint, Create with it, look at the tables (NewPlan), keep Info (Stored) and
// Status, New. In that order no collection comes between the check and the hold.
// Resume likewise.
//
// A Life is led by one owner, from one loop. Step takes in what the capture says
// of the run, commands what an operator says, and Tick says what follows: keep
// what changed, end the run, begin the next one, log, in that order. If keeping
// fails the Life is thrown away and made anew from what is kept: nothing of it
// was done. Begin a run with the checkpoint of Start and give its number back in
// each report; a number is used once, and an owner's numbers are above those of
// earlier owners (Options.Runs).
//
//	P3  checkpoint-ts and resolved-ts never go back within an epoch; only an
//	    operator's overwrite begins one
//	P7  Hold is below the checkpoint of whatever may go on; MinHold is what to hold at PD
//	P8  an error shows at once, with its own code; a broken belief fails the changefeed
//
// FromTiCDC reads a changefeed out of TiCDC's etcd, stopped and at its checkpoint.
//
// NewPlan and CheckTable say what a configuration means for tables, before there is
// a changefeed, for people to read.
package changefeed
