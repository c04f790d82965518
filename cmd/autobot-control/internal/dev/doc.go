// Package dev runs a whole fleet on one machine: a private Redis, the control
// plane in this process, one agent with all executors. It is for first steps
// and for work on executors.
//
// Everything it keeps is in one folder. The agent and redis-server are child
// processes in groups of their own, which the kernel ends if this process is
// killed. An agent that dies is started again, as a service manager would; the
// end of any other part ends the fleet. A clean end takes them down in order:
// agent, control plane, Redis.
package dev
