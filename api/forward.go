package api

import (
	"bytes"
	"io"
	"net/http"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
)

// forwardedBy names the capture that handed a request on. A request is handed on
// once: whoever gets it and is not the owner either says so.
const forwardedBy = "Sluice-Forwarded-By"

// forward hands a request to the owner and its answer back.
func (a *API) forward(w http.ResponseWriter, c *call) error {
	self := a.node().Self()
	if by := c.Header.Get(forwardedBy); by != "" {
		return cdcerr.OwnerNotFound.New("no capture leads at this moment: capture %s handed a request on to %s, which leads no more, or not yet", by, self.ID)
	}
	owner, err := a.node().Owner(c.Context())
	if err != nil {
		return err
	}
	if owner.ID == self.ID {
		return cdcerr.OwnerNotFound.New("capture %s has just been elected and is not ready", self.ID)
	}
	res, err := a.ask(c, self, owner)
	if err != nil {
		return cdcerr.RequestForward.Wrap(err, "to the owner, capture %s at %s", owner.ID, owner.Address)
	}
	defer res.Body.Close()
	for _, key := range []string{"Content-Type", "Retry-After", "WWW-Authenticate"} {
		if v := res.Header.Get(key); v != "" {
			w.Header().Set(key, v)
		}
	}
	w.WriteHeader(res.StatusCode)
	_, _ = io.Copy(w, res.Body) // one of both is gone, and the caller sees it
	return nil
}

func (a *API) ask(c *call, self Self, owner capture.Info) (*http.Response, error) {
	to := *c.URL
	to.Scheme, to.Host = a.cfg.Scheme, owner.Address
	req, err := http.NewRequestWithContext(c.Context(), c.Method, to.String(), bytes.NewReader(c.body))
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"Authorization", "Content-Type"} {
		if v := c.Header.Get(key); v != "" {
			req.Header.Set(key, v)
		}
	}
	req.Header.Set(forwardedBy, string(self.ID))
	return a.cfg.Client.Do(req)
}
