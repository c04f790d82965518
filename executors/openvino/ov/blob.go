package ov

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Export writes the compiled model to a file that Import reads with the same
// release and device. The file appears when it is complete, readable by the
// user of this process only.
func (c *Compiled) Export(path string) error {
	if err := checkText("path of the blob", path); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	err := c.use(context.Background(), func(l *loaded) error {
		f, err := os.CreateTemp(filepath.Dir(path), ".blob-*")
		if err != nil {
			return err
		}
		temp := f.Name()
		if err := f.Close(); err != nil {
			return errors.Join(err, os.Remove(temp))
		}
		if st := l.api.compiledExport(l.handle, temp); st != statusOK {
			return errors.Join(l.api.failure("export model", st), os.Remove(temp))
		}
		if err := os.Rename(temp, path); err != nil {
			return errors.Join(err, os.Remove(temp))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("export the compiled model to %s: %w", path, err)
	}
	return nil
}

// Import loads what Export wrote. There is no checksum in a blob: take it only
// from where nobody else can write. The file stays mapped until the model is
// closed.
func (r *Runtime) Import(ctx context.Context, path, device string) (*Compiled, error) {
	if err := checkModelFile(path); err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	c, err := r.load(ctx, device, func() (*loaded, error) {
		if err := r.checkDevice(device); err != nil {
			return nil, err
		}
		return r.importBlob(path, device)
	})
	if err != nil {
		return nil, fmt.Errorf("import %s for %s: %w", path, device, err)
	}
	return c, nil
}

// importBlob maps the file, because the library goes on reading from the
// memory it is given for as long as the model lives.
func (r *Runtime) importBlob(path, device string) (*loaded, error) {
	blob, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	var handle compiledHandle
	content := unsafe.SliceData(blob) //nolint:gosec // read by C, as many bytes as it has
	if st := r.api.coreImport(r.core.handle, content, uintptr(len(blob)), device, &handle); st != statusOK {
		unmap(blob)
		return nil, r.api.failure("import model", st)
	}
	return r.describe(handle, blob)
}

func mapFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read; the mapping stays
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() == 0 {
		return nil, errors.New("the file is empty")
	}
	blob, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map into memory: %w", err)
	}
	return blob, nil
}

// unmap gives the memory of a blob back.
func unmap(blob []byte) {
	if blob != nil {
		_ = unix.Munmap(blob) // fails for a wrong address only
	}
}
