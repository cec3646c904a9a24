// Package expr owns the SQL expressions that an operator writes to pick rows:
// what they mean for one side of one row.
//
//	text ──TiDB's parser──▶ tree ──Compile, by a table's columns──▶ Expr ──True(image)──▶ yes or no
//
// The meaning is TiDB's: three-valued logic, exact decimals, collations of the
// columns, TIMESTAMP in a given zone. What has another meaning in this process
// than in a database (the present time, a user, a subquery, JSON, an unknown
// collation) is refused when the expression is compiled, with the part's name:
// a row must never be dropped because of a guess (P8).
//
// Types are settled when an expression is compiled, so that a comparison that
// cannot be made is an error before the first row. What only a row can show (an
// integer out of range) is an error of that row.
//
// It is pure. An Expr is never changed and may be used by several goroutines.
package expr
