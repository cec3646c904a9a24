// Package mysql owns the sink that writes to a database which speaks MySQL's
// protocol: TiDB, MySQL, MariaDB, and others that call themselves one of them.
//
//	Write: event.Txn ─claimer▶ units ─graph▶ lanes, each: group ─▶ merge by row key ─plan▶ DELETE …, UPDATE …, REPLACE …, COMMIT
//	DDL:   event.DDL ─▶ job's text, or text from the table info ─parser─▶ AST ─rewrite for the dialect─▶ statements
//
// Order. Two units of which one has or gets a unique key that the other has or gets,
// by upstream's unique indexes or by those that the downstream says it has (unique),
// are written in commit order, all others as it comes: a lane is a connection, and
// a graph hands units to lanes. Several small upstream transactions in a row become
// one downstream transaction; a large one becomes several, cut where its rows have no
// key in common, or stays whole where it must. Everything else (DDL, sync points,
// looking) has a connection of its own and waits for the lanes to be empty.
//
// Rows. Within a downstream transaction the old keys of moved and deleted rows
// go first and whole rows are REPLACEd after, so that keys which move in a
// chain or swap never meet. That is also what makes a second delivery end in
// the same state: whatever row a replayed REPLACE pushes out, because it holds
// in the downstream's later state what this one held earlier, has an event of
// its own later in the replay, and that event carries the whole row. Rows of a
// table without a key are found by all their columns; they may be doubled by a
// second delivery.
//
// DDL. The text is what TiDB's parser prints of the job's statement, under the
// job's SQL mode; every name is qualified from the tables before and after. What
// the downstream lacks is rewritten, left out or refused as the table Features
// says; docs/mysql.md prints that table. Only this package, schema and filter
// see the parser's types.
//
// Roles. A sink is for all of a changefeed, or for what one of several captures writes of
// it, or for what their owner does (sink.Role). A capture's does not see DDLs: what it
// knows of a table it knows of one version of it, and asks for the next one's anew. An
// owner's takes its place at the fence when it is opened, before it reads the record.
//
// Once. What a statement of a DDL is about to change is noted downstream before it
// runs (noted), so that whoever comes after a crash finds out whether it took
// place, and goes on from there.
//
// Absence. A database that has been connected is waited for: what may be done
// twice is done again (patience), a DDL only if what it does is not to be seen
// (ddl_marks). What the server's errors say about the future stands in fault.
//
// Fence. What is written passes a row that whoever comes after raises (fence), so that
// what a process sent that was stopped, killed or cut off does not come later.
//
// Promises: P6 (a DDL runs where it is called, once everything before it is
// written), P8 (a statement that cannot be made, and a value that the downstream
// cannot hold, stop the changefeed with a code). P1: nothing begins to commit after the leave's
// deadline, and nothing commits that a later term or life has fenced off.
//
// Goroutines: one a lane that has work, from the first Write after a Flush until the
// next Flush, an error, or Close; and those of database/sql's pool, which end in Close.
package mysql
