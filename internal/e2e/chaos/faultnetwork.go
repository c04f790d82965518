package chaos

import "errors"

// network carries out a fault of the connections of one program, whose lock
// the caller holds.
func (in *injector) network(w *wire, fault Fault) error {
	toxic, directions, attributes := "hold", []string{requests, replies}, map[string]any(nil)
	switch fault.Kind {
	case StallRequests:
		directions = []string{requests}
	case StallReplies:
		directions = []string{replies}
	case LoseRequests:
		toxic, directions = "timeout", []string{requests}
	case LoseReplies:
		toxic, directions = "timeout", []string{replies}
	case CutReplies:
		// The requests arrive; the first byte of an answer ends the connection.
		toxic, directions, attributes = "limit_data", []string{replies}, map[string]any{"bytes": 0}
	case CutMidway:
		toxic, directions, attributes = "limit_data", []string{replies}, map[string]any{"bytes": 1 + int(fault.Pick*4000)}
	case Reset:
		toxic, directions = "reset_peer", []string{replies}
	case Away:
		w.away()
		pause(fault.For)
		return w.back()
	}
	var err error
	for _, d := range directions {
		err = errors.Join(err, w.add(toxic, d, attributes))
	}
	pause(fault.For)
	for _, d := range directions {
		err = errors.Join(err, w.remove(toxic, d))
	}
	return err
}
