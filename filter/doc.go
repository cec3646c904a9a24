// Package filter owns which tables, DDLs and rows of the upstream a changefeed
// wants. It is pure.
//
//	Config ──New──▶ Filter ──Scope.Table, Scope.DDL──▶ verdict, Decision
//	                       └─Rows(table)──▶ RowRule ──Ignores(row)──▶ left out, or not
//
// Rules are TiDB's table-filter rules, SCHEMA.TABLE:
//
//	db.t            plain names: letters, digits, _ $ and everything beyond ASCII
//	db*.t?          * any characters, ? one character (a Unicode code point)
//	db[0-9].[!a-c]* one character inside, or outside, a range
//	db\.1.t         \ makes the next character ordinary (not before a letter or digit)
//	"db.1".`t`      quoted: everything is ordinary, the quote itself is doubled
//	/^db\d+$/.t     a Go regular expression that must match somewhere; / is written \/
//	!db.t           leaves out instead of taking in
//
// The last rule that matches a table decides; a table that none matches is left
// out; without any rule every table is taken. System schemas never match. Empty
// rules and rules that start with # say nothing.
//
// Event filters leave out some of what the rules take: by kind of event, by the
// text of a DDL, by what stands in a row (package expr). A DDL that is ignored so
// is not sent; the schema follows it, and the table's rows go on. A DDL that the
// rules discard takes its table's rows with it.
//
// Rows is asked once for a table in one shape and costs a row nothing where no
// event filter is about the table, and no allocation where none looks into rows.
//
// One rule of letter case holds for every part of a rule, for matchers and
// for regular expressions of names too: ignored, unless Config.CaseSensitive.
//
// What of a DDL is wanted follows from the tables it touches, by their names
// before it ran; see Scope. A table whose rows were not replicated until now
// never slips in unseen (P8): that is an error which names both names.
package filter
