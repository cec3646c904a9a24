// Package lint owns the house rules that no generic linter knows: which
// package may import which, what a pure package may touch, how things are
// called, how long a function may grow, and what no file may say.
//
//	fs.FS ──load──▶ Module ──rules──▶ []Finding ──▶ go test ./internal/lint
//
// The rules read a file system, so that every rule is proved on small modules
// in testdata that break it. What the rules compare with is data: Rooms and
// Doors and exceptions (rooms.go), each exception with its
// reason, and none that is no longer needed.
package lint
