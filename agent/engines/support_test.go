package engines

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// item is one member of an archive that a test makes.
type item struct {
	name, content string
	link          string // makes it a symbolic link
	executable    bool
}

// wheel returns a zip archive.
func wheel(t testing.TB, items ...item) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, i := range items {
		h := &zip.FileHeader{Name: i.name, Method: zip.Deflate}
		content := i.content
		switch {
		case i.link != "":
			h.SetMode(os.ModeSymlink | 0o777)
			content = i.link
		case i.executable:
			h.SetMode(0o755)
		default:
			h.SetMode(0o644)
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// tarball returns a gzipped tar archive.
func tarball(t testing.TB, items ...item) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	w := tar.NewWriter(z)
	for _, i := range items {
		h := &tar.Header{Name: i.name, Mode: 0o644, Size: int64(len(i.content)), Typeflag: tar.TypeReg}
		if i.executable {
			h.Mode = 0o755
		}
		if i.link != "" {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, i.link, 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if i.link == "" {
			if _, err := w.Write([]byte(i.content)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func sum(content string) string {
	s := sha256.Sum256([]byte(content))
	return hex.EncodeToString(s[:])
}

// keep is a file of a source with the right checksum.
func keep(from, to, content string) File {
	return File{From: from, To: to, Size: int64(len(content)), SHA256: sum(content)}
}

// keepTree is a tree of a source with the right checksum; names are inside.
func keepTree(from, to string, items ...item) Tree {
	tree := Tree{From: from, To: to, Count: len(items)}
	var kept []Kept
	for _, i := range items {
		tree.Size += int64(len(i.content))
		kept = append(kept, Kept{i.name, int64(len(i.content)), sum(i.content)})
	}
	tree.SHA256 = treeSum(kept)
	return tree
}

// source pins an archive.
func source(name string, raw []byte, files []File, trees ...Tree) Source {
	from := FromNpm
	if strings.HasSuffix(name, ".whl") {
		from = FromPip
	}
	return Source{From: from, Package: "pkg", Version: "1.0", Platform: "any", Archive: name, Size: int64(len(raw)), SHA256: sum(string(raw)), Files: files, Trees: trees}
}

// rig is an installer of a small catalogue with an offline folder.
type rig struct {
	*Installer
	from string

	mu   sync.Mutex
	said []string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir := t.TempDir()
	r := &rig{from: filepath.Join(dir, "offline")}
	if err := os.Mkdir(r.from, 0o755); err != nil {
		t.Fatal(err)
	}
	r.Installer = &Installer{
		Layout: engines.At(filepath.Join(dir, "autobot", "engines")), Downloads: filepath.Join(dir, "downloads"), From: r.from,
		Say: func(s string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.said = append(r.said, s)
		},
	}
	return r
}

// offer puts an archive into the offline folder.
func (r *rig) offer(t *testing.T, name string, raw []byte) {
	t.Helper()
	write(t, filepath.Join(r.from, name), string(raw))
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// install plans and installs.
func (r *rig) install(t *testing.T, names ...string) error {
	t.Helper()
	p, err := r.Plan(t.Context(), names)
	if err != nil {
		return err
	}
	return r.Install(t.Context(), p)
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// leftovers are unfinished folders anywhere below the layout.
func (r *rig) leftovers(t *testing.T) (left []string) {
	t.Helper()
	root := filepath.Dir(r.Layout.EnginesDir)
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), unfinished) {
			left = append(left, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// library is a small engine with a library, a licence and a program.
func library(t *testing.T, r *rig, version, content string) Entry {
	t.Helper()
	raw := wheel(t, item{name: "lib/libx.so", content: content}, item{name: "LICENSE", content: "free"}, item{name: "bin/x", content: "#!/bin/sh\n"}, item{name: "other", content: "not kept"})
	name := "x-" + version + ".whl"
	r.offer(t, name, raw)
	program := keep("bin/x", "bin/x", "#!/bin/sh\n")
	program.Executable = true
	return Entry{
		Name: "libx", Version: version, Kind: KindEngine, About: "a library", Licence: "MIT", Free: true, All: true,
		Sources: []Source{source(name, raw, []File{keep("lib/libx.so", "libx.so", content), keep("LICENSE", "licences/LICENSE", "free"), program})},
	}
}

// network is a small model.
func network(t *testing.T, r *rig, version, content string) Entry {
	t.Helper()
	raw := tarball(t, item{name: "package/net.onnx", content: content}, item{name: "package/LICENSE", content: "free"})
	name := "net-" + version + ".tgz"
	r.offer(t, name, raw)
	return Entry{
		Name: "net", Version: version, Kind: KindModel, About: "a model", Licence: "MIT", Free: true, All: true,
		Sources: []Source{source(name, raw, []File{keep("package/net.onnx", "model.onnx", content), keep("package/LICENSE", "licences/LICENSE", "free")})},
		Card:    map[string]any{"format": "onnx", "task": "infer", "model": "model.onnx"},
	}
}

func containsText(all []string, part string) bool {
	return slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, part) })
}
