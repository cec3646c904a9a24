// Package changefeed owns what a changefeed is: its name, its configuration and
// its life. It is pure.
//
//	file ──ParseTOML──┐
//	API  ──ParseJSON──┴▶ Config ──Validate──▶ Check(sink URI) ──▶ what this release lacks, what does nothing
//	                       │                  Handed(sink URI) ──▶ the URI for sink/downstream
//	                       └─FilterConfig──▶ filter.New
//
// Config is one type for all its forms. Keys says of every key what it means, what
// its bounds are and what it does here; Validate, Check and docs/config.md all
// read that list, so that none can say something else.
//
// Secrets are types of their own (Secret, URI): whatever prints them masks them,
// encoding/json and go-toml too. Reveal does not.
//
// Create: ParseJSON(body, Default()), Validate, Check. Update: ParseJSON(body, the
// present one), Validate, Check; a secret that comes back masked is kept.
package changefeed
