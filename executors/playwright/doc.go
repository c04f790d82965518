// Package playwright is the executor for tasks of types playwright and
// browser: it drives a headless Chromium with the real Playwright driver.
//
// The parts, from the outside in:
//
//	executor.go   what is served, and the way of one task
//	settings.go   what an administrator may set
//	payload.go    what a task may ask for, checked before anything starts
//	step*.go      one file for each family of steps
//	run.go        one task: steps in order under its deadline
//	surface.go    one browser context with its proxy lane and its recorder
//	session.go    surfaces that are kept between tasks
//	pool.go       the browser that takes tasks now, and those that wind down
//	driver.go     the node process that speaks to browsers
//	launcher.go   how node starts: as another user, with a clean environment
//	memory.go     the watch on what the processes hold
//
// Every task gets a context of its own in a shared browser. All traffic of a
// context goes through its own lane of the egress guard (package egress); the
// browser itself has a proxy that leads nowhere. A task ends by closing its
// context: that ends any call that hangs in the page.
package playwright
