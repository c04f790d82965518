// Package openvino is the executor that runs models: tasks of the types
// npu_inference, openvino, vision and embedding.
//
// The way of a task, one file each:
//
//	payload.go    what the task asks for, with the names that older producers use
//	executor.go   operations by type, and what the executor says about itself
//	devices.go    which device: an explicit one or none, AUTO by the configured order
//	models.go     which models are loaded, and by whom they are used
//	memory.go     how much memory they may take: the least recently used go, and idle ones
//	load.go       loading: checksums, compilation; cache.go keeps what was compiled
//	canary.go     compares a device with the CPU before it is trusted with a model
//	infer.go      tensors in, tensors out; tensors.go reads and shows them, pad.go fits them to an NPU
//	embed.go      texts to vectors: vectorize.go makes them, batcher.go puts texts of several tasks
//	              into one inference (gather.go waits for them), vectors.go remembers
//	search.go     the nearest vectors
//	picture.go    pictures from the payload, an artifact or a file
//	detect.go     objects, classify.go classes, ocr.go text in pictures
//	benchmark.go  how fast a model is, and whether a device agrees with the CPU
//	check.go      the self-check behind `autobot-agent models add`
//
// The runtime is spoken to by package ov, text becomes tokens in wordpiece,
// pictures become tensors in vision, and text is found in them by ocr.
// Nothing is ever invented: without the runtime no type is served, and a device
// that is not there is an error.
package openvino
