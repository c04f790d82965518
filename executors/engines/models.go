package engines

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/internal/nearest"
)

// Model returns the card of a model and the folder that holds its files, after
// checking that they are there with the right size (Verify compares checksums).
// A name that is not there is a NOT_FOUND that names the nearest ones.
func (l Layout) Model(name string) (Card, string, error) { return l.ModelFor(name, "TASK") }

// ModelFor is Model for somebody who wants the model for a task: how to add one
// is told with it.
func (l Layout) ModelFor(name, task string) (Card, string, error) {
	if !ValidName(name) {
		return Card{}, "", executors.Invalid("model", "must be 1 to 64 of a-z, 0-9, dot, dash and underscore, got %q", cut(name, 80))
	}
	dir := filepath.Join(l.ModelsDir, name)
	raw, err := readCard(filepath.Join(dir, CardFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Card{}, "", l.notFound(name, task)
	}
	if err != nil {
		return Card{}, "", fmt.Errorf("read the card of model %s: %w", name, err)
	}
	card, err := parseKnown(filepath.Join(dir, CardFile), raw)
	if err != nil {
		return Card{}, "", fmt.Errorf("card of model %s (%s): %w", name, filepath.Join(dir, CardFile), err)
	}
	if card.Name != name {
		return Card{}, "", fmt.Errorf("card of model %s (%s): name: is %q, it must be the name of the folder", name, filepath.Join(dir, CardFile), card.Name)
	}
	for _, f := range card.Files {
		info, err := os.Stat(filepath.Join(dir, f.Name))
		if err != nil {
			return Card{}, "", fmt.Errorf("file of model %s: %w (install or add the model again)", name, err)
		}
		if !info.Mode().IsRegular() || info.Size() != f.Size {
			return Card{}, "", fmt.Errorf("file %s of model %s has %d bytes, its card says %d (install or add the model again)", f.Name, name, info.Size(), f.Size)
		}
	}
	return card, dir, nil
}

// Models returns the names of all models that are there, whether their cards
// are right or not, in the order of the alphabet.
func (l Layout) Models() ([]string, error) {
	entries, err := os.ReadDir(l.ModelsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the models: %w", err)
	}
	var names []string
	for _, e := range entries {
		if ValidName(e.Name()) && isFile(filepath.Join(l.ModelsDir, e.Name(), CardFile)) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// notFound helps somebody who named a model that is not there.
func (l Layout) notFound(name, task string) error {
	names, err := l.Models()
	if err != nil {
		return err
	}
	e := executors.Errorf(executors.CodeNotFound, "there is no model %q in %s", name, l.ModelsDir)
	add := fmt.Sprintf("autobot-agent models add FILE --name %s --task %s", name, task)
	switch near := nearest.Names(name, names, 3); {
	case len(near) > 0:
		e.Hint = "did you mean " + strings.Join(near, " or ") + "? Or: " + add
	case len(names) > 0:
		e.Hint = "there are " + strings.Join(names[:min(len(names), 10)], ", ") + "; add it with: " + add
	default:
		e.Hint = "get the usual ones with: autobot-agent engines install all; or add it with: " + add
	}
	return e
}

// Verify compares the checksums of all files of a model with its card.
func (c Card) Verify(dir string) error {
	var problems []error
	for _, f := range c.Files {
		sum, size, err := HashFile(filepath.Join(dir, f.Name))
		switch {
		case err != nil:
			problems = append(problems, err)
		case size != f.Size || sum != f.SHA256:
			problems = append(problems, fmt.Errorf("file %s of model %s is not the one that its card describes (sha256 %.12s…, card %.12s…)", f.Name, c.Name, sum, f.SHA256))
		}
	}
	return errors.Join(problems...)
}

// HashFile returns the sha256 of a file in lower-case hexadecimal, and its size.
func HashFile(path string) (sum string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = f.Close() }() // only read
	h := sha256.New()
	size, err = io.Copy(h, f)
	if err != nil {
		return "", 0, fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), size, nil
}

// readCard reads at most what a card may hold, and a byte more.
func readCard(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	return io.ReadAll(io.LimitReader(f, maxCard+1))
}
