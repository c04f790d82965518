// Package e2e starts our real programs for tests: built once per test process,
// each with folders of its own, ended with the test.
//
//	srv := redistest.Start(t)
//	a := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), Executors: []string{"general"}})
//	a.AwaitClaiming()
package e2e
