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

// add puts a statement behind the others.
func (p *packet) add(ctx context.Context, text string) error {
	if !p.session.multi {
		return p.session.exec(ctx, p.wait, text)
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
