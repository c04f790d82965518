package configfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

const maxSecretBytes = 64 << 10

// ReadSecretFile returns the secret that a file holds, without the line break
// at its end. warning is a sentence, or empty, about a file that everybody may
// read. The error names the file and never its content; an empty file is one.
func ReadSecretFile(path string) (secret, warning string, err error) {
	text, info, err := readLimited(path, maxSecretBytes)
	if err != nil {
		return "", "", fmt.Errorf("read the secret in %s: %w", path, explainRead(err))
	}
	secret = strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return "", "", fmt.Errorf("read the secret in %s: the file is empty", path)
	}
	if strings.ContainsAny(secret, "\r\n\x00") {
		return "", "", fmt.Errorf("read the secret in %s: the file must hold one line", path)
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 {
		warning = fmt.Sprintf("the secret in %s may be read by every user (repair: chmod 600 %s)", path, path)
	}
	return secret, warning, nil
}

var (
	errTooLarge  = errors.New("the file is too large")
	errDirectory = errors.New("it is a folder, not a file")
)

// readLimited reads a file of at most limit bytes.
func readLimited(path string, limit int64) ([]byte, os.FileInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if info.IsDir() {
		return nil, nil, errDirectory
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, nil, err
	}
	if int64(len(text)) > limit {
		return nil, nil, fmt.Errorf("%w (more than %d KiB)", errTooLarge, limit>>10)
	}
	return text, info, nil
}

// readError says in our words what an error of the system means.
type readError struct {
	text string
	err  error
}

func (e *readError) Error() string { return e.text }
func (e *readError) Unwrap() error { return e.err }

// explainRead shortens an error about a file whose name is said already, and
// adds what to do.
func explainRead(err error) error {
	var pathErr *os.PathError
	switch {
	case errors.Is(err, os.ErrNotExist):
		return &readError{text: "the file does not exist", err: os.ErrNotExist}
	case errors.Is(err, os.ErrPermission):
		return &readError{text: fmt.Sprintf("this user (uid %d) may not read the file", os.Getuid()), err: os.ErrPermission}
	case errors.As(err, &pathErr):
		return pathErr.Err
	default:
		return err
	}
}
