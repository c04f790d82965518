// Package exec is the executor that makes a script a task type. Every
// executable file in its folder serves the type it is named after:
//
//   - standard input is the payload, a JSON object; standard output is the
//     output, a JSON object or nothing
//   - a line "progress: 40 message" on standard error reports progress, a line
//     "artifact: NAME MEDIA_TYPE" announces a file in $AUTOBOT_SPOOL_DIR, every
//     other line goes to the task's log
//   - exit code 0 is success, 65 says that the payload is at fault, 75 asks to
//     be tried again later, any other code is a failure
//
// Nothing that a script starts outlives its task.
package exec
