// Package rawjson checks and splits JSON (RFC 8259) in place. A payload with a
// picture in it passes many hands, and most want to know only whether it is an
// object and what two or three of its members are: encoding/json takes a
// millisecond for each look at it.
//
// What is valid here is what is valid for encoding/json, nesting limit
// included.
package rawjson
