package spool

import (
	"fmt"
	"os"
	"testing"
)

func TestASpoolThatCannotCountItsFoldersKeepsItsPromises(t *testing.T) {
	t.Parallel()
	for _, counts := range []bool{true, false} {
		t.Run(fmt.Sprint("counts ", counts), func(t *testing.T) {
			t.Parallel()
			s := newSpool(t)
			s.counts = s.counts && counts
			for _, other := range []bool{false, true} {
				if other { // the spool is not bare
					put(t, prepare(t, s, "other"), "file", nil)
				}
				put(t, prepare(t, s, "task"), "left", nil)
				dir := located(t, s)
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				s.Discard("task", 1)
				located(t, s)
			}
			s.Discard("other", 1)
			if s.counts && !s.bare() {
				t.Error("no folder is left, and the spool is not bare")
			}
		})
	}
}

func TestIDsThatNameAFolder(t *testing.T) {
	t.Parallel()
	long := make([]byte, 201)
	for i := range long {
		long[i] = 'a'
	}
	for id, want := range map[string]bool{
		"": false, "a": true, "Z.9_-": true, ".a": false, "..": false, "a/b": false, "ä": false, "a b": false, "a\x00": false,
		string(long): false, string(long[:200]): true,
	} {
		if safeID(id) != want {
			t.Errorf("safeID(%q) is %v", id, !want)
		}
	}
}
