package ov

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"
)

// Dim is a dimension of a port: a fixed size (Min equals Max), or a range.
// Max -1 has no upper end.
type Dim struct {
	Min, Max int64
}

// Fixed reports whether the dimension has one size only.
func (d Dim) Fixed() bool { return d.Min == d.Max }

// Allows reports whether the dimension can be n.
func (d Dim) Allows(n int64) bool { return n >= d.Min && (d.Max < 0 || n <= d.Max) }

// String is "3", "?" for any size, or a range as in "1..512" and "256..".
func (d Dim) String() string {
	switch {
	case d.Fixed():
		return fmt.Sprint(d.Min)
	case d.Max < 0 && d.Min == 0:
		return "?"
	case d.Max < 0:
		return fmt.Sprintf("%d..", d.Min)
	}
	return fmt.Sprintf("%d..%d", d.Min, d.Max)
}

// Port is an input or output of a model.
type Port struct {
	Name string
	Type ElementType
	// Shape has one entry for each dimension; it is empty for a scalar and
	// for AnyRank.
	Shape []Dim
	// AnyRank: even the number of dimensions is open.
	AnyRank bool
}

// Static reports whether only one shape fits.
func (p Port) Static() bool {
	return !p.AnyRank && !slices.ContainsFunc(p.Shape, func(d Dim) bool { return !d.Fixed() })
}

// String is as in "input_ids i64 [1,?]".
func (p Port) String() string {
	if p.AnyRank {
		return fmt.Sprintf("%s %s [...]", p.Name, p.Type)
	}
	dims := make([]string, len(p.Shape))
	for i, d := range p.Shape {
		dims[i] = d.String()
	}
	return fmt.Sprintf("%s %s [%s]", p.Name, p.Type, strings.Join(dims, ","))
}

// check says whether t can be given to the port.
func (p Port) check(t Tensor) error {
	if t.typ == Dynamic {
		return fmt.Errorf("%w: tensor for %s is empty (make it with New or Zeros)", ErrInput, p)
	}
	if p.Type != Dynamic && t.typ != p.Type {
		return fmt.Errorf("%w: %s got %s", ErrInput, p, t.typ)
	}
	if p.AnyRank {
		return nil
	}
	fits := len(t.shape) == len(p.Shape)
	for i := 0; fits && i < len(p.Shape); i++ {
		fits = p.Shape[i].Allows(t.shape[i])
	}
	if !fits {
		return fmt.Errorf("%w: %s got shape %v", ErrInput, p, t.shape)
	}
	return nil
}

// matchInputs puts the tensors in the order of the ports. There must be
// exactly one for each.
func matchInputs(ports []Port, inputs map[string]Tensor) ([]Tensor, error) {
	ordered := make([]Tensor, len(ports))
	for i, p := range ports {
		t, ok := inputs[p.Name]
		if !ok {
			return nil, fmt.Errorf("%w: %s is missing", ErrInput, p)
		}
		if err := p.check(t); err != nil {
			return nil, err
		}
		ordered[i] = t
	}
	for name := range inputs {
		if !slices.ContainsFunc(ports, func(p Port) bool { return p.Name == name }) {
			return nil, fmt.Errorf("%w: the model has no input %q (it has %v)", ErrInput, name, ports)
		}
	}
	return ordered, nil
}

// readPort reads what a port is and frees its handle.
func (r *Runtime) readPort(handle portHandle, index int) (Port, error) {
	a := r.api
	defer a.portFree(handle)
	p := Port{Name: fmt.Sprintf("#%d", index)}
	var name *byte
	if st := a.portName(handle, &name); st == statusOK { // ports need not have one
		p.Name = a.take(name)
	}
	var code int32
	if st := a.portType(handle, &code); st != statusOK {
		return Port{}, a.failure("read the type of port "+p.Name, st)
	}
	p.Type = r.table.element(code)
	var shape cPartialShape
	if st := a.portShape(handle, &shape); st != statusOK {
		return Port{}, a.failure("read the shape of port "+p.Name, st)
	}
	defer a.partialShapeFree(&shape)
	if shape.rank.min != shape.rank.max {
		p.AnyRank = true
		return p, nil
	}
	if shape.rank.min < 0 || shape.rank.min > maxRank || (shape.rank.min > 0 && shape.dims == nil) {
		return Port{}, fmt.Errorf("port %s has %d dimensions, at most %d can be used", p.Name, shape.rank.min, maxRank)
	}
	if shape.rank.min > 0 {
		for _, d := range unsafe.Slice(shape.dims, shape.rank.min) { //nolint:gosec // as many as the rank says
			p.Shape = append(p.Shape, Dim{d.min, d.max})
		}
	}
	return p, nil
}

// maxPorts bounds what a broken library could make us read.
const maxPorts = 4096

func (r *Runtime) readPorts(what string, count func(*uintptr) status, get func(uintptr, *portHandle) status) ([]Port, error) {
	var n uintptr
	if st := count(&n); st != statusOK {
		return nil, r.api.failure("count the "+what, st)
	}
	if n > maxPorts {
		return nil, fmt.Errorf("the model has %d %s, at most %d can be used", n, what, maxPorts)
	}
	ports := make([]Port, 0, n)
	for i := range n {
		var handle portHandle
		if st := get(i, &handle); st != statusOK {
			return nil, r.api.failure("read the "+what, st)
		}
		p, err := r.readPort(handle, int(i))
		if err != nil {
			return nil, err
		}
		ports = append(ports, p)
	}
	return ports, nil
}
