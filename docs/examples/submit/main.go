// Command submit is an example of a producer: it queues one task, waits for
// its end and prints the result. Its argument is the address of Redis.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/queue"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: submit REDIS_URL")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "submit:", err)
		os.Exit(1)
	}
}

func run(redis string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Connect(ctx, client.RedisOptions{URL: redis})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	receipt, err := c.Submit(ctx, queue.Submission{
		Type:     "analysis",
		Payload:  json.RawMessage(`{"op": "text_stats", "text": "Hello from Go."}`),
		Priority: queue.PriorityHigh,
	})
	if err != nil {
		return err
	}
	result, err := c.Wait(ctx, receipt.ID, nil)
	if err != nil {
		return err
	}
	fmt.Println(string(result))
	return nil
}
