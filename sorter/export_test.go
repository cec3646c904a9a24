package sorter

import "github.com/cockroachdb/pebble/v2/vfs"

// OpenOn is Open on another file system.
func OpenOn(fs vfs.FS, cfg Config) (*Sorter, error) { return openOn(fs, cfg) }
