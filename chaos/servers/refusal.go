package servers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// refusalsFor is for how long answers have to be good until an outage is over.
const refusalsFor = 2 * time.Second

// refusals asks every server for the changefeed, again and again, until all have answered
// well for a while. Whatever they answer until then has to be 503, with the reason and
// when to ask again.
func (s *Site) refusals(ctx context.Context, a *Attempt) error {
	codes := map[string]int{}
	var last time.Time
	err := s.until(ctx, "answers of all servers", func() error {
		for _, n := range s.living() {
			code, err := refusal(ctx, "http://"+n.Address+"/api/v2/changefeeds/"+feedName+"/status")
			switch {
			case err != nil:
				return fmt.Errorf("%w: %s: %w", errForGood, n.Name, err)
			case code != "":
				codes[code]++
				last = time.Now()
			}
		}
		if good := time.Since(a.begun); good < refusalsFor || time.Since(last) < refusalsFor {
			return fmt.Errorf("answers: %v", codes)
		}
		return nil
	})
	if !last.IsZero() {
		a.note("the API answered 503 until %v: %v", ms(last.Sub(a.begun)), codes)
	}
	return err
}

// refusal asks a server, and is the code with which it refuses, "" where it answers.
func refusal(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode == http.StatusOK {
		return "", err
	}
	var body struct {
		Message string `json:"error_msg"`
		Code    string `json:"error_code"`
	}
	if err := json.Unmarshal(text, &body); err != nil {
		return "", fmt.Errorf("%s: %s: %w", res.Status, text, err)
	}
	if res.StatusCode != http.StatusServiceUnavailable || body.Message == "" || body.Code == "" || res.Header.Get("Retry-After") == "" {
		return "", fmt.Errorf("%s, Retry-After %q: %s", res.Status, res.Header.Get("Retry-After"), text)
	}
	return body.Code, nil
}
