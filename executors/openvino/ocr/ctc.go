package ocr

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"
)

// maxKeys bounds a file with characters, in bytes.
const maxKeys = 4 << 20

// Keys are the characters of a recogniser by class: class 0 is the blank, the
// last one the space.
type Keys []string

// LoadKeys reads the characters, one a line.
func LoadKeys(path string) (Keys, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open the characters: %w", err)
	}
	if info.Size() > maxKeys {
		return nil, fmt.Errorf("%s is longer than %d bytes", path, maxKeys)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the characters: %w", err)
	}
	return ParseKeys(raw)
}

// ParseKeys reads the content of a file with characters.
func ParseKeys(raw []byte) (Keys, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("the characters are not UTF-8")
	}
	keys := Keys{""}
	for line := range strings.Lines(string(raw)) {
		keys = append(keys, strings.TrimRight(line, "\r\n"))
	}
	if len(keys) < 2 {
		return nil, errors.New("there are no characters")
	}
	return append(keys, " "), nil
}

// Decode turns the recogniser's output, probabilities of the classes for each
// step, into text: the best class of each step, repeats once, blanks left out.
// confidence is the mean probability of the characters, 0 to 1.
func (k Keys) Decode(probabilities []float32, steps, classes int) (text string, confidence float64, err error) {
	if steps < 1 || classes != len(k) || len(probabilities) != steps*classes {
		return "", 0, fmt.Errorf("the recogniser gives %d numbers for %d steps and %d classes, there are %d characters", len(probabilities), steps, classes, len(k))
	}
	var b strings.Builder
	before, n, sum := 0, 0, 0.0
	for s := range steps {
		row := probabilities[s*classes : (s+1)*classes]
		best := 0
		for c, p := range row {
			if p > row[best] {
				best = c
			}
		}
		if best != 0 && best != before {
			b.WriteString(k[best])
			sum += float64(row[best])
			n++
		}
		before = best
	}
	if n == 0 {
		return "", 0, nil
	}
	return strings.TrimSpace(b.String()), sum / float64(n), nil
}
