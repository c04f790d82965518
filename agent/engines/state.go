package engines

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The values of Status.State.
const (
	Installed = "installed"
	Missing   = "missing"
	Other     = "other version" // a model or data of another version of the catalogue
	Damaged   = "damaged"
	ByHand    = "added by hand" // a model of that name that is not from the catalogue
)

// receiptFile is in every folder that was installed, and says what was.
const receiptFile = ".installed.json"

// Status is how an entry is on this machine.
type Status struct {
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"` // one sentence, where the state is not installed
}

// State looks at an entry without reading its files: it compares names and
// sizes (Verify reads them).
func (in *Installer) State(e Entry) Status {
	for _, s := range e.System {
		if !s.there() {
			return Status{Missing, fmt.Sprintf("%s is not on this machine, package %s brings it", s.Have, s.Package)}
		}
	}
	if len(e.Sources) == 0 {
		return Status{State: Installed}
	}
	dir := in.target(e)
	r, err := readReceipt(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(dir); err != nil {
			return Status{Missing, dir + " is not there"}
		}
		if e.Kind == KindModel {
			return Status{ByHand, fmt.Sprintf("%s was added by hand and is left alone", dir)}
		}
		return Status{Damaged, dir + " has no " + receiptFile}
	}
	if err != nil {
		return Status{Damaged, err.Error()}
	}
	if r.Version != e.Version {
		return Status{Other, fmt.Sprintf("version %s is installed", r.Version)}
	}
	if r.Digest != e.digest(in.arch()) {
		return Status{Other, "other files of the same version are installed"}
	}
	if err := r.quick(dir); err != nil {
		return Status{Damaged, err.Error()}
	}
	return Status{State: Installed}
}

// Present returns the entries of which something is installed here.
func (in *Installer) Present() (present []Entry) {
	for _, e := range in.Catalogue {
		if s := in.State(e); s.State != Missing && s.State != Other && s.State != ByHand {
			present = append(present, e)
		}
	}
	return present
}

// InstallLine is the command that installs an entry.
func (in *Installer) InstallLine(e Entry) string {
	name := e.Name
	if first, err := in.Catalogue.Find(e.Name); err != nil || first.Version != e.Version {
		name = e.ID()
	}
	return "autobot-agent engines install " + name
}

// there reports whether a package's file or command is on this machine.
func (s System) there() bool {
	if filepath.IsAbs(s.Have) {
		_, err := os.Stat(s.Have)
		return err == nil
	}
	_, err := exec.LookPath(s.Have)
	return err == nil
}

// digest changes with anything that would be installed differently.
func (e Entry) digest(arch string) string {
	sources, _ := e.sources(arch) // none: nothing can be installed
	raw, _ := json.Marshal([]any{sources, e.Card, e.Licence})
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// receipt is what was installed.
type receipt struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Digest  string `json:"digest"` // of the catalogue's entry
	Files   []Kept `json:"files"`
}

func (r receipt) write(dir string) error {
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, receiptFile), raw, 0o644) //nolint:gosec // the agent's user reads it, who may be another one
}

func (r receipt) size() (total int64) {
	for _, k := range r.Files {
		total += k.Size
	}
	return total
}

// quick compares the sizes of all files.
func (r receipt) quick(dir string) error {
	for _, k := range r.Files {
		info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(k.Name)))
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() || info.Size() != k.Size {
			return fmt.Errorf("%s has %d bytes, %d were installed", k.Name, info.Size(), k.Size)
		}
	}
	return nil
}

func readReceipt(dir string) (receipt, error) {
	raw, err := os.ReadFile(filepath.Join(dir, receiptFile))
	if err != nil {
		return receipt{}, err
	}
	var r receipt
	if err := json.Unmarshal(raw, &r); err != nil {
		return receipt{}, fmt.Errorf("%s cannot be read: %w", receiptFile, err)
	}
	for _, k := range r.Files {
		if !inside(k.Name) {
			return receipt{}, fmt.Errorf("%s names %q, which leaves the folder", receiptFile, k.Name)
		}
	}
	return r, nil
}

// Verify reads every file of an installed entry and compares it with the
// catalogue. Files that do not belong there are reported too.
func (in *Installer) Verify(e Entry) error {
	if s := in.State(e); s.State != Installed {
		return fmt.Errorf("%s: %s", s.State, s.Reason)
	}
	sources, err := e.sources(in.arch())
	if err != nil || len(sources) == 0 {
		return err
	}
	dir := in.target(e)
	files, err := hashTree(dir)
	if err != nil {
		return err
	}
	var problems []error
	for _, s := range sources {
		for _, f := range s.Files {
			if got := files[f.To]; got.SHA256 != f.SHA256 {
				problems = append(problems, fmt.Errorf("%s is not the file that was installed (sha256 %.12s…, pinned %.12s…)", f.To, got.SHA256, f.SHA256))
			}
			delete(files, f.To)
		}
		for _, t := range s.Trees {
			var tree []Kept
			for name, k := range files {
				if rel, ok := strings.CutPrefix(name, t.To); ok {
					k.Name = rel
					tree = append(tree, k)
					delete(files, name)
				}
			}
			if sum := treeSum(tree); sum != t.SHA256 {
				problems = append(problems, fmt.Errorf("%s is not the folder that was installed (%d files, %d pinned, sha256 %.12s…, pinned %.12s…)", t.To, len(tree), t.Count, sum, t.SHA256))
			}
		}
	}
	if e.Kind == KindModel {
		if err := in.verifyCard(e, dir); err != nil {
			problems = append(problems, err)
		}
	}
	for name := range files {
		problems = append(problems, fmt.Errorf("%s does not belong there", name))
	}
	return errors.Join(problems...)
}

// verifyCard compares a card with what the installer writes.
func (in *Installer) verifyCard(e Entry, dir string) error {
	c, err := e.card()
	if err != nil {
		return err
	}
	want, err := c.Encode()
	if err != nil {
		return err
	}
	got, err := os.ReadFile(filepath.Join(dir, "model.json"))
	if err == nil && string(got) != string(want) {
		err = errors.New("model.json is not the card that was installed")
	}
	return err
}
