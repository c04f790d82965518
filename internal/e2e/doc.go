// Package e2e starts our real programs for tests: built once per test process,
// each with folders of its own, ended with the test.
//
//	srv := redistest.Start(t)
//	q := e2e.NewQueue(t, srv)
//	c := e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
//	a := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), Executors: []string{"general"}})
//	a.AwaitClaiming()
//	ids := q.Add(10, queue.Submission{Type: "general"})
//	q.AwaitAll(ids, queue.StatusCompleted)
//	e2e.Invariants{IDs: ids}.Check(t, q)
//
// Package ledger is an executor that writes down what it runs and misbehaves
// when asked; package bench measures.
package e2e
