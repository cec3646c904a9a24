package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/tso"
)

const feedName = "drill"

// Feed is what a server says of the changefeed.
type Feed struct {
	State       string `json:"state"`
	Checkpoint  tso.TS `json:"checkpoint_ts"`
	LastError   *Fault `json:"last_error"`
	LastWarning *Fault `json:"last_warning"`
}

// Fault is what it is that goes wrong, or why it has ended.
type Fault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// String is what a person is told of it.
func (f Feed) String() string {
	text := fmt.Sprintf("%s at %d", f.State, f.Checkpoint)
	for _, one := range []*Fault{f.LastError, f.LastWarning} {
		if one != nil {
			text += ": " + one.Code + ": " + one.Message
		}
	}
	return text
}

// askMax is how long one answer may take; a server that stands still gives none.
const askMax = 10 * time.Second

// lookMax is how long a server may take to tell of its changefeed.
const lookMax = time.Second

// call asks one server after the other, until one answers with what is asked for.
func (s *Site) call(ctx context.Context, patience time.Duration, method, path string, body []byte) ([]byte, error) {
	var failed error
	for _, n := range s.living() {
		text, err := answered(ctx, patience, method, "http://"+n.Address+path, body)
		if err == nil {
			return text, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

// patientAlone is how long one server is asked before another is asked as well.
const patientAlone = 100 * time.Millisecond

// ask asks servers for something, one after the other without waiting for long, and
// takes the first good answer: one that stands still holds nobody up.
func (s *Site) ask(ctx context.Context, path string) ([]byte, error) {
	ctx, stop := context.WithTimeout(ctx, lookMax)
	defer stop()
	type reply struct {
		text []byte
		err  error
	}
	var asked errgroup.Group
	defer func() {
		stop()
		_ = asked.Wait() // what it asked is among the replies
	}()
	replies := make(chan reply, len(s.Nodes))
	var failed error
	next, waiting := 0, 0
	for {
		if next < len(s.Nodes) {
			if n := s.Nodes[next]; !n.Rests() {
				waiting++
				asked.Go(func() error {
					text, err := answered(ctx, lookMax, http.MethodGet, "http://"+n.Address+path, nil)
					replies <- reply{text, err}
					return nil
				})
			}
			next++
		}
		if waiting == 0 {
			if next < len(s.Nodes) {
				continue
			}
			return nil, failed
		}
		alone := time.NewTimer(patientAlone)
		select {
		case r := <-replies:
			alone.Stop()
			if waiting--; r.err == nil {
				return r.text, nil
			}
			failed = errors.Join(failed, r.err)
		case <-alone.C:
		}
	}
}

// answered is the body of an answer. Servers come and go, and connections to them
// are not kept.
func answered(ctx context.Context, patience time.Duration, method, url string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %s", method, url, res.Status, bytes.TrimSpace(text))
	}
	return text, err
}

func (s *Site) post(ctx context.Context, path string, body []byte) error {
	_, err := s.call(ctx, askMax, http.MethodPost, path, body)
	return err
}

// Feed asks for the changefeed.
func (s *Site) Feed(ctx context.Context) (f Feed, err error) {
	text, err := s.ask(ctx, "/api/v2/changefeeds/"+feedName+"/status")
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(text, &f)
}

// Reach waits until the changefeed's checkpoint has reached a moment.
func (s *Site) Reach(ctx context.Context, ts tso.TS) error {
	return s.until(ctx, fmt.Sprintf("the checkpoint reaches %d", ts), func() error {
		f, err := s.Feed(ctx)
		switch {
		case err != nil:
			return err
		case f.State == "failed":
			return fmt.Errorf("%w: the changefeed: %v", errForGood, f)
		case f.Checkpoint < ts:
			return fmt.Errorf("%v behind; the changefeed: %v", ts.Sub(f.Checkpoint), f)
		}
		return nil
	})
}

// owner is the server that says that it is.
func (s *Site) owner(ctx context.Context) *Node {
	for _, n := range s.living() {
		if self, err := n.self(ctx); err == nil && self.Owner {
			return n
		}
	}
	return s.Nodes[0]
}
