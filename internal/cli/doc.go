// Package cli is the command line that our programs share: the root command
// with its global flags, exit codes, output for people and for scripts, and the
// commands that every program has (config, version, completion, man, help).
//
// A program embeds App, builds its tree from App.Root and runs it with App.Run.
package cli
