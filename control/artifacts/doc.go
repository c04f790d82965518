// Package artifacts keeps the files that tasks produce, named by their SHA-256.
//
// A file lives in DIR/sha256/ab/<hex> with its description in <hex>.json
// beside it. Uploads go to DIR/tmp first and are moved into place when length
// and digest are right, so that a crash leaves either the whole file or
// nothing. Every file has an expiry; Run removes what is past it and, when the
// quota is short, what has been kept for its promised time and was used least
// recently.
package artifacts
