// Package badline owns what befalls connections in tests: a Line that is cut in one
// direction or both, slow, breaks in the midst of a message, or takes no calls.
//
//	dial, listener ─▶ Line ─▶ net.Conn, whose bytes wait, are late, or end
//
// TCP loses no bytes as long as a connection stands, so that a cut holds them, as a
// network does that TCP outlasts, and only a break loses what was on its way.
//
// It has no goroutines.
package badline
