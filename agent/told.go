package agent

import (
	"sync"

	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/span"
)

// mailbox holds what an engine tells until the loop takes it: of a span that only moves
// the last word, and so no more words than three for each span.
type mailbox struct {
	ready chan struct{} // one signal: more than one word is still one reason to look

	mu    sync.Mutex
	words []pipeline.Told
	last  map[span.Span]int // where the last word of a span stands
}

func newMailbox() *mailbox {
	return &mailbox{ready: make(chan struct{}, 1), last: map[span.Span]int{}}
}

// put takes a word. Those of one span keep their order: an end may be followed by the
// arrival of the same span anew.
func (b *mailbox) put(t pipeline.Told) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i, ok := b.last[t.Span]; ok && t.What == pipeline.Moved && b.words[i].What == pipeline.Moved {
		t.Traffic += b.words[i].Traffic
		b.words[i] = t
		return
	}
	b.last[t.Span] = len(b.words)
	b.words = append(b.words, t)
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// take gives what there is.
func (b *mailbox) take() []pipeline.Told {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.words
	b.words, b.last = nil, make(map[span.Span]int, len(b.last))
	return out
}
