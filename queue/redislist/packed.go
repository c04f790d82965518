package redislist

import (
	"encoding/binary"
	"errors"
)

var errPacked = errors.New("claim script answered a task that is not a packed list of strings")

// unpack reads a list of strings as the claim scripts pack it: MessagePack, an
// array of str. The strings share the memory of s.
func unpack(s string) ([]string, error) {
	n, s, ok := header(s, 0x90, 0x0f, 0, 0xdc, 0xdd)
	if !ok || n > len(s) {
		return nil, errPacked
	}
	out := make([]string, 0, n)
	for range n {
		size, rest, ok := header(s, 0xa0, 0x1f, 0xd9, 0xda, 0xdb)
		if !ok || size > len(rest) {
			return nil, errPacked
		}
		out = append(out, rest[:size])
		s = rest[size:]
	}
	if s != "" {
		return nil, errPacked
	}
	return out, nil
}

// header reads the head of a value of one kind and returns its length: in the
// first byte itself (fix, with the bits of mask for the length), or in one, two
// or four bytes after it.
func header(s string, fix, mask, one, two, four byte) (n int, rest string, ok bool) {
	if s == "" {
		return 0, "", false
	}
	first, rest := s[0], s[1:]
	switch {
	case first&^mask == fix:
		return int(first & mask), rest, true
	case first == one && one != 0 && len(rest) >= 1:
		return int(rest[0]), rest[1:], true
	case first == two && len(rest) >= 2:
		return int(binary.BigEndian.Uint16([]byte(rest[:2]))), rest[2:], true
	case first == four && len(rest) >= 4:
		return int(binary.BigEndian.Uint32([]byte(rest[:4]))), rest[4:], true
	}
	return 0, "", false
}
