// Package strict owns the refusal of what nobody reads: TOML and JSON are read
// into structs, and a key that the struct does not have is an error that names
// the key, its place and the nearest key that there is (P8: a misspelt filter
// must not become no filter). It is pure.
//
//	text ──decode──▶ struct
//	  └──keys that no field took──▶ *Error{Unknown{Path, Line, Nearest}}
//
// An Error has no code: the caller knows whether a server's file, a
// changefeed's or a request is at fault.
package strict
