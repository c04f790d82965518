package ov

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// CacheFolder is the folder in which Compile would keep the model at path for a
// device, made if it is missing, or "" if it would keep nothing. It holds
// nothing else.
func (r *Runtime) CacheFolder(path, device string, opts CompileOptions) (string, error) {
	if err := r.enter(); err != nil {
		return "", err
	}
	defer r.gate.leave()
	return r.cacheFolder(path, device, opts)
}

// cacheFolder is the folder for the compiled forms of one model, "" for none:
// cache dir / release [and NPU driver] / content of the model. The library
// itself goes by path, time and size of the model and does not notice damage
// in its own files, so the folder must be ours alone.
func (r *Runtime) cacheFolder(path, device string, opts CompileOptions) (string, error) {
	root := opts.CacheDir
	if root == "" {
		root = r.cacheDir
	}
	if root == "" || opts.NoCache {
		return "", nil
	}
	key := opts.CacheKey
	if key == "" {
		var err error
		if key, err = hashModel(path); err != nil {
			return "", err
		}
	}
	release := r.version.String()
	if kind(device) == "NPU" {
		// A blob of the NPU is code of its driver's compiler.
		if driver, err := r.property("NPU", "NPU_DRIVER_VERSION"); err == nil {
			release += "-npu-" + strings.Map(fileRune, driver)
		}
	}
	dir, err := filepath.Abs(filepath.Join(root, release, key))
	if err != nil {
		return "", fmt.Errorf("model cache: %w", err)
	}
	if err := checkText("cache folder", dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("model cache: %w", err)
	}
	for _, d := range []string{dir, root} {
		info, err := os.Stat(d)
		if err != nil {
			return "", fmt.Errorf("model cache: %w", err)
		}
		if info.Mode().Perm()&0o022 != 0 {
			return "", fmt.Errorf("model cache %s can be written by others, and what is in it is executed (chmod go-w %s)", d, d)
		}
	}
	return dir, nil
}

// fileRune keeps what is harmless in a file's name.
func fileRune(c rune) rune {
	if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_' {
		return c
	}
	return '_'
}

// hashModel is the sha256 of a model file, and of the weights that lie beside
// an IR model (model.xml has model.bin).
func hashModel(path string) (string, error) {
	h := sha256.New()
	if err := hashFile(h, path); err != nil {
		return "", fmt.Errorf("read model: %w", err)
	}
	if base, isIR := strings.CutSuffix(path, ".xml"); isIR {
		if err := hashFile(h, base+".bin"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("read the weights of the model: %w", err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func hashFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	_, err = io.Copy(w, f)
	return err
}
