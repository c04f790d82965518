// Package vision is what happens to pictures around a model: they are decoded
// within limits and fitted to its input, and its output becomes labelled boxes
// in the coordinates of the picture.
//
//	picture.go  PNG and JPEG, checked from the header before they are decoded
//	fit.go      scaling to the input of a model, and the way back
//	scale.go    scaling with a triangle filter
//	box.go      boxes, overlap, suppression of what overlaps
//	ssd.go      detections of SSD models as MediaPipe makes them
//	yolo.go     detections of YOLO models
//	draw.go     boxes and labels drawn into a picture
//
// Nothing here knows a runtime: input and output are slices of numbers.
package vision
