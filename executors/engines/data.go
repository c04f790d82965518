package engines

import "path/filepath"

// DataSet returns the folder of installed data such as sample-pictures. What is
// missing is a *MissingError.
func (l Layout) DataSet(name string) (string, error) {
	dir := filepath.Join(l.DataDir, name)
	if !isDir(dir) {
		return "", &MissingError{name, l.DataDir, "autobot-agent engines install " + name}
	}
	return dir, nil
}
