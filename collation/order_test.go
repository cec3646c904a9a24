package collation_test

import (
	"bytes"
	"compress/gzip"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/collation"
	"github.com/sluice-cdc/sluice/internal/mariadb"
)

var rewriteWeights = flag.Bool("rewrite-weights", false, "write weights.bin.gz from what the server says")

// Every rune of the first plane weighs what a server says that it weighs.
func TestWeightsAreTheServers(t *testing.T) {
	db := mariadb.Start(t).DB()
	defer db.Close()
	server := map[string]map[rune][]byte{}
	for _, c := range []struct{ collation, charset string }{
		{"utf8mb4_general_ci", "utf8mb4"}, {"utf8mb4_unicode_ci", "utf8mb4"}, {"gbk_chinese_ci", "gbk"},
	} {
		server[c.collation] = ask(t, db, c.collation, c.charset)
	}
	if *rewriteWeights {
		if err := os.WriteFile("weights.bin.gz", pack(t, server), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Skip("written: run again without the flag")
	}
	sort := order(t)
	for collation, weights := range server {
		for r, want := range weights {
			if r == ' ' {
				want = nil // alone, it is at the end
			}
			got, err := sort.SortKey(collation, []byte(string(r)))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %U weighs %x, %v; the server says %x", collation, r, got, err, want)
			}
		}
	}
}

// ask reads the weight of every rune that the charset has.
func ask(t *testing.T, db *sql.DB, collation, charset string) map[rune][]byte {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `select seq, hex(weight_string(c collate `+collation+`)) from (
		select seq, convert(char(seq using utf32) using `+charset+`) as c from mysql.seq_0_to_65535
		where seq not between 0xD800 and 0xDFFF) runes
		where convert(c using utf32) = char(seq using utf32) collate utf32_bin`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	out := map[rune][]byte{}
	for rows.Next() {
		var r rune
		var weight string
		if err := rows.Scan(&r, &weight); err != nil {
			t.Fatal(err)
		}
		if out[r], err = hex.DecodeString(weight); err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil || len(out) < 20000 {
		t.Fatal(len(out), err)
	}
	return out
}

// pack keeps what no rule of this package gives.
func pack(t *testing.T, server map[string]map[rune][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	section := func(collation string, sized bool, keep func(r rune, weight []byte) bool) {
		var runes []rune
		for r, w := range server[collation] {
			if keep(r, w) {
				runes = append(runes, r)
			}
		}
		slices.Sort(runes)
		b := binary.LittleEndian.AppendUint32(nil, uint32(len(runes)))
		for _, r := range runes {
			w := server[collation][r]
			b = binary.LittleEndian.AppendUint16(b, uint16(r))
			if sized {
				b = binary.LittleEndian.AppendUint16(b, uint16(len(w)/2))
			}
			if len(w) == 1 {
				w = []byte{0, w[0]}
			}
			for ; len(w) > 0; w = w[2:] {
				b = binary.LittleEndian.AppendUint16(b, binary.BigEndian.Uint16(w))
			}
		}
		out.Write(b)
	}
	section("utf8mb4_general_ci", false, func(r rune, w []byte) bool { return binary.BigEndian.Uint16(w) != uint16(r) })
	section("utf8mb4_unicode_ci", true, func(r rune, w []byte) bool {
		base := 0xFBC0
		if r >= 0x4E00 && r <= 0x9FA5 {
			base = 0xFB40
		}
		if r >= 0x3400 && r <= 0x4DB5 {
			base = 0xFB80
		}
		implicit := binary.BigEndian.AppendUint16(nil, uint16(base+int(r>>15)))
		return !bytes.Equal(w, binary.BigEndian.AppendUint16(implicit, uint16(r)|0x8000))
	})
	section("gbk_chinese_ci", false, func(rune, []byte) bool { return true })
	var zipped bytes.Buffer
	zw, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := zw.Write(out.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return zipped.Bytes()
}

func order(t *testing.T) *collation.Order {
	t.Helper()
	c, err := collation.New()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSortKeysOfStrings(t *testing.T) {
	sort := order(t)
	for _, c := range []struct{ collation, text, want string }{
		{"binary", "a ", "6120"},
		{"utf8mb4_0900_bin", "a ", "6120"},
		{"utf8mb4_bin", "a  ", "61"},
		{"latin1_bin", "\xe9 ", "e9"},
		{"utf8mb4_general_ci", "Ab ", "00410042"},
		{"utf8mb4_general_ci", "a \u00df", "004100200053"},
		{"utf8mb4_general_ci", "\U0001F600", "fffd"},
		{"utf8mb4_unicode_ci", "Äb ", "0e330e4a"},
		{"utf8mb4_unicode_ci", "\u4e2d\U0001F600", "fb40ce2dfffd"},
		{"utf8mb4_unicode_ci", "a\u0300", "0e33"},
		{"gbk_chinese_ci", "\u4e2db", "d32142"},
		{"gbk_bin", "\u4e2db ", "d6d062"},
		{"gb18030_bin", "\u00c4", "81308732"},
	} {
		got, err := sort.SortKey(c.collation, []byte(c.text))
		if err != nil || hex.EncodeToString(got) != c.want {
			t.Errorf("%s %q: %x, %v; want %s", c.collation, c.text, got, err, c.want)
		}
	}
	for _, c := range []struct{ collation, text, says string }{
		{"utf8mb4_0900_ai_ci", "a", "no weights for collation utf8mb4_0900_ai_ci"},
		{"utf8mb4_general_ci", "\xff", "not UTF-8"},
		{"gbk_chinese_ci", "\u00c4", "not in GBK"},
	} {
		if got, err := sort.SortKey(c.collation, []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %q: %x, %v; want an error saying %q", c.collation, c.text, got, err, c.says)
		}
	}
}

func TestCompare(t *testing.T) {
	sort := order(t)
	for _, c := range []struct {
		collation, a, b string
		want            int
	}{
		{"binary", "a", "a ", -1},
		{"utf8mb4_bin", "a", "a ", 0},
		{"utf8mb4_bin", "A", "a", -1},
		{"latin1_bin", "\xe9", "\xe9  ", 0},
		{"utf8mb4_0900_bin", "b ", "b", 1},
		{"utf8mb4_general_ci", "STRASSE", "strasse ", 0},
		{"utf8mb4_general_ci", "\u00df", "s", 0},
		{"utf8mb4_unicode_ci", "\u00df", "ss", 0},
		{"utf8mb4_unicode_ci", "\u00e4", "b", -1},
		{"gbk_chinese_ci", "B", "a", 1},
	} {
		if got, err := sort.Compare(c.collation, []byte(c.a), []byte(c.b)); err != nil || got != c.want {
			t.Errorf("%s %q %q: %d, %v; want %d", c.collation, c.a, c.b, got, err, c.want)
		}
	}
	if _, err := sort.Compare("utf8mb4_0900_ai_ci", []byte("a"), []byte("a")); err == nil {
		t.Error("an unknown collation compared")
	}
	if collation.Known("utf8mb4_0900_ai_ci") || !collation.Known("utf8mb4_unicode_ci") {
		t.Error("Known is wrong")
	}
}
