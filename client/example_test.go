package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/control/monitor"
	"github.com/autobot-fleet/autobot/queue"
)

// A producer that knows the control plane: submit a task, follow it, read its
// result.
func Example() {
	fleet, end := newScene()
	defer end()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()

	c, err := client.Dial(client.Options{
		URL:     fleet.plane.url,    // https://main.lan:8443
		CAFile:  fleet.plane.caFile, // the ca.crt of the control plane
		KeyFile: fleet.plane.cfg.Auth.InternalKeyFile,
	})
	if err != nil {
		log.Panic(err)
	}
	defer func() { _ = c.Close() }()

	receipt, err := c.Submit(ctx, queue.Submission{Type: "echo", Payload: json.RawMessage(`{"hello":"fleet"}`), Priority: queue.PriorityHigh})
	if err != nil {
		log.Panic(err)
	}
	fmt.Println(receipt.Status, "in", receipt.Queue)
	result, err := c.Wait(ctx, receipt.ID, func(e client.Event) {
		if e.Kind == queue.EventState && e.State.Status.Terminal() {
			fmt.Println("now", e.State.Status)
		}
	})
	if err != nil {
		log.Panic(err)
	}
	fmt.Println(string(result))
	// Output:
	// queued in high:echo
	// now completed
	// {"hello":"fleet"}
}

// A failed task is an error with the code and the document that say why.
func ExampleClient_Wait_failure() {
	fleet, end := newScene()
	defer end()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.Dial(fleet.plane.options())
	if err != nil {
		log.Panic(err)
	}
	defer func() { _ = c.Close() }()

	receipt, err := c.Submit(ctx, queue.Submission{Type: "fail"})
	if err != nil {
		log.Panic(err)
	}
	_, err = c.Wait(ctx, receipt.ID, nil)
	var failed *queue.FailedError
	if errors.As(err, &failed) {
		fmt.Println(failed.Status, failed.Code)
	}
	_, err = c.Get(ctx, "no-such-task")
	fmt.Println(errors.Is(err, queue.ErrNotFound))
	// Output:
	// failed_permanent NOT_FOUND
	// true
}

// A program that has no control plane: it talks to Redis itself and runs the
// failover monitor.
func ExampleClient_StartMonitor() {
	fleet, end := newScene()
	defer end()
	fleet.plane.stop() // the example does without one
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()

	c, err := client.Connect(ctx, client.RedisOptions{URL: fleet.redis.URL()})
	if err != nil {
		log.Panic(err)
	}
	defer func() { _ = c.Close() }()
	settings, _ := monitor.Profile("fast")
	m, err := c.StartMonitor(ctx, client.MonitorOptions{Settings: settings})
	if err != nil {
		log.Panic(err)
	}
	defer m.Stop()
	for !m.Leader() && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	report, err := c.FailoverScan(ctx)
	if err != nil {
		log.Panic(err)
	}
	fmt.Println("leader:", report.Leader, "dead:", len(report.Dead))
	// Output:
	// leader: true dead: 0
}

// Many tasks in few round trips, and a walk over all of one type.
func ExampleClient_SubmitAll() {
	fleet, end := newScene()
	defer end()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.Dial(fleet.plane.options())
	if err != nil {
		log.Panic(err)
	}
	defer func() { _ = c.Close() }()

	var all []queue.Submission
	for i := range 1200 {
		all = append(all, queue.Submission{Type: "later", Payload: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))})
	}
	all[7].Type = "Not A Type"
	receipts, err := c.SubmitAll(ctx, all)
	if err != nil {
		log.Panic(err)
	}
	fmt.Println("refused:", receipts[7].Err)
	n := 0
	for _, err := range c.List(ctx, queue.Filter{Type: "later"}) {
		if err != nil {
			log.Panic(err)
		}
		n++
	}
	fmt.Println("waiting:", n)
	// Output:
	// refused: type: must be 1-64 of [a-z0-9_.-], got "Not A Type"
	// waiting: 1199
}
