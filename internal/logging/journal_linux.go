package logging

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// onJournal reports whether w is the very stream that systemd connected to the
// journal, which it names in $JOURNAL_STREAM as "device:inode".
func onJournal(w io.Writer) bool {
	want := os.Getenv("JOURNAL_STREAM")
	f, ok := w.(*os.File)
	if want == "" || !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && fmt.Sprintf("%d:%d", stat.Dev, stat.Ino) == want
}
