package mysql

import "strings"

// collation is what a charset and a collation of TiDB become downstream. The
// charset may come back empty where the collation says all.
func (d Dialect) collation(charset, collation string) (string, string) {
	charset, collation = strings.ToLower(charset), strings.ToLower(collation)
	if charset == "gb18030" && d.Kind == MariaDB || d.Kind == Other && (charset == "gb18030" || charset == "gbk") {
		if strings.HasSuffix(collation, "_chinese_ci") {
			return "utf8mb4", "utf8mb4_unicode_ci"
		}
		return "utf8mb4", "utf8mb4_bin"
	}
	switch {
	case d.Kind == MariaDB && collation == "utf8mb4_0900_bin":
		collation = "utf8mb4_nopad_bin"
	case d.Kind == MariaDB && collation == "utf8mb4_0900_ai_ci" && d.atLeast(10, 10, 0):
		collation = "utf8mb4_uca1400_nopad_ai_ci"
	case d.Kind == MariaDB && collation == "utf8mb4_0900_ai_ci":
		collation = "utf8mb4_unicode_520_nopad_ci"
	case d.Kind == MySQL && !d.atLeast(8, 0, 0) && collation == "utf8mb4_0900_bin":
		collation = "utf8mb4_bin"
	case d.Kind == MySQL && !d.atLeast(8, 0, 0) && collation == "utf8mb4_0900_ai_ci":
		collation = "utf8mb4_unicode_520_ci"
	}
	return charset, collation
}

// collationFeature is the row of Features to which a collation belongs that
// the dialect changes, empty for all others.
func (d Dialect) collationFeature(charset, collation string) string {
	if _, now := d.collation(charset, collation); strings.EqualFold(now, collation) {
		return ""
	}
	if strings.HasPrefix(strings.ToLower(charset), "gb") {
		return FeatureGB18030
	}
	return Feature0900
}
