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
// Create is for a new changefeed. Its caller then holds GC at the start-ts and
// reads the schema there, which fails where GC was faster; looks at the tables
// (NewPlan); keeps Info (Stored) and Status; and calls New. The hold stays until
// the cluster's own covers the changefeed, so that no collection comes between the
// check and that. A caller that knows PD's safepoint may give it, and is refused
// earlier. To resume is the same: the hold comes before Resume.
//
// A Life is led by one owner, under one lock: it is no loop's own. Step takes in
// what the capture says of the run, commands what an operator says, and Tick says
// what follows: keep what changed, end the run, begin the next one, log, in that
// order. Whoever holds the lock may Tick, the run that reports, the operator's
// request or the changefeed's loop, and put what comes out behind what is not done
// yet; ends and begins of runs are done by the loop alone. If keeping fails the
// Life stands, and what was to be kept is kept later: nothing that follows is done,
// and nothing is answered as done, before that. Begin a run with the checkpoint of
// Start and give its number back in each report; a number is used once, and an
// owner's numbers are above those of earlier owners (Options.Runs). The run that an
// owner has begun goes on under the next one, by the number that is kept: captures
// write on meanwhile.
//
//	P3  checkpoint-ts and resolved-ts never go back within an epoch; only an
//	    operator's overwrite begins one
//	P7  Hold is below the checkpoint of whatever may go on
//	P8  an error shows at once, with its own code; a broken belief fails the changefeed
//
// FromTiCDC reads a changefeed out of what TiCDC keeps in etcd, with its checkpoint.
//
// NewPlan and CheckTable say what a configuration means for tables, before there is
// a changefeed, for people to read.
package changefeed
