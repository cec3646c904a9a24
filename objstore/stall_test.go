package objstore

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
		client := &http.Client{Transport: unstalled(&http.Transport{}, 50*time.Millisecond)}
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
	client := &http.Client{Transport: unstalled(&http.Transport{}, answerMax)}
	defer client.CloseIdleConnections()
	resp, err := client.Post(slow.URL, "", strings.NewReader(strings.Repeat("x", 32<<20)))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
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
