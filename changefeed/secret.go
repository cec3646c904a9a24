package changefeed

import (
	"fmt"
	"io"
	"net/url"
	"strings"
)

// masked is what every print of a secret shows; TiCDC prints the same.
const masked = "xxxxx"

// Secret is a text that no format, log, JSON or error shows. Reveal does, and what
// is written to etcd.
type Secret string

// Reveal is the text itself.
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

// MarshalText masks in JSON, in TOML and in logs.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText takes the text as it is.
func (s *Secret) UnmarshalText(b []byte) error {
	*s = Secret(b)
	return nil
}

// URI is an address in which secrets may stand: a password, or parameters such as
// sasl-password. No format, log, JSON or error shows these. Reveal does, and what
// is written to etcd.
type URI string

// Reveal is the text itself.
func (u URI) Reveal() string { return string(u) }

// Format masks under every verb, %#v and %x included.
func (u URI) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, u.String()) }

// MarshalText masks in JSON, in TOML and in logs.
func (u URI) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText takes the text as it is.
func (u *URI) UnmarshalText(b []byte) error {
	*u = URI(b)
	return nil
}

// String is the address with its secrets masked, and of one that cannot be read
// the scheme at most: where a secret stands in it nobody can tell.
func (u URI) String() string {
	if u == "" {
		return ""
	}
	parsed, err := url.Parse(string(u))
	if err != nil || parsed.Opaque != "" || strings.Contains(parsed.Host, "@") || afterAuthority(string(u), "@") {
		if scheme, _, ok := strings.Cut(string(u), "://"); ok && wrong(strings.ReplaceAll(scheme, "+", "")) == "" {
			return scheme + "://" + masked
		}
		return masked
	}
	user := ""
	if parsed.User != nil {
		user = url.PathEscape(parsed.User.Username())
		if _, has := parsed.User.Password(); has {
			user += ":" + masked
		}
		user += "@"
	}
	out := parsed.Scheme + "://" + user + parsed.Host + parsed.EscapedPath()
	if parsed.Scheme == "" {
		out = parsed.EscapedPath()
	}
	if query := maskQuery(parsed.RawQuery); query != "" {
		out += "?" + query
	}
	return out // what follows # is no part of any address here, and may be half a password
}

// afterAuthority tells whether mark stands behind the host: an @ there ends a
// password with a character in it that ended the host too early.
func afterAuthority(u, mark string) bool {
	_, rest, ok := strings.Cut(u, "://")
	if !ok {
		return strings.Contains(u, mark)
	}
	i := strings.IndexAny(rest, "/?#")
	return i >= 0 && strings.Contains(rest[i:], mark)
}

// maskQuery keeps the parameters in their order and masks the secret ones.
func maskQuery(raw string) string {
	var out []string
	for part := range strings.SplitSeq(raw, "&") {
		name, value, has := strings.Cut(part, "=")
		plain, err := url.QueryUnescape(name)
		switch {
		case part == "":
			continue
		case has && value != "" && (err != nil || isSecret(plain)):
			part = name + "=" + masked
		case !has && !isPlainWord(name):
			part = masked // the end of a value that was not encoded
		}
		out = append(out, part)
	}
	return strings.Join(out, "&")
}

func isPlainWord(s string) bool { return wrong(strings.ReplaceAll(s, "_", "-")) == "" && len(s) < 40 }

// secretWords are parts of the names of parameters that hold secrets.
var secretWords = []string{"password", "passwd", "secret", "token", "accesskey", "accountkey", "credential", "signature", "sas", "privatekey", "apikey", "auth"}

// isSecret tells whether a parameter of this name holds a secret. The names of
// files do not.
func isSecret(name string) bool {
	plain := strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(name))
	for _, end := range []string{"path", "file", "url", "mechanism", "user", "type"} {
		if strings.HasSuffix(plain, end) {
			return false
		}
	}
	if plain == "sasluser" || strings.HasPrefix(plain, "sasl") {
		plain = strings.TrimPrefix(plain, "sasl")
	}
	for _, w := range secretWords {
		if strings.Contains(plain, w) {
			return true
		}
	}
	return false
}
