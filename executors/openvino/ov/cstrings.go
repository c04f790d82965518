package ov

import (
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// take copies a text of the library and frees it. A nil text is "".
func (a *api) take(text *byte) string {
	if text == nil {
		return ""
	}
	s := unix.BytePtrToString(text)
	a.free(text)
	return s
}

// cText is s for a C call that takes an array of texts.
func cText(s string) *byte {
	return unsafe.SliceData(append([]byte(s), 0)) //nolint:gosec // ends with a NUL
}

// checkText refuses what C would cut off.
func checkText(what, s string) error {
	if s == "" {
		return fmt.Errorf("%s is empty", what)
	}
	if strings.ContainsRune(s, 0) {
		return fmt.Errorf("%s %q has a NUL in it", what, s)
	}
	return nil
}
