package mysql

import "unicode/utf8"

// cp1252 are the characters at 0x80 to 0x9F of MySQL's latin1: Windows' code page
// 1252, with the control character itself where that has a hole.
const cp1252 = "€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ"

// ShownInLatin1 is what a latin1 column of MySQL or MariaDB shows of a value that
// TiDB keeps in a latin1 column. Text that latin1 has shows as it is; any other
// value keeps its bytes, so that each shows as a character of its own: then other
// is true.
func ShownInLatin1(value []byte) (text string, other bool) {
	if utf8.Valid(value) && inLatin1(value) {
		return string(value), false
	}
	high := []rune(cp1252)
	out := make([]rune, len(value))
	for i, b := range value {
		out[i] = rune(b)
		if 0x80 <= b && b < 0xA0 {
			out[i] = high[b-0x80]
		}
	}
	return string(out), true
}
