// Package script owns the form of the stories in testdata: what is done to a
// machine, and what it decided, as text that a person can read and review.
//
//	# A comment.
//	commands, one a line
//	----
//	what followed
//
// A blank line ends a block. Each file is a story of its own, with a machine of
// its own, and a test by the file's name. With -rewrite a test writes what
// follows now; the diff is then for a reviewer.
//
// It has no goroutines.
package script
