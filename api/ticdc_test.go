package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Every path of TiCDC's, with its method: it answers, or says that this release has
// nothing behind it. /metrics and /debug/pprof are the server's.
func TestTiCDCsPaths(t *testing.T) {
	const v1, v2 = "/api/v1", "/api/v2"
	w := newWorld(t)
	lacks := map[string]bool{}
	for _, path := range []string{"move_split_table", "split_table_by_region_count", "merge_table"} {
		lacks["POST "+v2+"/changefeeds/orders/"+path] = true
	}
	for _, line := range []string{
		"GET " + v2 + "/changefeeds/orders/get_dispatcher_count", "POST " + v2 + "/log/redact", "GET /debug/failpoints", "POST /debug/failpoints", "DELETE /debug/failpoints",
	} {
		lacks[line] = true
	}
	lines := []string{
		"GET /status", "GET " + v1 + "/status", "GET " + v2 + "/status", "GET " + v1 + "/health", "GET " + v2 + "/health", "POST " + v1 + "/log", "POST " + v2 + "/log",
		"GET /debug/info", "GET " + v2 + "/changefeeds", "POST " + v2 + "/changefeeds", "GET " + v2 + "/changefeeds/orders", "PUT " + v2 + "/changefeeds/orders",
		"DELETE " + v2 + "/changefeeds/orders", "POST " + v2 + "/changefeeds/orders/pause", "POST " + v2 + "/changefeeds/orders/resume",
		"GET " + v2 + "/changefeeds/orders/meta_info", "GET " + v2 + "/changefeeds/orders/status", "GET " + v2 + "/changefeeds/orders/synced", "GET " + v2 + "/changefeeds/orders/tables",
		"GET " + v2 + "/captures", "POST " + v2 + "/captures/capture-2/drain", "GET " + v2 + "/processors", "GET " + v2 + "/processors/orders/capture-1",
		"POST " + v2 + "/verify_table", "POST " + v2 + "/get_all_tables", "POST " + v2 + "/owner/resign", "POST " + v2 + "/tso",
		"GET " + v2 + "/unsafe/metadata", "POST " + v2 + "/unsafe/resolve_lock", "DELETE " + v2 + "/unsafe/service_gc_safepoint",
		"GET " + v1 + "/changefeeds", "POST " + v1 + "/changefeeds", "GET " + v1 + "/changefeeds/orders", "PUT " + v1 + "/changefeeds/orders", "DELETE " + v1 + "/changefeeds/orders",
		"POST " + v1 + "/changefeeds/orders/pause", "POST " + v1 + "/changefeeds/orders/resume", "POST " + v1 + "/owner/resign", "GET " + v1 + "/processors",
		"GET " + v1 + "/processors/orders/capture-1", "GET " + v1 + "/captures", "PUT " + v1 + "/captures/drain",
		"POST " + v2 + "/changefeeds/orders/move_table", "POST " + v1 + "/changefeeds/orders/tables/rebalance_table", "POST " + v1 + "/changefeeds/orders/tables/move_table",
	}
	for line := range lacks {
		lines = append(lines, line)
	}
	for _, line := range lines {
		method, path, _ := strings.Cut(line, " ")
		req := httptest.NewRequest(method, path, nil)
		req.SetBasicAuth("root", "secret")
		rec := httptest.NewRecorder()
		w.api.ServeHTTP(rec, req)
		switch known := rec.Code != http.StatusNotFound && rec.Code != http.StatusMethodNotAllowed; {
		case !known || (rec.Code == http.StatusNotImplemented) != lacks[line]:
			t.Errorf("%s: %d %s", line, rec.Code, rec.Body)
		case lacks[line] && !strings.Contains(rec.Body.String(), "CDC:ErrNotInThisRelease"):
			t.Errorf("%s: %s", line, rec.Body)
		}
	}
}
