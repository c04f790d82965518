package ov

import (
	"errors"
	"fmt"
)

// ElementType is the type of a tensor's elements. The values are this
// package's own; the library's differ from release to release.
type ElementType int

// The element types. Those up to U64 that fill whole bytes can be in a Tensor.
const (
	Dynamic ElementType = iota
	Bool
	BF16
	F16
	F32
	F64
	I4
	I8
	I16
	I32
	I64
	U1
	U2
	U3
	U4
	U6
	U8
	U16
	U32
	U64
	NF4
	F8E4M3
	F8E5M2
	String
	F4E2M1
	F8E8M0
)

var elementNames = [...]string{
	"dynamic", "bool", "bf16", "f16", "f32", "f64", "i4", "i8", "i16", "i32", "i64",
	"u1", "u2", "u3", "u4", "u6", "u8", "u16", "u32", "u64", "nf4", "f8e4m3", "f8e5m2",
	"string", "f4e2m1", "f8e8m0",
}

// String is the runtime's name of the type, such as "f32".
func (t ElementType) String() string {
	if t < 0 || int(t) >= len(elementNames) {
		return fmt.Sprintf("element type %d", int(t))
	}
	return elementNames[t]
}

// Size is the number of bytes of one element, 0 for types that cannot be in a
// Tensor (smaller than a byte, strings, unknown).
func (t ElementType) Size() int64 {
	switch t {
	case Bool, I8, U8:
		return 1
	case BF16, F16, I16, U16:
		return 2
	case F32, I32, U32:
		return 4
	case F64, I64, U64:
		return 8
	}
	return 0
}

// elementTable translates element types for one release line. Older releases
// have "undefined" in front of the list, so every number is one higher.
type elementTable struct {
	shift int32
}

// tablesFor lists the tables that a library of release v may have. The change
// came in the course of 2025.
func tablesFor(v Version) []elementTable {
	older, newer := elementTable{shift: 1}, elementTable{}
	switch {
	case v.Major < 2025:
		return []elementTable{older}
	case v.Major == 2025:
		return []elementTable{newer, older}
	}
	return []elementTable{newer}
}

// chooseTable returns the table that fits the library by measure. A library
// that has none of its release's is not of the release it claims.
func chooseTable(a *api, v Version) (elementTable, error) {
	var errs []error
	for _, table := range tablesFor(v) {
		err := table.verify(a)
		if err == nil {
			return table, nil
		}
		errs = append(errs, err)
	}
	return elementTable{}, fmt.Errorf("it is not of the release it claims to be: %w (%s)", errors.Join(errs...), installHint)
}

// code is the library's number for t.
func (e elementTable) code(t ElementType) int32 { return int32(t) + e.shift }

// element is the type with the library's number code. Numbers that are not
// known give a type without a name and of size 0, which is refused where data
// would be read.
func (e elementTable) element(code int32) ElementType {
	if code <= e.shift {
		return Dynamic
	}
	return ElementType(code - e.shift)
}

// verify creates a tensor of one element for types of all sizes and compares
// their bytes. A table that is off by one fails here instead of giving wrong
// numbers later.
func (e elementTable) verify(a *api) error {
	for _, t := range []ElementType{F32, F16, U8, I64, I32, F64, Bool} {
		dim := int64(1)
		var tensor tensorHandle
		if st := a.tensorCreate(e.code(t), cShape{rank: 1, dims: &dim}, &tensor); st != 0 {
			return fmt.Errorf("no element type %s under %d: %w", t, e.code(t), a.failure("create tensor", st))
		}
		var size uintptr
		st := a.tensorByteSize(tensor, &size)
		a.tensorFree(tensor)
		if st != 0 {
			return a.failure("measure tensor", st)
		}
		if int64(size) != t.Size() {
			return fmt.Errorf("element type %s has %d bytes under %d instead of %d", t, size, e.code(t), t.Size())
		}
	}
	return nil
}
