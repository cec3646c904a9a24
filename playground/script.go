package playground

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// The events that befall captures.
const (
	drainEvent = "drain" // its tables are moved away, then it is told to end
	killEvent  = "kill"  // it ends where it stands, as by kill -9
	joinEvent  = "join"  // one more is started
)

// leaderWord, behind drain or kill, picks the capture that leads; otherwise one that
// does not is picked, where there is one.
const leaderWord = "leader"

// incident is one line of a script.
type incident struct {
	at     time.Duration // since the workload has begun to write
	what   string
	leader bool
}

func (e incident) String() string {
	text := e.at.String() + " " + e.what
	if e.leader {
		text += " " + leaderWord
	}
	return text
}

// scriptForm is what a script looks like.
const scriptForm = `want times and events, comma between, such as "5s drain, 12s kill leader, 20s join"`

// parseScript reads a script for so many captures, of which there is always one.
func parseScript(text string, captures int) (events []incident, err error) {
	bad := cdcerr.InvalidArgument.New
	for line := range strings.SplitSeq(text, ",") {
		words := strings.Fields(line)
		if len(words) < 2 || len(words) > 3 {
			return nil, bad("--script %q: %s", strings.TrimSpace(line), scriptForm)
		}
		e := incident{what: words[1], leader: len(words) == 3}
		if e.at, err = time.ParseDuration(words[0]); err != nil || e.at < 0 {
			return nil, bad("--script %q: %q is no time; %s", strings.TrimSpace(line), words[0], scriptForm)
		}
		if e.leader && (words[2] != leaderWord || e.what == joinEvent) {
			return nil, bad("--script %q: %q says nothing here; %s", strings.TrimSpace(line), words[2], scriptForm)
		}
		switch e.what {
		case joinEvent:
			captures++
		case drainEvent, killEvent:
			captures--
		default:
			return nil, bad("--script %q: %q is none of %s, %s, %s", strings.TrimSpace(line), e.what, drainEvent, killEvent, joinEvent)
		}
		switch {
		case captures < 1:
			return nil, bad("--script: %v would leave no capture; begin with more --captures, or let one join before", e)
		case captures > capturesMax:
			return nil, bad("--script: %v would make %d captures, want at most %d", e, captures, capturesMax)
		case len(events) > 0 && e.at < events[len(events)-1].at:
			return nil, bad("--script: %v stands behind %v; give them in their order", e, events[len(events)-1])
		}
		events = append(events, e)
	}
	return events, nil
}

// defaultScript has one of each happen while the workload writes; the last capture is
// never taken away.
func defaultScript(captures int, d time.Duration) []incident {
	what := []string{drainEvent, killEvent, joinEvent}
	switch captures {
	case 1:
		what = []string{joinEvent, drainEvent}
	case 2:
		what = []string{joinEvent, drainEvent, killEvent}
	}
	var events []incident
	for i, w := range what {
		events = append(events, incident{at: (d * time.Duration(3*i+2) / 10).Round(time.Millisecond), what: w})
	}
	return events
}

// scriptText is a script as it is typed.
func scriptText(events []incident) string {
	var out []string
	for _, e := range events {
		out = append(out, fmt.Sprint(e))
	}
	return strings.Join(out, ", ")
}
