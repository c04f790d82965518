package vision

import "fmt"

// YOLO reads the output of a YOLO model of the eighth version or later, one row
// for each candidate: centre x, centre y, width, height in pixels of the input,
// then a probability for each class. Shape is [1,4+c,n], transposed [1,n,4+c].
func YOLO(out []float32, shape []int64, transposed bool, threshold float64) ([]Detection, error) {
	n, width, err := rows(out, shape, transposed, 5)
	if err != nil {
		return nil, err
	}
	at := func(row, column int) float64 {
		if transposed {
			return float64(out[row*width+column])
		}
		return float64(out[column*n+row])
	}
	var found []Detection
	for i := range n {
		best := 4
		for c := 5; c < width; c++ {
			if at(i, c) > at(i, best) {
				best = c
			}
		}
		if at(i, best) < threshold {
			continue
		}
		x, y, w, h := at(i, 0), at(i, 1), at(i, 2), at(i, 3)
		found = append(found, Detection{Class: best - 4, Score: min(at(i, best), 1), Box: Box{X1: x - w/2, Y1: y - h/2, X2: x + w/2, Y2: y + h/2}})
	}
	return found, nil
}

// YOLOEnd2End reads the output of a YOLO model that has suppressed overlaps
// itself, [1,n,6]: x1, y1, x2, y2 in pixels of the input, probability, class.
func YOLOEnd2End(out []float32, shape []int64, threshold float64) ([]Detection, error) {
	n, width, err := rows(out, shape, true, 6)
	if err != nil {
		return nil, err
	}
	if width != 6 {
		return nil, fmt.Errorf("the model gives %d numbers a row, this layout has 6", width)
	}
	var found []Detection
	for i := range n {
		row := out[i*width : (i+1)*width]
		if float64(row[4]) < threshold || row[5] < 0 {
			continue
		}
		found = append(found, Detection{
			Class: int(row[5]), Score: min(float64(row[4]), 1),
			Box: Box{X1: float64(row[0]), Y1: float64(row[1]), X2: float64(row[2]), Y2: float64(row[3])},
		})
	}
	return found, nil
}

// rows checks an output of rank 3 and returns how many candidates it has and
// how many numbers each.
func rows(out []float32, shape []int64, transposed bool, least int) (n, width int, err error) {
	if len(shape) != 3 || shape[0] != 1 || shape[1] < 1 || shape[2] < 1 || shape[1]*shape[2] != int64(len(out)) {
		return 0, 0, fmt.Errorf("the model gives %v with %d numbers, expected [1,rows,columns]", shape, len(out))
	}
	n, width = int(shape[2]), int(shape[1])
	if transposed {
		n, width = width, n
	}
	if width < least {
		return 0, 0, fmt.Errorf("the model gives %v, a candidate needs at least %d numbers", shape, least)
	}
	return n, width, CheckNumbers(out)
}
