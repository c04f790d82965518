// Package tts is the executor for tasks of type tts: it turns text into speech.
//
// The way of a synthesize task, one file each:
//
//	payload.go     what the task asks for, checked before anything is started
//	catalogue.go   which installed voice speaks it, by name or by language
//	normalize.go   what a synthesiser reads badly is written out (markdown.go, urls.go, english.go)
//	segment.go     sentences of at most 200 runes
//	engine.go      an Engine turns one segment into samples; espeak.go is the one we have
//	recorder.go    samples are resampled, written and finished as one file (resample.go, wav.go)
//	synthesize.go  the above, in order, with progress
//
// Memory does not grow with the text: audio streams from the engine's file into
// ours, and peak normalisation is a second pass over that file.
package tts
