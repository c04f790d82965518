// Package general is the executor for work that needs no engine: type general
// (echo, sleep, http_check) and type analysis (text_stats, hash_files). It has
// no shell.
package general
