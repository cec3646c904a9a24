package fake

import (
	"bytes"
	"encoding/hex"
	"encoding/json"

	"github.com/sluice-cdc/sluice/tso"
)

// parse reads a line of a stream. The lines of a large recording are many and
// plain, so that they are first tried by hand, at a third of the cost; whatever
// is not plain, or wrong, is left to encoding/json and its errors.
func (l *line) parse(text []byte) error {
	if l.plain(text) {
		return nil
	}
	*l = line{}
	return json.Unmarshal(text, l)
}

// plain reads an object of strings without escapes and of whole numbers. False
// means that it may be something else.
func (l *line) plain(text []byte) bool {
	if len(text) < 2 || text[0] != '{' {
		return false
	}
	for text = text[1:]; ; {
		name, rest, ok := plainString(text)
		if !ok || len(rest) == 0 || rest[0] != ':' {
			return false
		}
		if rest, ok = l.field(string(name), rest[1:]); !ok || len(rest) == 0 {
			return false
		}
		switch rest[0] {
		case ',':
			text = rest[1:]
		case '}':
			return len(rest) == 1
		default:
			return false
		}
	}
}

// field reads the value of a field and returns what follows it.
func (l *line) field(name string, text []byte) (rest []byte, ok bool) {
	if len(text) > 0 && text[0] == '"' {
		value, rest, ok := plainString(text)
		if !ok {
			return nil, false
		}
		switch name {
		case "type":
			l.Type = string(value)
		case "op":
			l.Op = string(value)
		case "key":
			ok = l.Key.decode(value)
		case "value":
			ok = l.Value.decode(value)
		case "old":
			ok = l.Old.decode(value)
		case "msg", "sql":
		default:
			ok = false
		}
		return rest, ok
	}
	n, digits := uint64(0), 0
	for ; digits < len(text) && text[digits] >= '0' && text[digits] <= '9'; digits++ {
		n = n*10 + uint64(text[digits]-'0')
	}
	// Up to 19 digits cannot overflow; a leading zero is not JSON.
	if digits == 0 || digits > 19 || (digits > 1 && text[0] == '0') {
		return nil, false
	}
	switch name {
	case "start_ts":
		l.StartTS = tso.TS(n)
	case "commit_ts":
		l.CommitTS = tso.TS(n)
	case "ts":
		l.TS = tso.TS(n)
	case "txn_source":
		l.TxnSource = n
	case "generation":
		l.Generation = n
	case "region", "regions":
	default:
		return nil, false
	}
	return text[digits:], true
}

// plainString reads a string that has no escapes.
func plainString(text []byte) (s, rest []byte, ok bool) {
	if len(text) < 2 || text[0] != '"' {
		return nil, nil, false
	}
	end := bytes.IndexByte(text[1:], '"')
	if end < 0 || bytes.IndexByte(text[1:1+end], '\\') >= 0 {
		return nil, nil, false
	}
	return text[1 : 1+end], text[2+end:], true
}

func (h *hexBytes) decode(digits []byte) bool {
	out := make([]byte, hex.DecodedLen(len(digits)))
	_, err := hex.Decode(out, digits)
	*h = out
	return err == nil
}
