package badline_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-cdc/sluice/transport/badline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ends is a connection through a line, and its other end. It has no buffer, and time
// in it is virtual.
func ends(t *testing.T, line *badline.Line) (through, other net.Conn) {
	t.Helper()
	raw, other := net.Pipe()
	through, err := line.Dialer(func(context.Context, string) (net.Conn, error) { return raw, nil })(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return through, other
}

// said is what comes out of a connection as one piece.
type said struct {
	text string
	err  error
	at   time.Time
}

func hear(c net.Conn) <-chan said {
	out := make(chan said, 1)
	go func() {
		b := make([]byte, 64)
		n, err := c.Read(b)
		out <- said{string(b[:n]), err, time.Now()}
	}()
	return out
}

func say(c net.Conn, text string) <-chan error {
	out := make(chan error, 1)
	go func() {
		_, err := io.WriteString(c, text)
		out <- err
	}()
	return out
}

func quiet(t *testing.T, heard <-chan said) {
	t.Helper()
	synctest.Wait()
	select {
	case s := <-heard:
		t.Fatalf("heard %q %v", s.text, s.err)
	default:
	}
}

func TestCutAndHeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := badline.New()
		through, other := ends(t, line)
		defer through.Close()
		defer other.Close()

		line.Cut(badline.Out)
		heard := hear(other)
		out := say(through, "held")
		quiet(t, heard)
		in := hear(through)
		if err := <-say(other, "goes on"); err != nil {
			t.Fatal(err)
		}
		if s := <-in; s.text != "goes on" {
			t.Errorf("%+v", s)
		}
		line.Heal()
		if s, err := <-heard, <-out; s.text != "held" || err != nil {
			t.Errorf("%+v %v", s, err)
		}

		line.Cut(badline.In)
		in = hear(through)
		if err := <-say(other, "first"); err != nil { // was on its way
			t.Fatal(err)
		}
		quiet(t, in)
		line.Heal()
		if s := <-in; s.text != "first" {
			t.Errorf("%+v", s)
		}
	})
}

// Who waits behind a cut can be called off, and loses nothing by it.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := badline.New()
		through, other := ends(t, line)
		defer other.Close()
		line.Cut(badline.In)
		in := hear(through)
		if err := <-say(other, "kept"); err != nil {
			t.Fatal(err)
		}
		quiet(t, in)
		begun := time.Now()
		if err := through.SetReadDeadline(begun.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if s := <-in; !errors.Is(s.err, os.ErrDeadlineExceeded) || time.Since(begun) != time.Second {
			t.Fatalf("%+v", s)
		}
		line.Heal()
		if err := through.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if s := <-hear(through); s.text != "kept" {
			t.Fatalf("%+v", s)
		}
		begun = time.Now()
		line.Cut(badline.Out)
		if err := through.SetWriteDeadline(begun.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if err := <-say(through, "never"); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		if err := through.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		out := say(through, "never")
		synctest.Wait()
		if err := through.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-out; !errors.Is(err, net.ErrClosed) || line.Len() != 0 {
			t.Errorf("%v, %d connections", err, line.Len())
		}
	})
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := badline.New()
		through, other := ends(t, line)
		defer through.Close()
		defer other.Close()
		line.Delay(badline.Out, time.Minute)
		line.Delay(badline.In, time.Hour)
		begun := time.Now()
		heard := hear(other)
		if err := <-say(through, "late"); err != nil {
			t.Fatal(err)
		}
		if s := <-heard; s.text != "late" || s.at.Sub(begun) != time.Minute {
			t.Errorf("%q after %v", s.text, s.at.Sub(begun))
		}
		begun = time.Now()
		in := hear(through)
		if err := <-say(other, "later"); err != nil {
			t.Fatal(err)
		}
		if s := <-in; s.text != "later" || s.at.Sub(begun) != time.Hour {
			t.Errorf("%q after %v", s.text, s.at.Sub(begun))
		}
	})
}

func TestBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := badline.New()
		through, other := ends(t, line)
		second, far := ends(t, line)
		defer far.Close()
		line.BreakAfter(3)
		heard := hear(other)
		if err := <-say(through, "broken"); !errors.Is(err, badline.ErrBroken) {
			t.Error(err)
		}
		if s := <-heard; s.text != "bro" {
			t.Errorf("%+v", s)
		}
		for _, c := range []net.Conn{other, second} {
			if s := <-hear(c); s.err == nil {
				t.Errorf("%+v", s)
			}
		}
		line.Refuse()
		_, err := line.Dialer(func(context.Context, string) (net.Conn, error) { c, _ := net.Pipe(); return c, nil })(t.Context(), "")
		if !errors.Is(err, badline.ErrBroken) || line.Len() != 0 {
			t.Errorf("%v, %d connections", err, line.Len())
		}
	})
}

// A listener that refuses closes what is dialled, and accepts again when it is healed.
func TestListener(t *testing.T) {
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	line := badline.New()
	l := line.Listener(raw)
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			accepted <- c
		}
	}()
	line.Refuse()
	refused, err := net.Dial("tcp", raw.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer refused.Close()
	if s := <-hear(refused); s.err == nil {
		t.Errorf("%+v", s)
	}
	line.Heal()
	c, err := net.Dial("tcp", raw.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	mine := <-accepted
	defer mine.Close()
	heard := hear(c)
	if err := <-say(mine, "hello"); err != nil {
		t.Fatal(err)
	}
	if s := <-heard; s.text != "hello" {
		t.Errorf("%+v", s)
	}
}
