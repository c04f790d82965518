// Package client is the Go API for producers, operators and programs that
// embed the fleet. The command line of autobot-control is built on it.
//
// There are two ways in, with the same methods:
//
//   - Dial talks to a control plane over HTTPS. It needs no access to Redis,
//     and can read artifacts.
//   - Connect talks to Redis itself. It needs no control plane, and can run the
//     failover monitor in this process (StartMonitor).
//
// The usual round trip:
//
//	c, err := client.Dial(client.Options{URL: "https://main.lan:8443", CAFile: "ca.crt", KeyFile: "internal.key"})
//	receipt, err := c.Submit(ctx, queue.Submission{Type: "tts", Payload: json.RawMessage(`{"text":"hello"}`)})
//	result, err := c.Wait(ctx, receipt.ID, nil)
//
// Errors are those of package queue, whichever way they came: errors.Is(err,
// queue.ErrNotFound) works over HTTP too. ErrUnreachable, ErrTryLater and
// ErrDenied tell the rest apart.
package client
