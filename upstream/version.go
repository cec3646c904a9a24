package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/coreos/go-semver/semver"
	"github.com/pingcap/kvproto/pkg/metapb"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// protocolVersion is the version of TiCDC whose part we take in the change
// stream's protocol. TiKV sends batched resolved-ts to versions from 4.0.8 and
// compares cluster ids for those from 5.3.0; one that does not parse counts as 0.
const protocolVersion = "8.5.0"

// The versions that we are made for: from the first, below the second.
const (
	versionFrom  = "7.5.0-alpha"
	versionBelow = "15.0.0"
)

// checkVersion refuses a component outside the supported range.
func checkVersion(component, version string) error {
	v, err := semver.NewVersion(strings.TrimPrefix(strings.TrimSpace(version), "v"))
	if err != nil {
		return cdcerr.VersionIncompatible.Wrap(err, "%s says that its version is %q", component, version)
	}
	if v.LessThan(*semver.New(versionFrom)) || !v.LessThan(*semver.New(versionBelow)) {
		return cdcerr.VersionIncompatible.New("%s has version %s, supported are versions from %s, below %s",
			component, version, versionFrom, versionBelow)
	}
	return nil
}

// checkStore refuses a TiKV outside the supported range. TiFlash has no part in
// change streams.
func checkStore(s *metapb.Store) error {
	for _, l := range s.GetLabels() {
		if l.GetKey() == "engine" && strings.HasPrefix(l.GetValue(), "tiflash") {
			return nil
		}
	}
	return checkVersion(fmt.Sprintf("TiKV %s (store %d)", s.GetAddress(), s.GetId()), s.GetVersion())
}

// pdVersion asks one PD for its version.
func pdVersion(ctx context.Context, client *http.Client, endpoint string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/pd/api/v1/version", nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %s to a question for its version", endpoint, resp.Status)
	}
	version, err := readVersion(body)
	if err != nil {
		return "", fmt.Errorf("%s answers %.100q to a question for its version: %w", endpoint, body, err)
	}
	return version, nil
}

// readVersion reads PD's answer.
func readVersion(body []byte) (string, error) {
	var v struct {
		Version string `json:"version"`
	}
	err := json.Unmarshal(body, &v)
	return v.Version, err
}
