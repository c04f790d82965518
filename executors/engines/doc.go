// Package engines says where inference engines and models are on this machine
// and what a model is. Executors import it; the installer that fills these
// folders is the agent's (package agent/engines).
//
// The folders lie side by side:
//
//	engines/openvino/2026.4.1/libopenvino_c.so.2641   one folder for each version
//	engines/playwright/1.64.1/package/cli.js
//	engines/node/24.19.0/bin/node
//	models/all-minilm-l6-v2/model.json                one card for each model
//	data/sample-pictures/astronaut.png                pictures and the like
//
// Nothing here downloads or runs anything but `node --version`. What is missing
// is an error that names the one line that installs it.
package engines
