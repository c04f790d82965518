package spool

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
)

// located is Locate that has to succeed and to make nothing.
func located(t *testing.T, s *Spool) string {
	t.Helper()
	dir, err := s.Locate("task", 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Locate made or left the folder: %v", err)
	}
	return dir
}

func TestATaskThatLeavesNoFileTouchesNoFolder(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	dir := located(t, s)
	s.Discard("task", 1)
	put(t, prepare(t, s, "task"), "left", nil) // as if Discard had failed
	if again := located(t, s); again != dir {
		t.Errorf("the folder of the attempt is %s, then %s", dir, again)
	}
}

func TestTheFolderThatAnExecutorMakesIsThatOfTheAttempt(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	dir := located(t, s)
	if err := (executors.Task{SpoolDir: dir}).MakeSpoolDir(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v, %v; it must be private", info, err)
	}
	put(t, dir, "a.bin", []byte("content"))
	records, err := s.Commit(t.Context(), "task", 1, []executors.Artifact{{Name: "a.bin"}}, CommitOptions{})
	if err != nil || len(records) != 1 || records[0].Bytes != 7 {
		t.Errorf("records = %+v, %v", records, err)
	}
	s.Discard("task", 1)
	located(t, s)
}

func TestAFileAnnouncedWithoutAFolderIsTheExecutorsFault(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	located(t, s)
	_, err := s.Commit(t.Context(), "task", 1, []executors.Artifact{{Name: "a.bin"}}, CommitOptions{})
	if e := wantCode(t, err, executors.CodeEngineError, "not in the spool directory"); e.Retryable {
		t.Error("trying again would not help")
	}
}

func TestALargeOutputNeedsNoFolderOfTheExecutor(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	located(t, s)
	a, _, err := s.Offload("task", 1, []byte(`{"big":true}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(t.Context(), "task", 1, []executors.Artifact{a}, CommitOptions{}); err != nil {
		t.Error(err)
	}
}
