package openvino

import (
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
)

// fresh returns an executor of its own on the installed runtime and models.
// Only in a process of its own.
func fresh(t *testing.T, cacheDir string) *Executor {
	t.Helper()
	s := DefaultSettings()
	s.InputRoots = executors.InputRoots{engines.Locate().DataDir}
	e, err := NewAt(s, engines.Locate(), cacheDir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.open(); err != nil {
		t.Fatalf("%v (scripts/setup installs what the tests need)", err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

type loadedOutput struct {
	FromCache bool `json:"from_cache"`
}

// load loads the model of texts and unloads it again.
func load(t *testing.T, e *Executor) (bool, ran) {
	t.Helper()
	var out loadedOutput
	r := do(t, e, "openvino", obj{"op": "load_model", "model": "all-minilm-l6-v2", "device": "CPU"}, &out)
	var v embedOutput
	do(t, e, "embedding", obj{"text": "Hello world."}, &v)
	if c := cosine(v.Embeddings[0], references(t)[0].Vector); c < 0.9999 {
		t.Errorf("cosine %g", c)
	}
	do(t, e, "openvino", obj{"op": "unload_model", "model": "all-minilm-l6-v2"}, nil)
	e.vectors = newVectors(10, time.Hour)
	return out.FromCache, r
}

func TestADamagedCacheIsCompiledAgain(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	dir := filepath.Join(t.TempDir(), "compiled")
	e := fresh(t, dir)
	if cached, r := load(t, e); cached || len(r.warned("CACHE_DAMAGED")) > 0 {
		t.Errorf("from an empty cache: %v, %v", cached, r.result.Warnings)
	}
	if cached, r := load(t, e); !cached || r.warned("CACHE_DAMAGED")+r.warned("CACHE_UNUSABLE") != "" {
		t.Errorf("the second time: %v, %v", cached, r.result.Warnings)
	}
	blobs, err := filepath.Glob(filepath.Join(dir, "*", "*", "*.blob"))
	if err != nil || len(blobs) != 1 {
		t.Fatalf("%v %v", blobs, err)
	}
	whole := readFile(t, blobs[0])
	sums := filepath.Join(filepath.Dir(blobs[0]), sumsFile)
	for name, damage := range map[string]func() error{
		"a flipped bit in the weights": func() error {
			bad := append([]byte{}, whole...)
			bad[len(bad)/2] ^= 4
			return os.WriteFile(blobs[0], bad, 0o600)
		},
		"cut off":          func() error { return os.Truncate(blobs[0], int64(len(whole)/3)) },
		"damaged sums":     func() error { return os.WriteFile(sums, []byte("{"), 0o600) },
		"sums of a parent": func() error { return os.WriteFile(sums, []byte(`{"../x": 1}`), 0o600) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if cached, r := load(t, e); cached || !strings.Contains(r.warned("CACHE_DAMAGED"), "was compiled again") {
			t.Errorf("%s: from cache %v, warnings %v", name, cached, r.result.Warnings)
		}
		if cached, r := load(t, e); !cached || r.warned("CACHE_DAMAGED") != "" {
			t.Errorf("after %s: from cache %v, warnings %v", name, cached, r.result.Warnings)
		}
	}
}

// A limit on the size of files stands for a full disk.
func TestAFullDiskOfTheCacheCostsTime(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	signal.Ignore(syscall.SIGXFSZ)
	limit := syscall.Rlimit{Cur: 64 << 10, Max: 64 << 10}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	e := fresh(t, filepath.Join(t.TempDir(), "compiled"))
	for range 2 {
		cached, r := load(t, e)
		if w := r.warned("CACHE_UNUSABLE"); cached || !strings.Contains(w, "file too large") {
			t.Errorf("from a cache that cannot be: %v, %v", cached, r.result.Warnings)
		}
	}
}

func TestTheCacheKeepsWhatWasUsedLast(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := newCache(dir, 25)
	folder := func(name string, age time.Duration) string {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "x.blob"), make([]byte, 10), 0o600); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-age)
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
		return path
	}
	old, older := folder("2026/a", time.Hour), folder("2025/b", 2*time.Hour)
	busy, last := folder("2026/c", 3*time.Hour), folder("2026/d", time.Minute)
	c.busy[busy] = 1
	c.mu.Lock()
	c.prune()
	c.mu.Unlock()
	for path, want := range map[string]bool{old: false, older: false, busy: true, last: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: kept %v, want %v", path, err == nil, want)
		}
	}
	if _, err := os.Stat(filepath.Dir(older)); err == nil {
		t.Error("the empty folder of a release is left")
	}
}
