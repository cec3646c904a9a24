// Package freeport owns the choice of ports for servers that are told where to listen
// before they do, and that come back there after they were down.
//
// A port that was listened at for a moment and closed again is the kernel's to give away:
// to who dials, and to who listens at any. It may be taken before its server listens, and
// while its server is down. So these lie outside the range that the kernel gives from.
//
// It has no goroutines.
package freeport
