package engines

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// maxLabels bounds a file with labels, in bytes.
const maxLabels = 4 << 20

// ReadLabels returns the names of the classes of a model, by class number. A
// .txt file has one a line; a .json file is a list of texts, or an object with
// such a list as "target_labels_space" (as in Magika's configuration).
func (c Card) ReadLabels(dir string) ([]string, error) {
	if c.Labels == "" {
		return nil, fmt.Errorf("model %s has no labels", c.Name)
	}
	path := filepath.Join(dir, c.Labels)
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("labels of model %s: %w", c.Name, err)
	}
	if info.Size() > maxLabels {
		return nil, fmt.Errorf("labels of model %s: %s is longer than 4 MiB", c.Name, c.Labels)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("labels of model %s: %w", c.Name, err)
	}
	labels, err := ParseLabels(c.Labels, raw)
	if err != nil {
		return nil, fmt.Errorf("labels of model %s: %s: %w", c.Name, c.Labels, err)
	}
	return labels, nil
}

// ParseLabels reads the content of a file with labels. Its name decides between
// JSON and text.
func ParseLabels(name string, raw []byte) ([]string, error) {
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(raw) {
		return nil, errors.New("is not UTF-8")
	}
	var labels []string
	if strings.HasSuffix(strings.ToLower(name), ".json") {
		if err := json.Unmarshal(raw, &labels); err != nil {
			var object struct {
				Labels []string `json:"target_labels_space"`
			}
			if err := json.Unmarshal(raw, &object); err != nil {
				return nil, errors.New(`must be a list of texts, or an object with such a list as "target_labels_space"`)
			}
			labels = object.Labels
		}
	} else {
		for line := range strings.Lines(string(raw)) {
			labels = append(labels, strings.TrimRight(line, "\r\n"))
		}
		for len(labels) > 0 && labels[len(labels)-1] == "" {
			labels = labels[:len(labels)-1]
		}
	}
	if len(labels) == 0 {
		return nil, errors.New("has no labels")
	}
	return labels, nil
}
