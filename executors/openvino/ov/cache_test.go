package ov

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/autobot-fleet/autobot/executors/openvino/onnxtest"
)

func TestTheCacheIsUsedAndNeverStale(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "cache")
	r := openReal(t, WithCacheDir(cache))
	dir := t.TempDir()
	path := onnxtest.AddOne(4).Write(t, dir)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, true} {
		c := compile(t, r, path, "CPU", CompileOptions{})
		if c.FromCache() != want {
			t.Errorf("load %d from the cache: %v", i, c.FromCache())
		}
		c.Close()
	}
	if info, err := os.Stat(cache); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("cache folder %v, %v", info.Mode(), err)
	}
	if c := compile(t, r, path, "CPU", CompileOptions{NoCache: true}); c.FromCache() {
		t.Error("the cache was used against the option")
	}
	// Another model of the same name, size and time.
	m := onnxtest.New("add-one")
	m.Input("x", onnxtest.Float, 4)
	m.Output("y", onnxtest.Float, 4)
	m.Floats("one", []int64{1}, 9)
	m.Node("Add", []string{"x", "one"}, []string{"y"})
	m.Write(t, dir)
	if err := os.Chtimes(path, before.ModTime(), before.ModTime()); err != nil {
		t.Fatal(err)
	}
	c := compile(t, r, path, "CPU", CompileOptions{})
	if got := data[float32](t, infer(t, request(t, c), tensor(t, make([]float32, 4), 4))); got[0] != 9 {
		t.Errorf("the changed model gives %v", got)
	}
	// A damaged entry is made again.
	blobs, err := filepath.Glob(filepath.Join(cache, "*", "*", "*.blob"))
	if err != nil || len(blobs) != 2 {
		t.Fatalf("entries %v, %v", blobs, err)
	}
	for _, b := range blobs {
		replace(t, b, []byte("junk"))
	}
	c = compile(t, r, path, "CPU", CompileOptions{})
	if c.FromCache() {
		t.Error("a damaged entry was taken")
	}
	if got := data[float32](t, infer(t, request(t, c), tensor(t, make([]float32, 4), 4))); got[0] != 9 {
		t.Errorf("after the damage: %v", got)
	}
	reshaped := CompileOptions{CacheKey: "abc", Reshape: map[string][]int64{"x": {4}}}
	compile(t, r, path, "CPU", reshaped).Close()
	if c := compile(t, r, path, "CPU", reshaped); !c.FromCache() {
		t.Error("a reshaped model is not kept")
	}
	if err := os.Chmod(cache, 0o777); err != nil {
		t.Fatal(err)
	}
	_, err = r.Compile(t.Context(), path, "CPU", CompileOptions{})
	wantError(t, err, nil, "written by others", "chmod go-w")
}

// replace puts a new file in the place of an old one that may be mapped.
func replace(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestBlobsAreExportedAndImported(t *testing.T) {
	r := openReal(t)
	c := compile(t, r, onnxtest.Slow(512, 2).Write(t, t.TempDir()), "CPU", CompileOptions{})
	blob := filepath.Join(t.TempDir(), "model.blob")
	if err := c.Export(blob); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(blob); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("blob %v, %v", info.Mode(), err)
	}
	x := tensor(t, make([]float32, 512*512), 512, 512)
	for i := range data[float32](t, x) {
		data[float32](t, x)[i] = float32(i%11) / 11
	}
	want := data[float32](t, infer(t, request(t, c), x))
	c.Close()
	in, err := r.Import(t.Context(), blob, "CPU")
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(in.Inputs(), in.Outputs()) != fmt.Sprint(c.Inputs(), c.Outputs()) || in.Device() != "CPU" {
		t.Errorf("imported %v %v on %s", in.Inputs(), in.Outputs(), in.Device())
	}
	if p, err := in.Property("INFERENCE_PRECISION_HINT"); err != nil || p != "f32" {
		t.Errorf("imported for %q, %v", p, err)
	}
	if err := os.Remove(blob); err != nil {
		t.Fatal(err)
	}
	if got := data[float32](t, infer(t, request(t, in), x)); !slices.Equal(got, want) {
		t.Error("the imported model gives other numbers")
	}
	wantError(t, in.Export(filepath.Join(t.TempDir(), "no", "such", "folder")), fs.ErrNotExist)
	in.Close()

	for name, content := range map[string][]byte{"empty": nil, "junk": []byte("junk"), "zeros": make([]byte, 4096)} {
		if _, err := r.Import(t.Context(), write(t, "b", content), "CPU"); err == nil {
			t.Errorf("%s blob was imported", name)
		}
	}
	_, err = r.Import(t.Context(), blob, "CPU")
	wantError(t, err, fs.ErrNotExist)
}

func TestTruncatedBlobsAreErrors(t *testing.T) {
	r := openReal(t)
	c := compile(t, r, onnxtest.AddOne(4).Write(t, t.TempDir()), "CPU", CompileOptions{})
	blob := filepath.Join(t.TempDir(), "model.blob")
	if err := c.Export(blob); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(blob)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []int{1, 10, 50, 90} {
		if c, err := r.Import(t.Context(), write(t, "b", content[:len(content)*part/100]), "CPU"); err == nil {
			c.Close()
			t.Errorf("%d %% of a blob was imported", part)
		}
	}
}
