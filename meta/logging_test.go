package meta

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// What is fatal to etcd while it runs ends the process with the code and the remedy
// as its last words.
func TestLastWords(t *testing.T) {
	var log bytes.Buffer
	last := lastWords{dir: "/var/lib/sluice/etcd"}
	defer func() {
		said, _ := recover().(string)
		if !strings.Contains(said, "/var/lib/sluice/etcd: failed to commit tx: write: no space left") || !strings.Contains(said, cdcerr.MetaDisk.Remedy) {
			t.Errorf("it panics with %q", said)
		}
		if why := last.why(); !cdcerr.MetaDisk.Is(why) {
			t.Errorf("its last words are %v", why)
		}
		if !strings.Contains(log.String(), "CDC:ErrMetaDiskFull") {
			t.Errorf("the log says %s", log.String())
		}
	}()
	etcdLog(slog.New(slog.NewTextHandler(&log, nil)), &last).Fatal("failed to commit tx", zap.Error(fmt.Errorf("write: %w", syscall.ENOSPC)))
}
