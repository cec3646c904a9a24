package filter

import "strings"

// statements cuts SQL at the semicolons that stand outside quotes and comments.
// Where plainBackslash is set a backslash inside quotes escapes nothing.
func statements(sql string, plainBackslash bool) []string {
	var out []string
	start := 0
	for i := 0; i < len(sql); {
		if sql[i] == ';' {
			out = appendStatement(out, sql[start:i])
			start = i + 1
		}
		i += token(sql[i:], plainBackslash)
	}
	return appendStatement(out, sql[start:])
}

func appendStatement(out []string, s string) []string {
	if s = strings.TrimSpace(s); s == "" {
		return out
	}
	return append(out, s)
}

// token is the length of what stands at the front: a quoted string or name, a
// comment, or one byte.
func token(s string, plainBackslash bool) int {
	switch {
	case s[0] == '\'' || s[0] == '"' || s[0] == '`':
		for i := 1; i < len(s); i++ {
			if s[i] == '\\' && s[0] != '`' && !plainBackslash {
				i++
			} else if s[i] == s[0] {
				return i + 1 // a doubled quote reads as two strings, which changes nothing here
			}
		}
		return len(s)
	case strings.HasPrefix(s, "/*"):
		return through(s, 2, "*/")
	case strings.HasPrefix(s, "-- ") || strings.HasPrefix(s, "--\t") || strings.HasPrefix(s, "--\n"):
		return through(s, 2, "\n")
	case s[0] == '#':
		return through(s, 1, "\n")
	}
	return 1
}

// through is the length up to and with end, looked for after skip bytes.
func through(s string, skip int, end string) int {
	if i := strings.Index(s[skip:], end); i >= 0 {
		return skip + i + len(end)
	}
	return len(s)
}
