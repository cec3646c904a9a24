// Package api owns the HTTP interface: TiCDC's version 2 and the paths of version
// 1 that tools use, their JSON, who may call them, and their OpenAPI document.
//
//	request ──▶ route ──▶ body, strictly read ──▶ Node or Upstream
//	              │ the owner's affair, and we are not it
//	              └──▶ the same request to the owner
//
// A route is a row of a table: method, path, what it reads, what it answers.
// What serves requests, what the OpenAPI document says and what the tests try
// are that table, so that none can fall behind the others. Paths of TiCDC's that
// this release has nothing behind are rows too, and say so.
//
// A key that nobody reads is refused, in bodies and in queries (P8). An error is
// answered with its code, what that means, and what to do.
//
// No secret passes: Node hands out changefeeds with theirs masked, and errors of
// requests never quote a body.
//
// It starts no goroutines; http.Server's call it.
package api
