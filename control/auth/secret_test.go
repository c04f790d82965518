package auth

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestLoadOrCreateSecretMakesOneSecret(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state", "jwt.secret")
	var wg sync.WaitGroup
	got := make([][]byte, 8)
	for i := range got {
		wg.Go(func() {
			secret, err := LoadOrCreateSecret(path)
			if err != nil {
				t.Error(err)
			}
			got[i] = secret
		})
	}
	wg.Wait()
	for _, s := range got {
		if len(s) < MinSecret || !bytes.Equal(s, got[0]) {
			t.Fatalf("processes disagree: %q and %q", s, got[0])
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestLoadSecretRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", MinSecret)
	for _, tt := range []struct {
		name, content string
		mode          os.FileMode
		want          string // part of the error; empty means accepted
	}{
		{"a good one", long + "\n", 0o600, ""},
		{"one a group may read", long, 0o640, ""},
		{"one everyone may read", long, 0o644, "chmod 600"},
		{"one a group may write", long, 0o660, "chmod 600"},
		{"a short one", "secret\n", 0o600, "at least 32"},
		{"white space", strings.Repeat(" \n", 40), 0o600, "has 0 bytes"},
		{"a huge one", strings.Repeat("k", maxSecret+1), 0o600, "larger than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "secret")
			if err := os.WriteFile(path, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, tt.mode); err != nil {
				t.Fatal(err)
			}
			secret, err := LoadOrCreateSecret(path)
			switch {
			case tt.want == "" && (err != nil || string(secret) != long):
				t.Errorf("got %q, %v", secret, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want %q", err, tt.want)
			case err != nil && strings.Contains(err.Error(), "kkkk"):
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
	if _, err := LoadSecret(t.TempDir()); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("a folder: %v", err)
	}
}
