package rawjson

import "encoding/binary"

// maxDepth is the nesting that encoding/json allows.
const maxDepth = 10_000

// Valid reports whether b is one JSON value, with white space around it.
func Valid(b []byte) bool {
	end, ok := value(b, space(b, 0), 0)
	return ok && space(b, end) == len(b)
}

// space returns the index of the next byte that is no white space.
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// value returns the index behind the value that begins at i.
func value(b []byte, i, depth int) (int, bool) {
	if i >= len(b) {
		return i, false
	}
	switch c := b[i]; {
	case c == '"':
		return text(b, i)
	case c == '{':
		return object(b, i, depth+1, nil)
	case c == '[':
		return array(b, i, depth+1)
	case c == '-' || digit(c):
		return number(b, i)
	case c == 't':
		return word(b, i, "true")
	case c == 'f':
		return word(b, i, "false")
	case c == 'n':
		return word(b, i, "null")
	}
	return i, false
}

// object scans an object. each, if it is there, gets the members; false from it
// ends the scan as if the object were not valid.
func object(b []byte, i, depth int, each func(name, value []byte) bool) (int, bool) {
	if depth > maxDepth {
		return i, false
	}
	if i = space(b, i+1); i < len(b) && b[i] == '}' {
		return i + 1, true
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return i, false
		}
		from := i
		end, ok := text(b, i)
		if !ok {
			return end, false
		}
		name := b[from:end]
		if i = space(b, end); i >= len(b) || b[i] != ':' {
			return i, false
		}
		from = space(b, i+1)
		if end, ok = value(b, from, depth); !ok {
			return end, false
		}
		if each != nil && !each(name, b[from:end]) {
			return end, false
		}
		if i = space(b, end); i >= len(b) {
			return i, false
		}
		switch b[i] {
		case '}':
			return i + 1, true
		case ',':
			i = space(b, i+1)
		default:
			return i, false
		}
	}
}

func array(b []byte, i, depth int) (int, bool) {
	if depth > maxDepth {
		return i, false
	}
	if i = space(b, i+1); i < len(b) && b[i] == ']' {
		return i + 1, true
	}
	for {
		end, ok := value(b, i, depth)
		if !ok {
			return end, false
		}
		if i = space(b, end); i >= len(b) {
			return i, false
		}
		switch b[i] {
		case ']':
			return i + 1, true
		case ',':
			i = space(b, i+1)
		default:
			return i, false
		}
	}
}

func word(b []byte, i int, w string) (int, bool) {
	if len(b)-i < len(w) || string(b[i:i+len(w)]) != w {
		return i, false
	}
	return i + len(w), true
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

func digits(b []byte, i int) (int, bool) {
	from := i
	for i < len(b) && digit(b[i]) {
		i++
	}
	return i, i > from
}

func number(b []byte, i int) (int, bool) {
	if b[i] == '-' {
		i++
	}
	ok := true
	if i < len(b) && b[i] == '0' {
		i++ // nothing but a fraction or an exponent follows a leading zero
	} else if i, ok = digits(b, i); !ok {
		return i, false
	}
	if i < len(b) && b[i] == '.' {
		if i, ok = digits(b, i+1); !ok {
			return i, false
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		i, ok = digits(b, i)
	}
	return i, ok
}

// text returns the index behind the string that begins at i.
func text(b []byte, i int) (int, bool) {
	for i++; ; i++ {
		i = plain(b, i)
		switch {
		case i >= len(b) || b[i] < ' ':
			return i, false
		case b[i] == '"':
			return i + 1, true
		}
		if i++; i >= len(b) { // behind the backslash
			return i, false
		}
		switch b[i] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		case 'u':
			if len(b)-i < 5 || !hex(b[i+1]) || !hex(b[i+2]) || !hex(b[i+3]) || !hex(b[i+4]) {
				return i, false
			}
			i += 4
		default:
			return i, false
		}
	}
}

func hex(c byte) bool { return digit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

// Eight bytes are looked at together, as in "Bit Twiddling Hacks" (S. E.
// Anderson): the top bit of a byte is set where it is zero, or below ' '. A
// byte after such a one may be marked too; the loop that follows looks again.
const (
	ones = 0x0101010101010101
	tops = 0x8080808080808080
)

// plain returns the index of the next byte that means something in a string.
func plain(b []byte, i int) int {
	for ; len(b)-i >= 8; i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		if ((quote-ones)&^quote|(slash-ones)&^slash|(w-ones*' ')&^w)&tops != 0 {
			break
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < ' ' {
			break
		}
	}
	return i
}
