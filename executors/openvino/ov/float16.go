package ov

import "math"

// Float16 is a half-precision float of IEEE 754 (1 sign, 5 exponent, 10
// fraction bits), as in tensors of type F16.
type Float16 uint16

// ToFloat16 rounds f to the nearest half, ties to even. Values beyond 65504
// become infinite.
func ToFloat16(f float32) Float16 {
	b := math.Float32bits(f)
	sign := uint16(b>>16) & 0x8000
	exp := int(b>>23&0xff) - 127 + 15
	frac := b & 0x7fffff
	switch {
	case b&0x7fffffff > 0x7f800000: // NaN stays one, quiet
		return Float16(sign | 0x7e00 | uint16(frac>>13))
	case exp >= 31:
		return Float16(sign | 0x7c00)
	case exp < -10:
		return Float16(sign)
	case exp <= 0: // subnormal: the hidden bit moves into the fraction
		frac |= 0x800000
		return Float16(sign | uint16(roundShift(frac, uint(14-exp))))
	}
	// A fraction that rounds up to 1.0 carries into the exponent, which is
	// right, up to infinity.
	return Float16(sign + uint16(exp)<<10 + uint16(roundShift(frac, 13)))
}

// roundShift is v >> n, to nearest, ties to even.
func roundShift(v uint32, n uint) uint32 {
	half := uint32(1) << (n - 1)
	rest := v & (half<<1 - 1)
	v >>= n
	if rest > half || rest == half && v&1 == 1 {
		v++
	}
	return v
}

// Float32 is the same value as a float32; every half has one.
func (h Float16) Float32() float32 {
	sign := uint32(h&0x8000) << 16
	exp := uint32(h >> 10 & 0x1f)
	frac := uint32(h & 0x3ff)
	switch exp {
	case 0: // zero and subnormals: frac * 2^-24
		f := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(sign | math.Float32bits(f))
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}
