// Package coordinator owns one capture's place in its cluster: its parts in what runs,
// and, while it is the owner, the life of every changefeed.
//
//	             etcd: who is there, who leads, what runs
//	               │ watch                        ▲ life, watermark, under the owner's fence
//	every capture: member ─▶ seat ─▶ agent.Part   │
//	                           ▲ orders │ reports │
//	the owner:  reign ─┬─ feed ─ changefeed.Life ─┴─▶ run: coordinator/owner.Loop ─▶ sink
//	                   ├─ feed …
//	                   └─ hold on GC below what all of them have still to read
//
// The coordinator is the control plane of one session, as server.Plane; for the API
// it is the node. A capture that is not the owner knows the members, who leads and
// what runs; how a changefeed gets on it does not know.
//
// A changefeed's loop asks its life what follows, persists it under the owner's
// fence, and only then acts (P3): what is not persisted has not happened. Captures
// act by what is persisted too: they begin a part when its run's number is there with
// a state that runs, and end it when another number or state is. A part of the next run
// begins when that of the last one has ended on the same capture, and the next run's
// loop places nothing before every capture has told it what it holds, or is fenced off, or
// gone: so two runs never write side by side (P1). An owner that finds a run goes on
// with it, and captures write on meanwhile.
//
// A run's watermarks are persisted through the life: one writer of one key. Everything
// is written by the leave of the session, which ends before etcd may give the cluster
// to somebody else, and which is given back when nothing writes by it any more.
//
// What a capture fails of it tells as a report; it ends the run, as an error of the
// owner's own does, and the life says what follows. What it rides out is a warning.
//
// Told to end, a capture says so in its own key, gives up leading, and waits until its
// parts hold nothing, which is the next owner's to see to; where no other capture is
// there that could take them it waits for nobody. That a capture is drained stands in etcd as
// long as its session lives: the next owner goes on with it.
//
// A changefeed that is to end with its redo log once the upstream is lost has every capture
// say whether it reaches anything of that (watchUpstream), and the owner count for how
// long none does (guard). The decision is persisted, with a state that does not run, before the run ends;
// then the log is applied beside the loop, as a run is (applyRedo), by this owner or the
// next one, whether anything is held upstream or not.
//
// The hold on GC stands before a run's first read, and before a changefeed is made
// or resumed, and is the least of what every changefeed may still need: its life, and
// an owner that would take it up where etcd has it (P7). An owner knows all of them
// and holds that before the first one runs.
//
// What etcd keeps of a changefeed and nobody can read is that changefeed's error;
// the others run (P8). So is what it has come to and etcd cannot keep. An owner that is
// not the owner any more ends its reign, and everything in it; the capture stands for
// election again, and its parts go on, as they do while etcd does not answer.
//
// Goroutines: Run has the member's watch, its loop, one that looks for the upstream, and one for
// each part, a reign has one for GC, one that guards against its loss, one that waits for its end, and one for each changefeed's loop
// and run, all in the reign's group; a run's are those of owner.Loop, a part's those of
// agent.Part.
package coordinator
