package ovtest

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// The source lies in a folder of its own: Go refuses C files beside Go files
// that do not use cgo.
//
//go:embed clib/double.c
var doubleSource []byte

// patience bounds every wait for the double.
const patience = 60 * time.Second

// DoubleOptions say what the double is.
type DoubleOptions struct {
	// Build is the version string it gives. Default 2026.4.1.
	Build string
	// OldTypes gives element types the numbers of the releases until 2025. A
	// library that tells one age and has the numbers of the other is a liar.
	OldTypes bool
	// NPU gives the double an NPU of driver version 1688.
	NPU bool
	// Without names a C function that is left out.
	Without string
}

// Double is a built double. Its Dir takes the place of the runtime's folder.
//
// Its models are text files, see WriteModel: each output element is the first
// input's element plus one, repeated where the output is longer. Flags change
// what it does while they are set:
//
//	lost            compiling and inferring fail: the device is gone
//	lose-once       one inference fails, and the flag is cleared
//	hold-compile    compiling waits, and logs "compiling"; hold-compile-NPU: only for the NPU
//	full-cache      compiling with a cache folder fails
//	stray           compiled models run on the CPU, whatever was asked for
//	npu-wrong       every other number that the NPU computes has the wrong sign
//	hold-infer      an inference runs until it is cancelled, and logs "inferring"
//	no-cpu          the CPU plug-in cannot be loaded
//	lie-about-size  output tensors claim four bytes too many
type Double struct {
	Dir string
}

// NewDouble builds a double with gcc.
func NewDouble(t testing.TB, o DoubleOptions) *Double {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Fatal("gcc is needed to build the double of the OpenVINO library: run scripts/setup")
	}
	var args []string
	if o.Build != "" {
		args = append(args, fmt.Sprintf("-DBUILD=%q", o.Build))
	}
	if o.OldTypes {
		args = append(args, "-DSHIFT=1")
	}
	if o.NPU {
		args = append(args, "-DNPU=1")
	}
	if o.Without != "" {
		args = append(args, fmt.Sprintf("-D%s=left_out", o.Without))
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "libopenvino_c.so.2641"), build(t, args), 0o600); err != nil {
		t.Fatal(err)
	}
	return &Double{Dir: dir}
}

// built keeps what was built in this process, by arguments.
var built sync.Map

func build(t testing.TB, args []string) []byte {
	t.Helper()
	key := strings.Join(args, " ")
	if library, ok := built.Load(key); ok {
		return library.([]byte)
	}
	out := filepath.Join(t.TempDir(), "double.so")
	gcc := exec.Command("gcc", append([]string{"-shared", "-fPIC", "-O1", "-pthread", "-x", "c", "-o", out, "-"}, args...)...)
	gcc.Stdin = bytes.NewReader(doubleSource)
	if text, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("build the double of the OpenVINO library: %v\n%s", err, text)
	}
	library, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	built.Store(key, library)
	return library
}

// WriteModel writes a model of lines such as "in x f32 1,4" and "out y f32
// ?,4" and returns its path. A ? is an open dimension, taken from the first
// input in outputs.
func (d *Double) WriteModel(t testing.TB, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.txt")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Set sets a flag.
func (d *Double) Set(t testing.TB, flag string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(d.Dir, flag), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Clear clears a flag.
func (d *Double) Clear(t testing.TB, flag string) {
	t.Helper()
	if err := os.Remove(filepath.Join(d.Dir, flag)); err != nil {
		t.Fatal(err)
	}
}

// Log is what the double wrote down: properties that were set, calls that were
// held, what was left when its core was freed.
func (d *Double) Log(t testing.TB) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(d.Dir, "log"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// Await waits until line was logged n times.
func (d *Double) Await(t testing.TB, line string, n int) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		seen := 0
		for _, l := range d.Log(t) {
			if l == line {
				seen++
			}
		}
		if seen >= n {
			return
		}
	}
	t.Fatalf("the double did not log %q %d times: %q", line, n, d.Log(t))
}
