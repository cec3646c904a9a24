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

// forward hands a request on to whom it is for.
func (a *API) forward(w http.ResponseWriter, c *call, r route) error {
	if r.owner {
		return a.forwardToOwner(w, c)
	}
	self := a.node().Self()
	to, err := c.addressee()
	if err != nil {
		return err
	}
	if c.Header.Get(forwardedBy) != "" {
		return cdcerr.CaptureNotFound.New("capture %q is another one now: %s answers at its address", to.ID, self.ID)
	}
	return a.hand(w, c, to, "to")
}

// elsewhere tells whether a request is for another capture.
func (c *call) elsewhere(r route) bool {
	self := c.node().Self()
	return r.owner && !self.Owner || r.named && c.PathValue("capture_id") != string(self.ID)
}

// forwardToOwner hands a request to the owner and its answer back.
func (a *API) forwardToOwner(w http.ResponseWriter, c *call) error {
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
	return a.hand(w, c, owner, "to the owner,")
}

// hand has another capture answer.
func (a *API) hand(w http.ResponseWriter, c *call, to capture.Info, as string) error {
	res, err := a.ask(c, a.node().Self(), to)
	if err != nil {
		return cdcerr.RequestForward.Wrap(err, "%s capture %s at %s", as, to.ID, to.Address)
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

func (a *API) ask(c *call, self Self, other capture.Info) (*http.Response, error) {
	to := *c.URL
	to.Scheme, to.Host = a.cfg.Scheme, other.Address
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
