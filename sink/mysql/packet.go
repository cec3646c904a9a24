package mysql

import (
	"context"
	"time"
)

// A packet gathers statements that go to the server at once, as far as the server
// takes several: a round trip each would cost more than most of them.
type packet struct {
	session *session
	wait    time.Duration // for the answer
	max     int           // bytes of statements that go together
	most    int           // that the server takes at once

	text []byte
	n    int
}

// keptMax bounds what a session keeps of where it has printed its last transaction.
// Rows of some hundred bytes stay below; larger ones are worth a new piece of memory.
const keptMax = 256 << 10

// kept is what of a buffer is kept.
func kept(buf []byte) []byte {
	if cap(buf) > keptMax {
		return nil
	}
	return buf[:0]
}

// add puts a statement behind the others.
func (p *packet) add(ctx context.Context, text []byte) error {
	if !p.session.multi {
		return p.session.exec(ctx, p.wait, string(text))
	}
	if p.n > 0 && !p.together(len(p.text)+1+len(text)) {
		if err := p.send(ctx); err != nil {
			return err
		}
	}
	if p.n > 0 {
		p.text = append(p.text, ';')
	}
	p.text = append(p.text, text...)
	p.n++
	return nil
}

// small is what goes along with whatever comes behind it.
const small = 4 << 10

// together tells whether what there is and what follows go at once, so many bytes. What
// begins a transaction waits for a large statement rather than be sent before it: the
// server would end the transaction if that took long to put together.
func (p *packet) together(n int) bool {
	return n <= p.max || len(p.text) <= small && n <= p.most
}

// send sends what there is. The server ends with the first statement that fails.
func (p *packet) send(ctx context.Context) error {
	if p.n == 0 {
		return nil
	}
	text := string(p.text)
	p.text, p.n = p.text[:0], 0
	return p.session.exec(ctx, p.wait, text)
}
