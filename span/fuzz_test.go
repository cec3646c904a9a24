package span_test

import (
	"bytes"
	"testing"

	"github.com/sluice-cdc/sluice/span"
)

// Bytes that are taken for a key have one form only.
func FuzzKey(f *testing.F) {
	for _, raw := range []string{"", "t", "12345678", "t\x80\x00\x00\x00\x00\x00\x00\x01_r\x80\x00\x00\x00\x00\x00\x00\x02"} {
		f.Add([]byte(span.EncodeKey([]byte(raw))))
		f.Add(append([]byte(span.EncodeKey([]byte(raw))), "tail"...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		raw, rest, err := span.CutKey(b)
		if err != nil {
			return
		}
		if again := append(span.AppendKey(nil, raw), rest...); !bytes.Equal(again, b) {
			t.Fatalf("%X was read as %X and %X, which is %X", b, raw, rest, again)
		}
		if whole, err := span.DecodeKey(span.Key(b)); (err == nil) != (len(rest) == 0) || (err == nil && !bytes.Equal(whole, raw)) {
			t.Fatalf("%X is %X, %v", b, whole, err)
		}
	})
}
