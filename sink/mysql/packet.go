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
	if p.n > 0 && len(p.text)+1+len(text) > p.max {
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

// send sends what there is. The server ends with the first statement that fails.
func (p *packet) send(ctx context.Context) error {
	if p.n == 0 {
		return nil
	}
	text := string(p.text)
	p.text, p.n = p.text[:0], 0
	return p.session.exec(ctx, p.wait, text)
}
