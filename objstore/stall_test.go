package objstore

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A server that takes a connection and never answers, nor reads, costs a request no more
// than the wait for it: whether it is small or more than the network takes.
func TestAConnectionThatStandsStillIsGivenUp(t *testing.T) {
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	for _, size := range []int{100, 64 << 20} {
		client := &http.Client{Transport: unstalled(&http.Transport{}, 50*time.Millisecond, 50*time.Millisecond)}
		resp, err := client.Post("http://"+dead.Addr().String(), "", strings.NewReader(strings.Repeat("x", size)))
		if err == nil {
			_ = resp.Body.Close()
			t.Errorf("%d bytes: an answer", size)
		}
	}
	// One whose bytes flow is not: they come a piece at a time.
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if n != 32<<20 || err != nil {
			t.Errorf("%d bytes came, %v", n, err)
		}
	}))
	defer slow.Close()
	client := &http.Client{Transport: unstalled(&http.Transport{}, pushMax, answerMax)}
	defer client.CloseIdleConnections()
	resp, err := client.Post(slow.URL, "", strings.NewReader(strings.Repeat("x", 32<<20)))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

// A connection that takes something now and then is slow, and not dead; one that takes
// nothing is given up.
func TestAConnectionThatIsSlowIsNotGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		go func() {
			for piece := make([]byte, 1<<10); ; time.Sleep(pushMax * 3 / 4) {
				if _, err := io.ReadFull(far, piece); err != nil {
					return
				}
			}
		}()
		c := &pushed{Conn: near, most: pushMax}
		begun := time.Now()
		if n, err := c.Write(make([]byte, 100<<10)); n != 100<<10 || err != nil || time.Since(begun) < 10*pushMax {
			t.Errorf("%d bytes in %v, %v", n, time.Since(begun), err)
		}
		_ = far.Close()
		still, other := net.Pipe()
		begun = time.Now()
		if n, err := (&pushed{Conn: still, most: pushMax}).Write([]byte("x")); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != pushMax {
			t.Errorf("%d bytes in %v, %v", n, time.Since(begun), err)
		}
		for _, c := range []net.Conn{near, still, other} {
			_ = c.Close()
		}
	})
}

// Every store over the network has such connections.
func TestStoresGiveUpWhatStandsStill(t *testing.T) {
	for _, uri := range []string{
		"s3://b/p?endpoint=http://127.0.0.1:1&access-key=a&secret-access-key=s&region=us-east-1",
		"gcs://b/p?endpoint=http://127.0.0.1:1",
	} {
		b, err := Open(t.Context(), uri)
		if err != nil {
			t.Fatal(err)
		}
		var carriage *http.Transport
		switch b := b.(type) {
		case *s3:
			carriage = b.carriage
		case *gcs:
			carriage = b.carriage
		}
		if carriage.ResponseHeaderTimeout != answerMax {
			t.Errorf("%s waits %v for an answer", uri, carriage.ResponseHeaderTimeout)
		}
		_ = b.Close()
	}
	if transport().ResponseHeaderTimeout != answerMax {
		t.Error("Azure's waits for ever")
	}
}
