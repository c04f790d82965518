// Package ocr is what happens around the models that read text in pictures, of
// the kind PP-OCR: a detector gives a map of probabilities, one for each pixel,
// whose islands are lines of text; each line is cut out upright; a recogniser
// gives classes for each step along it, which become characters.
//
//	lines.go  from the map of the detector to quadrilaterals (differentiable binarization, Liao and others, 2020)
//	rect.go   convex hull, and the smallest rectangle around it
//	crop.go   a line cut out of the picture, turned upright
//	ctc.go    from the classes of the recogniser to text (connectionist temporal classification, Graves and others, 2006)
//
// Nothing here knows a runtime: input and output are slices of numbers.
package ocr
