package mysql

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is what a downstream is, as far as SQL goes.
type Kind uint8

// The kinds. Other speaks MySQL's protocol and understands a part of its SQL:
// nothing is asked of it that it might not have.
const (
	Other Kind = iota
	TiDB
	MySQL
	MariaDB
)

var kindNames = [...]string{"other", "TiDB", "MySQL", "MariaDB"}

// String is the name that messages and the feature table use.
func (k Kind) String() string { return kindNames[k] }

// Dialect is a kind with its version.
type Dialect struct {
	Kind                Kind
	Major, Minor, Patch int
	Text                string // the server's own words
	NoVector            bool   // a TiDB without VECTOR, or that is to be treated so
}

// Detect tells a downstream's dialect from @@version and @@version_comment.
func Detect(version, comment string) Dialect {
	d := Dialect{Text: version, Kind: MySQL}
	number := version
	switch lower := strings.ToLower(version); {
	case strings.Contains(lower, "tidb"):
		// 8.0.11-TiDB-v8.5.1
		d.Kind = TiDB
		number = version[strings.Index(lower, "tidb")+len("tidb"):]
	case strings.Contains(lower, "mariadb"):
		// 10.11.6-MariaDB, and 5.5.5-10.11.6-MariaDB behind some proxies.
		d.Kind = MariaDB
		number = strings.TrimPrefix(number, "5.5.5-")
	case strings.Contains(strings.ToLower(comment), "dolt"), strings.Contains(lower, "vitess"):
		d.Kind = Other
	}
	d.Major, d.Minor, d.Patch = numbers(number)
	return d
}

// numbers are the first three of a version, 0 where one is missing.
func numbers(s string) (major, minor, patch int) {
	s = strings.TrimLeft(s, "-vV ")
	parts := strings.SplitN(s, ".", 4)
	var out [3]int
	for i := range min(len(parts), 3) {
		digits := parts[i]
		if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
			digits = digits[:end]
		}
		n, err := strconv.Atoi(digits)
		if err != nil {
			break
		}
		out[i] = n
	}
	return out[0], out[1], out[2]
}

// atLeast compares the version of a dialect.
func (d Dialect) atLeast(major, minor, patch int) bool {
	switch {
	case d.Major != major:
		return d.Major > major
	case d.Minor != minor:
		return d.Minor > minor
	}
	return d.Patch >= patch
}

// hasVector tells whether the downstream keeps vectors as upstream does.
func (d Dialect) hasVector() bool { return d.Kind == TiDB && !d.NoVector }

// String is for messages.
func (d Dialect) String() string {
	return fmt.Sprintf("%s %d.%d.%d", d.Kind, d.Major, d.Minor, d.Patch)
}
