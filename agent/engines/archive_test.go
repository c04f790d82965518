package engines

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOnlyWhatIsPinnedIsUnpacked(t *testing.T) {
	t.Parallel()
	good := item{name: "lib/a.so", content: "library"}
	tree := []item{{name: "package/x.js", content: "x"}, {name: "package/sub/y", content: "yy", executable: true}}
	inTree := keepTree("package/", "package/", item{name: "x.js", content: "x"}, item{name: "sub/y", content: "yy"})
	file := []File{keep("lib/a.so", "a.so", "library")}
	for _, tt := range []struct {
		name  string
		items []item
		files []File
		trees []Tree
		want  string
	}{
		{"a file", []item{good, {name: "else", content: "else"}}, file, nil, ""},
		{"a tree", tree, nil, []Tree{inTree}, ""},
		{"other content", []item{{name: "lib/a.so", content: "LIBRARY"}}, file, nil, "is not the file that the catalogue pins"},
		{"a file that is longer", []item{{name: "lib/a.so", content: "library and more"}}, []File{keep("lib/a.so", "a.so", "lib")}, nil, ""},
		{"a file that is shorter", []item{{name: "lib/a.so", content: "lib"}}, file, nil, "is not the file that the catalogue pins"},
		{"a file that is missing", []item{{name: "b", content: "b"}}, file, nil, "lib/a.so is not in it"},
		{"a file that is a link", []item{{name: "lib/a.so", link: "/etc/passwd"}}, file, nil, "lib/a.so is not in it"},
		{"a file twice", []item{good, good}, file, nil, "twice"},
		{"a tree with one more", append(tree[:2:2], item{name: "package/z", content: "z"}), nil, []Tree{inTree}, "has more than the 2 files"},
		{"a tree with one less", tree[:1], nil, []Tree{inTree}, "is not the folder that the catalogue pins"},
		{"a tree with a bomb", []item{{name: "package/x.js", content: strings.Repeat("0", 1<<20)}}, nil, []Tree{inTree}, "more than the 3 bytes"},
		{"a tree that leaves its folder", []item{{name: "package/../../evil", content: "x"}}, nil, []Tree{inTree}, "leaves its folder"},
		{"a tree with an absolute path", []item{{name: "package//etc/evil", content: "x"}}, nil, []Tree{inTree}, "leaves its folder"},
		{"a tree with a link", append(tree[:1:1], item{name: "package/sub/y", link: "/etc"}), nil, []Tree{inTree}, "is not the folder"},
	} {
		for ending, make := range map[string]func(testing.TB, ...item) []byte{".whl": wheel, ".tgz": tarball} {
			t.Run(tt.name+ending, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				path := filepath.Join(dir, "a"+ending)
				write(t, path, string(make(t, tt.items...)))
				out := filepath.Join(dir, "out")
				if err := os.Mkdir(out, 0o755); err != nil {
					t.Fatal(err)
				}
				_, err := unpack(path, Source{Archive: "a" + ending, Files: tt.files, Trees: tt.trees}, out)
				wantError(t, err, tt.want)
				if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
					t.Errorf("something was written beside the folder: %v, %v", entries, err)
				}
			})
		}
	}
}

func TestPartsOfAFileAreCutOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.tgz"), string(tarball(t, item{name: "packed", content: "labelsWEIGHTSrest"})))
	second := keep("packed", "model", "WEIGHTS")
	second.Offset = 6
	kept, err := unpack(filepath.Join(dir, "a.tgz"), Source{Archive: "a.tgz", Files: []File{second, keep("packed", "labels", "labels")}}, dir)
	if err != nil || len(kept) != 2 || read(t, filepath.Join(dir, "model")) != "WEIGHTS" || read(t, filepath.Join(dir, "labels")) != "labels" {
		t.Errorf("got %v, %v", kept, err)
	}
	second.Offset = 100
	_, err = unpack(filepath.Join(dir, "a.tgz"), Source{Archive: "a.tgz", Files: []File{second}}, t.TempDir())
	wantError(t, err, "ends before byte 100")
}

func TestModesAreSafe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.tgz"), string(tarball(t, item{name: "t/x", content: "x", executable: true}, item{name: "t/y", content: "y"})))
	if _, err := unpack(filepath.Join(dir, "a.tgz"), Source{Archive: "a.tgz", Trees: []Tree{keepTree("t/", "t/", item{name: "x", content: "x"}, item{name: "y", content: "y"})}}, dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"t/x": 0o755, "t/y": 0o644} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// fuzzed unpacks anything: nothing may be written outside, and what is reported
// as kept is what was wanted.
func fuzzed(t *testing.T, raw []byte, ending string) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a"+ending)
	write(t, path, string(raw))
	out := filepath.Join(dir, "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	src := Source{
		Archive: "a" + ending, Files: []File{keep("lib/a.so", "a.so", "library")},
		Trees: []Tree{keepTree("package/", "package/", item{name: "x.js", content: "x"})},
	}
	kept, err := unpack(path, src, out)
	if err == nil && (len(kept) != 2 || read(t, filepath.Join(out, "a.so")) != "library" || read(t, filepath.Join(out, "package/x.js")) != "x") {
		t.Errorf("no error, and kept is %v", kept)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("something was written beside the folder: %v, %v", entries, err)
	}
}

var seeds = [][]item{
	{{name: "lib/a.so", content: "library"}, {name: "package/x.js", content: "x"}},
	{{name: "../a.so", content: "library"}, {name: "package/../../x", content: "x"}},
	{{name: "lib/a.so", link: "../../x"}, {name: "package/x.js", link: "/etc"}},
}

func FuzzWheel(f *testing.F) {
	for _, s := range seeds {
		f.Add(wheel(f, s...))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { fuzzed(t, raw, ".whl") })
}

func FuzzTarball(f *testing.F) {
	for _, s := range seeds {
		f.Add(tarball(f, s...))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { fuzzed(t, raw, ".tgz") })
}
