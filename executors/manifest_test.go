package executors

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"
)

func TestManifestsSayWhatTheFileIs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), BinaryPrefix+"odd")
	if err := os.WriteFile(path, []byte("abc"), 0o700); err != nil {
		t.Fatal(err)
	}
	m, err := NewManifest(path)
	if err != nil {
		t.Fatal(err)
	}
	m.Version, m.Types = "1.2", []string{"odd"}
	want := Manifest{
		Name: "odd", Version: "1.2", OS: runtime.GOOS, Arch: runtime.GOARCH, Protocols: []int{ProtocolVersion}, Types: []string{"odd"},
		SHA256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
	}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("got %+v, want %+v", m, want)
	}
	if err := m.Write(path); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var read Manifest
	if err := json.Unmarshal(raw, &read); err != nil || !reflect.DeepEqual(read, want) {
		t.Errorf("read back %+v, %v", read, err)
	}
	if _, err := NewManifest(path + ".none"); err == nil {
		t.Error("a file that is not there has a manifest")
	}
}
