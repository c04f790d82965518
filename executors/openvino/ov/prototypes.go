package ov

import "unsafe"

// The C API of OpenVINO as this package uses it. Names and layouts have been
// the same since release 2022.1; the header files come with each release.
// Nothing else in the package knows how a C function is called.

// status is what every C call answers: 0, or a negative code of errors.go.
type status int32

// Handles of the library. Each has a free function of its own.
type (
	coreHandle     uintptr
	modelHandle    uintptr
	compiledHandle uintptr
	requestHandle  uintptr
	tensorHandle   uintptr
	portHandle     uintptr
)

// cVersion is ov_version_t.
type cVersion struct {
	build *byte
	_     *byte // description
}

// cVersionList is ov_core_version_list_t.
type cVersionList struct {
	_ unsafe.Pointer // entries
	_ uintptr        // their number
}

// cDevices is ov_available_devices_t.
type cDevices struct {
	names **byte
	n     uintptr
}

// cShape is ov_shape_t, which is passed by value.
type cShape struct {
	rank int64
	dims *int64
}

// cDimension is ov_dimension_t and ov_rank_t: a range, max -1 is open.
type cDimension struct {
	min, max int64
}

// cPartialShape is ov_partial_shape_t.
type cPartialShape struct {
	rank cDimension
	dims *cDimension
}

// api is the loaded C API. Strings that come back as *byte belong to the
// library and are freed with free; texts that go in are copied by it.
type api struct {
	getVersion  func(out *cVersion) status
	versionFree func(v *cVersion)
	lastError   func() *byte
	free        func(text *byte)

	coreCreate       func(out *coreHandle) status
	coreFree         func(core coreHandle)
	coreVersions     func(core coreHandle, device string, out *cVersionList) status
	coreVersionsFree func(list *cVersionList)
	coreDevices      func(core coreHandle, out *cDevices) status
	coreDevicesFree  func(list *cDevices)
	coreGetProperty  func(core coreHandle, device, key string, out **byte) status
	coreSetProperty  func(core coreHandle, device, key, value string) status
	coreReadModel    func(core coreHandle, path string, weights *byte, out *modelHandle) status
	coreCompile      func(core coreHandle, model modelHandle, device string, n uintptr, out *compiledHandle, pairs ...any) status
	coreCompileFile  func(core coreHandle, path, device string, n uintptr, out *compiledHandle, pairs ...any) status
	coreImport       func(core coreHandle, blob *byte, n uintptr, device string, out *compiledHandle) status

	modelFree       func(model modelHandle)
	modelIsDynamic  func(model modelHandle) bool
	modelInputs     func(model modelHandle, out *uintptr) status
	modelInputIndex func(model modelHandle, i uintptr, out *portHandle) status
	modelReshape    func(model modelHandle, names **byte, shapes *cPartialShape, n uintptr) status

	portName  func(port portHandle, out **byte) status
	portType  func(port portHandle, out *int32) status
	portShape func(port portHandle, out *cPartialShape) status
	portFree  func(port portHandle)

	partialShapeFree func(shape *cPartialShape)
	shapeFree        func(shape *cShape) status

	compiledFree        func(compiled compiledHandle)
	compiledInputs      func(compiled compiledHandle, out *uintptr) status
	compiledInputIndex  func(compiled compiledHandle, i uintptr, out *portHandle) status
	compiledOutputs     func(compiled compiledHandle, out *uintptr) status
	compiledOutputIndex func(compiled compiledHandle, i uintptr, out *portHandle) status
	compiledGetProperty func(compiled compiledHandle, key string, out **byte) status
	compiledExport      func(compiled compiledHandle, path string) status
	compiledRequest     func(compiled compiledHandle, out *requestHandle) status

	requestFree     func(request requestHandle)
	requestSetInput func(request requestHandle, i uintptr, tensor tensorHandle) status
	requestOutput   func(request requestHandle, i uintptr, out *tensorHandle) status
	requestStart    func(request requestHandle) status
	requestWaitFor  func(request requestHandle, ms int64) status
	requestCancel   func(request requestHandle) status

	tensorCreate   func(elementType int32, shape cShape, out *tensorHandle) status
	tensorFree     func(tensor tensorHandle)
	tensorShape    func(tensor tensorHandle, out *cShape) status
	tensorType     func(tensor tensorHandle, out *int32) status
	tensorByteSize func(tensor tensorHandle, out *uintptr) status
	tensorData     func(tensor tensorHandle, out *unsafe.Pointer) status
}

// symbol says which C function a field of api is.
type symbol struct {
	name string
	fn   any // pointer to the field
}

// symbols lists every C function that is needed.
func (a *api) symbols() []symbol {
	return []symbol{
		{"ov_get_openvino_version", &a.getVersion},
		{"ov_version_free", &a.versionFree},
		{"ov_get_last_err_msg", &a.lastError},
		{"ov_free", &a.free},
		{"ov_core_create", &a.coreCreate},
		{"ov_core_free", &a.coreFree},
		{"ov_core_get_versions_by_device_name", &a.coreVersions},
		{"ov_core_versions_free", &a.coreVersionsFree},
		{"ov_core_get_available_devices", &a.coreDevices},
		{"ov_available_devices_free", &a.coreDevicesFree},
		{"ov_core_get_property", &a.coreGetProperty},
		{"ov_core_set_property", &a.coreSetProperty},
		{"ov_core_read_model", &a.coreReadModel},
		{"ov_core_compile_model", &a.coreCompile},
		{"ov_core_compile_model_from_file", &a.coreCompileFile},
		{"ov_core_import_model", &a.coreImport},
		{"ov_model_free", &a.modelFree},
		{"ov_model_is_dynamic", &a.modelIsDynamic},
		{"ov_model_inputs_size", &a.modelInputs},
		{"ov_model_const_input_by_index", &a.modelInputIndex},
		{"ov_model_reshape", &a.modelReshape},
		{"ov_port_get_any_name", &a.portName},
		{"ov_port_get_element_type", &a.portType},
		{"ov_port_get_partial_shape", &a.portShape},
		{"ov_output_const_port_free", &a.portFree},
		{"ov_partial_shape_free", &a.partialShapeFree},
		{"ov_shape_free", &a.shapeFree},
		{"ov_compiled_model_free", &a.compiledFree},
		{"ov_compiled_model_inputs_size", &a.compiledInputs},
		{"ov_compiled_model_input_by_index", &a.compiledInputIndex},
		{"ov_compiled_model_outputs_size", &a.compiledOutputs},
		{"ov_compiled_model_output_by_index", &a.compiledOutputIndex},
		{"ov_compiled_model_get_property", &a.compiledGetProperty},
		{"ov_compiled_model_export_model", &a.compiledExport},
		{"ov_compiled_model_create_infer_request", &a.compiledRequest},
		{"ov_infer_request_free", &a.requestFree},
		{"ov_infer_request_set_input_tensor_by_index", &a.requestSetInput},
		{"ov_infer_request_get_output_tensor_by_index", &a.requestOutput},
		{"ov_infer_request_start_async", &a.requestStart},
		{"ov_infer_request_wait_for", &a.requestWaitFor},
		{"ov_infer_request_cancel", &a.requestCancel},
		{"ov_tensor_create", &a.tensorCreate},
		{"ov_tensor_free", &a.tensorFree},
		{"ov_tensor_get_shape", &a.tensorShape},
		{"ov_tensor_get_element_type", &a.tensorType},
		{"ov_tensor_get_byte_size", &a.tensorByteSize},
		{"ov_tensor_data", &a.tensorData},
	}
}

// maxPairs is how many key-value pairs fit into one compile call: a C call
// takes at most 32 arguments here, and five come before the pairs.
const maxPairs = 13
