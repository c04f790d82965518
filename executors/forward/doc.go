// Package forward is the executor that gives tasks to an HTTP service: it
// posts {task_id, type, payload} to a configured URL, and the JSON object in
// the answer is the output.
package forward
