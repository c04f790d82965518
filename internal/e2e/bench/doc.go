// Package bench measures the main road: what an idle agent costs, how fast a
// task starts, and how many tasks pass. Run it with make bench.
package bench
