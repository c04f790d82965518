package ov

import (
	"strings"
	"sync/atomic"
)

// loaded is one object of the library, used by the Compiled it belongs to and
// by the requests that were made from it.
type loaded struct {
	api             *api
	handle          compiledHandle
	blob            []byte // mapped file that the library reads from while it lives
	inputs, outputs []Port
	device          string
	fromCache       bool

	refs int         // guarded by Compiled.mu
	bad  atomic.Bool // an inference failed
}

// describe reads what was compiled and frees it on failure. blob is what it
// was imported from.
func (r *Runtime) describe(handle compiledHandle, blob []byte) (_ *loaded, err error) {
	a := r.api
	l := &loaded{api: a, handle: handle, blob: blob}
	defer func() {
		if err != nil {
			l.free()
		}
	}()
	if l.inputs, err = r.readPorts("inputs",
		func(n *uintptr) status { return a.compiledInputs(handle, n) },
		func(i uintptr, p *portHandle) status { return a.compiledInputIndex(handle, i, p) }); err != nil {
		return nil, err
	}
	if l.outputs, err = r.readPorts("outputs",
		func(n *uintptr) status { return a.compiledOutputs(handle, n) },
		func(i uintptr, p *portHandle) status { return a.compiledOutputIndex(handle, i, p) }); err != nil {
		return nil, err
	}
	devices, err := l.property(keyExecutionDevices)
	if err != nil {
		return nil, err
	}
	l.device = strings.Trim(devices, "()")
	if cached, err := l.property(keyFromCache); err == nil { // not every device tells
		l.fromCache = cached == "YES"
	}
	return l, nil
}

// property reads a property of the compiled model.
func (l *loaded) property(key string) (string, error) {
	var value *byte
	if st := l.api.compiledGetProperty(l.handle, key, &value); st != statusOK {
		return "", l.api.failure("read "+key+" of the compiled model", st)
	}
	return l.api.take(value), nil
}

func (l *loaded) free() {
	l.api.compiledFree(l.handle)
	unmap(l.blob)
}
