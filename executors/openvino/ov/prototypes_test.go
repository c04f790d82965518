package ov

import (
	"testing"
	"unsafe"
)

func TestLayoutsAreThoseOfTheHeaders(t *testing.T) {
	for name, s := range map[string][2]uintptr{
		"ov_version_t":           {unsafe.Sizeof(cVersion{}), 16},
		"ov_core_version_list_t": {unsafe.Sizeof(cVersionList{}), 16},
		"ov_available_devices_t": {unsafe.Sizeof(cDevices{}), 16},
		"ov_shape_t":             {unsafe.Sizeof(cShape{}), 16},
		"ov_dimension_t":         {unsafe.Sizeof(cDimension{}), 16},
		"ov_partial_shape_t":     {unsafe.Sizeof(cPartialShape{}), 24},
	} {
		if s[0] != s[1] {
			t.Errorf("%s has %d bytes, want %d", name, s[0], s[1])
		}
	}
}
