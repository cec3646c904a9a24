package golden

import (
	"encoding/json"
	"testing"
)

// What the readers hand out of one recording, by kind.
func TestStreamAndMeta(t *testing.T) {
	rec := Dir(t) + "/08_txn"
	kinds, keys := map[string]int{}, 0
	Stream(t, rec, func(l Line) { kinds[l.Type]++ })
	Meta(t, rec, func(key, value []byte) {
		if len(value) > 0 {
			keys++
		}
	})
	if kinds["START"] != 1 || kinds["END"] != 1 || kinds["COMMIT"] == 0 || keys == 0 {
		t.Errorf("%v, %d keys", kinds, keys)
	}
	if n := Name(t, rec); n != "08_txn" {
		t.Error(n)
	}
}

func TestHex(t *testing.T) {
	var l Line
	if err := json.Unmarshal([]byte(`{"key":"6d44ff","value":"","old":null}`), &l); err != nil || string(l.Key) != "mD\xff" || l.Value == nil || l.Old != nil {
		t.Errorf("%+v, %v", l, err)
	}
	for _, bad := range []string{`{"key":"6g"}`, `{"key":"6"}`, `{"key":7}`} {
		if err := json.Unmarshal([]byte(bad), &l); err == nil {
			t.Errorf("%s passes: %X", bad, l.Key)
		}
	}
}
