package engines

import (
	"io/fs"
	"path/filepath"

	"github.com/autobot-fleet/autobot/executors/engines"
)

// hashTree reads all files below dir, without receipt and card. Names are
// slash-separated; a link is reported with the checksum "link".
func hashTree(dir string) (map[string]Kept, error) {
	files := map[string]Kept{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil || rel == receiptFile || rel == engines.CardFile {
			return err
		}
		k := Kept{Name: filepath.ToSlash(rel), SHA256: "link"}
		if d.Type().IsRegular() {
			if k.SHA256, k.Size, err = engines.HashFile(path); err != nil {
				return err
			}
		}
		files[k.Name] = k
		return nil
	})
	return files, err
}
