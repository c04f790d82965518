// Package ovtest finds the OpenVINO runtimes that tests run on, and builds a
// double of the library for what no ordinary machine has: an NPU, a library
// that lies about its release, a device that is lost. The double never ships
// and never answers a user's task.
package ovtest
