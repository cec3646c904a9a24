package mysql

import (
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/event"
)

// finest is the collation of MariaDB under which no two different values are
// equal: it compares bytes, and pads nothing.
//
// A collation that stands for one of upstream's has to tell apart whatever
// upstream tells apart, or one row of a unique key takes the place of another.
// One that tells more apart loses nothing: rows are found by the values that
// they have, byte by byte. MariaDB's collations of like names do not qualify:
// utf8mb4_unicode_ci calls letters with different accents equal, which
// gb18030_chinese_ci does not; and the weights of uca1400, newer than those of
// 0900, make letters equal that upstream's tables do not know.
const finest = "utf8mb4_nopad_bin"

// collation is what a charset and a collation of TiDB become downstream. The
// charset may come back empty where the collation says all.
func (d Dialect) collation(charset, collation string) (string, string) {
	charset, collation = strings.ToLower(charset), strings.ToLower(collation)
	is0900 := collation == "utf8mb4_0900_bin" || collation == "utf8mb4_0900_ai_ci"
	switch {
	case d.Kind == MariaDB && charset == "gb18030":
		return "utf8mb4", finest
	case d.Kind == Other && (charset == "gb18030" || charset == "gbk"):
		return "utf8mb4", "utf8mb4_bin"
	case d.Kind == MariaDB && is0900:
		return charset, finest
	case d.padsOnly() && is0900:
		return charset, "utf8mb4_bin"
	}
	return charset, collation
}

// padsOnly tells whether every collation of the downstream ignores blanks at a
// string's end.
func (d Dialect) padsOnly() bool { return d.Kind == MySQL && !d.atLeast(8, 0, 0) }

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

// recollated tells whether a column has another collation downstream.
func (d Dialect) recollated(c *event.Column) bool {
	text := c.IsString() || c.Type == event.TypeEnum || c.Type == event.TypeSet
	return text && c.Charset != "binary" && d.collationFeature(c.Charset, c.Collation) != ""
}

// mergesKeys names a unique index under which the downstream would take two
// values for one that upstream holds apart: 'a' and 'a ', where nothing but
// padding collations is to be had. Empty where there is none.
func (d Dialect) mergesKeys(t *event.Table) string {
	if !d.padsOnly() {
		return ""
	}
	for i := range t.Indexes {
		x := &t.Indexes[i]
		if x.Unique && slices.ContainsFunc(x.Parts, func(p event.IndexPart) bool {
			return p.Column >= 0 && d.recollated(&t.Columns[p.Column])
		}) {
			return x.Name
		}
	}
	return ""
}

// keepsPartitions tells whether a table is partitioned downstream as it is
// upstream. Partitions by the order or the equality of strings would be cut
// otherwise under another collation.
func (d Dialect) keepsPartitions(t *event.Table) bool { return d.unpartitioned(t) == "" }

// unpartitioned is the feature for which a partitioned table is not partitioned
// downstream, empty where it is.
func (d Dialect) unpartitioned(t *event.Table) string {
	if d.Kind == Other {
		return FeaturePartitioning
	}
	by := t.PartitionBy
	if by == nil || by.Kind != event.ByRange && by.Kind != event.ByList {
		return ""
	}
	for _, name := range by.Columns {
		if i := t.Column(name); i >= 0 && d.recollated(&t.Columns[i]) {
			return FeatureCollatedPartition
		}
	}
	return ""
}
