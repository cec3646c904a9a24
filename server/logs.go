package server

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// Logs is the server's log: where it goes, and how much of it.
type Logs struct {
	*slog.Logger
	level *slog.LevelVar
	close func() error
}

// OpenLogs opens the file that the configuration names, or writes to stderr.
func OpenLogs(c Config, stderr io.Writer) (*Logs, error) {
	level, err := ParseLevel(c.LogLevel)
	if err != nil {
		return nil, cdcerr.ServerConfigInvalid.Wrap(err, "log-level")
	}
	l := &Logs{level: new(slog.LevelVar), close: func() error { return nil }}
	l.level.Set(level)
	out := stderr
	if c.LogFile != "" {
		file, err := openRotating(c.LogFile, c.Log, time.Now)
		if err != nil {
			return nil, cdcerr.ServerConfigInvalid.Wrap(err, "log-file")
		}
		out, l.close = file, file.Close
	}
	l.Logger = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: l.level}))
	return l, nil
}

// SetLevel takes effect with the next line.
func (l *Logs) SetLevel(name string) error {
	level, err := ParseLevel(name)
	if err != nil {
		return cdcerr.InvalidArgument.Wrap(err, "log_level")
	}
	l.level.Set(level)
	return nil
}

// Close ends the file.
func (l *Logs) Close() error { return l.close() }

// ParseLevel takes the names that TiDB's tools use.
func ParseLevel(name string) (slog.Level, error) {
	switch strings.ToLower(name) {
	case "debug":
		return slog.LevelDebug, nil
	case "info", "":
		return slog.LevelInfo, nil
	case "warn", "warning":
		return slog.LevelWarn, nil
	case "error", "fatal", "panic", "dpanic":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("%q is none of debug, info, warn, error", name)
}

// prepare makes the data directory.
func (c *Config) prepare() error {
	if err := os.MkdirAll(c.DataDir, 0o755); err != nil {
		return cdcerr.ServerConfigInvalid.Wrap(err, "data-dir")
	}
	probe, err := os.CreateTemp(c.DataDir, ".probe-*")
	if err != nil {
		return cdcerr.ServerConfigInvalid.Wrap(err, "data-dir: cannot be written")
	}
	if err = probe.Close(); err != nil {
		return cdcerr.ServerConfigInvalid.Wrap(err, "data-dir")
	}
	if err = os.Remove(probe.Name()); err != nil {
		return cdcerr.ServerConfigInvalid.Wrap(err, "data-dir")
	}
	return nil
}
