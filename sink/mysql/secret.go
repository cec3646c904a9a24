package mysql

import (
	"fmt"
	"io"
	"log/slog"
)

// masked is what every print of a secret shows; TiCDC prints the same.
const masked = "xxxxx"

// Secret is a text that no format, log, JSON or error shows. Reveal does.
type Secret string

// Reveal is the text itself, for whoever hands it to the driver.
func (s Secret) Reveal() string { return string(s) }

// String masks.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return masked
}

// Format masks under every verb, %#v and %x included.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText masks in JSON and in every encoding built on text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue masks in logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
