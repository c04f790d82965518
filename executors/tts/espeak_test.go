package tts

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

func TestEveryListedVoiceSpeaks(t *testing.T) {
	t.Parallel()
	e := NewEspeak(DefaultSettings())
	voices, err := e.Voices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(voices) < 100 {
		t.Errorf("only %d voices", len(voices))
	}
	seen := map[string]bool{}
	for _, v := range voices {
		if seen[v.ID] || !voiceGrammar.MatchString(v.ID) || v.Language == "" || v.Name == "" || strings.HasPrefix(v.engineName, "mb/") {
			t.Errorf("voice %+v", v)
		}
		seen[v.ID] = true
		samples := 0
		err := e.Synthesize(t.Context(), Segment{Text: "12", Voice: v, RateWPM: 450, Pitch: 50, Volume: 1, Dir: t.TempDir()},
			func(frame []int16) error { samples += len(frame); return nil })
		if err != nil || samples == 0 {
			t.Errorf("voice %s: %d samples, %v", v.ID, samples, err)
		}
	}
}

func TestParseVoices(t *testing.T) {
	t.Parallel()
	voices := parseVoices(`Pty Language       Age/Gender VoiceName          File                 Other Languages
 5  af              --/M      Afrikaans          gmw/af
 2  en-us           --/M      English_(America)  gmw/en-US            (en 3)
 5  chr-US-Qaaa-x-west --/F   Cherokee_          iro/chr
 5  yue             --/M      Chinese_(Cantonese) sit/yue              (zh-yue 5)(zh 8)
 5  yue             --/M      Chinese (Cantonese, latin) sit/yue-Latn-jyutping (zh-yue 5)(zh 8)
 7  af              --/M      afrikaans-mbrola-1 mb/mb-af1
`)
	var got []string
	for _, v := range voices {
		got = append(got, fmt.Sprint(v.ID, "|", v.Name, "|", v.engineName, "|", v.Gender, "|", v.Priority, "|", v.Languages))
	}
	want := []string{
		"af|Afrikaans|gmw/af|male|5|[]",
		"en-us|English (America)|gmw/en-US|male|2|[en]",
		"chr-us-qaaa-x-west|Cherokee|iro/chr|female|5|[]",
		"yue|Chinese (Cantonese)|sit/yue|male|5|[zh-yue zh]",
		"yue-latn-jyutping|Chinese (Cantonese, latin)|sit/yue-Latn-jyutping|male|5|[zh-yue zh]",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// script writes a program that stands in for espeak-ng when that has to
// misbehave.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "espeak-ng")
	// The version and the voices are the real ones, only speaking is not.
	text := "#!/bin/sh\ncase \"$1\" in --version|--voices) exec espeak-ng \"$@\";; esac\n" + body + "\n"
	syscall.ForkLock.RLock() // a fork meanwhile would keep the file open for writing: text file busy
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

const wavArg = `out=""; prev=""; for a in "$@"; do [ "$prev" = -w ] && out="$a"; prev="$a"; done; cat >/dev/null; `

func TestAFaultyEngineIsNeverASuccess(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body, says string
	}{
		{"exit 0 without a file", `cat >/dev/null; echo "cannot write" >&2`, "wrote no audio"},
		{"exit 0 with a header only", wavArg + `echo | espeak-ng -s 9999 -w "$out" "hello"; head -c 44 "$out" >"$out.2"; mv "$out.2" "$out"`, "without a single sample"},
		{"not a WAV file", wavArg + `echo this is not a sound file at all >"$out"`, "not a WAV file"},
		{"an empty file", wavArg + `: >"$out"`, "read WAV header"},
		{"half of the audio", wavArg + `espeak-ng -w "$out.2" "hello"; head -c 9000 "$out.2" >"$out"; rm "$out.2"`, "cut short"},
		{"exit 3", `cat >/dev/null; echo first >&2; echo "last words" >&2; exit 3`, "exit status 3: last words"},
		{"death by signal", `kill -SEGV $$`, "segmentation fault"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newExecutor(t, func(s *Settings) { s.EspeakPath = script(t, tt.body) })
			s := run(t.Context(), t, e, payload(t, map[string]any{"text": "Hello."}), nil)
			if s.err == nil || s.err.Code != executors.CodeEngineError || !s.err.Retryable || !strings.Contains(s.err.Message, tt.says) {
				t.Errorf("%+v", s.err)
			}
			onlyFile(t, s.spool)
		})
	}
}

func TestACancelledEngineIsGoneWithAllItStarted(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"it ends at SIGTERM":  `sleep 300 & echo $! >"$PIDS/child"; echo $$ >"$PIDS/m"; mv "$PIDS/m" "$PIDS/main"; wait`,
		"it ignores SIGTERM":  `trap "" TERM; sleep 300 & echo $! >"$PIDS/child"; echo $$ >"$PIDS/m"; mv "$PIDS/m" "$PIDS/main"; while :; do wait; done`,
		"it never reads text": `exec </dev/null; sleep 300 & echo $! >"$PIDS/child"; echo $$ >"$PIDS/m"; mv "$PIDS/m" "$PIDS/main"; wait`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pids := t.TempDir()
			e := newExecutor(t, func(s *Settings) { s.EspeakPath = script(t, "PIDS="+pids+"\n"+body) })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				defer cancel()
				waitFor(t, func() bool { _, err := os.Stat(filepath.Join(pids, "main")); return err == nil })
			}()
			began := time.Now()
			s := run(ctx, t, e, payload(t, map[string]any{"text": "Hello."}), nil)
			if s.err == nil || s.err.Code != executors.CodeCancelled {
				t.Errorf("%v", s.err)
			}
			if took := time.Since(began); took > 60*time.Second {
				t.Errorf("took %v", took)
			}
			onlyFile(t, s.spool)
			for _, who := range []string{"main", "child"} {
				raw, err := os.ReadFile(filepath.Join(pids, who))
				if err != nil {
					t.Fatal(err)
				}
				pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
				if err != nil {
					t.Fatal(err)
				}
				waitFor(t, func() bool { return gone(pid) })
			}
		})
	}
}

func TestCancelAtAThirdLeavesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e := newExecutor(t, nil)
	s := run(ctx, t, e, payload(t, map[string]any{"text": longText(5000)}), func(ev executors.Event) {
		if ev.Progress != nil && ev.Progress.Percent >= 30 {
			cancel()
		}
	})
	if s.err == nil || s.err.Code != executors.CodeCancelled {
		t.Fatalf("%v", s.err)
	}
	if last := s.progress[len(s.progress)-1].Percent; last < 30 || last > 60 {
		t.Errorf("stopped at %d%%", last)
	}
	if len(s.artifacts) != 0 {
		t.Errorf("artifacts %v", s.artifacts)
	}
	onlyFile(t, s.spool)
	waitFor(t, func() bool { return len(running(s.spool)) == 0 })
}

func TestWithoutTheEngineTheExecutorIsNotReady(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	e := newExecutor(t, nil)
	d, err := e.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Check(); err != nil {
		t.Error(err)
	}
	want := "espeak-ng not found in PATH (install it: apt-get install espeak-ng)"
	if d.Ready || len(d.Reasons) != 1 || d.Reasons[0] != want {
		t.Errorf("ready %v, reasons %q", d.Ready, d.Reasons)
	}
	s := run(t.Context(), t, e, payload(t, map[string]any{"text": "Hello."}), nil)
	if s.err == nil || s.err.Code != executors.CodeEngineUnavailable || !strings.Contains(s.err.Message, "espeak-ng not found") {
		t.Errorf("%+v", s.err)
	}
}

func TestAWrongDataPathInTheEnvironmentDoesNotMatter(t *testing.T) {
	t.Setenv("ESPEAK_DATA_PATH", "/nonexistent")
	mustSpeak(t, newExecutor(t, nil), map[string]any{"text": "Hello."})
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	d, err := newExecutor(t, nil).Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Check(); err != nil {
		t.Error(err)
	}
	if !d.Ready || d.Name != "tts" || d.Engine != "espeak-ng" || d.EngineVersion == "" || d.Concurrency < 1 || d.Types[0].Ops[0] != "synthesize" {
		t.Errorf("%+v", d)
	}
}

func TestDescribeNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*Settings)
		says   string
	}{
		{"program that is not there", func(s *Settings) { s.EspeakPath = "/nonexistent/espeak-ng" }, "does not exist"},
		{"another program", func(s *Settings) { s.EspeakPath = "true" }, "is not espeak-ng"},
		{"program without voices", func(s *Settings) { s.EspeakPath = noVoices(t) }, "espeak-ng-data"},
		{"wrong data", func(s *Settings) { s.EspeakData = t.TempDir() }, "executors.tts.espeak_data"},
		{"default voice that is not there", func(s *Settings) { s.DefaultVoice = "xx" }, "executors.tts.default_voice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, err := newExecutor(t, tt.change).Describe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if d.Ready || len(d.Reasons) != 1 || !strings.Contains(d.Reasons[0], tt.says) {
				t.Errorf("ready %v, reasons %q", d.Ready, d.Reasons)
			}
		})
	}
}

func noVoices(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "espeak-ng")
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n[ \"$1\" = --version ] && echo 'eSpeak NG text-to-speech: 1.51'\nexit 0\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDataOfTheOperatorIsUsed(t *testing.T) {
	t.Parallel()
	data := installedData(t)
	for _, dir := range []string{data, filepath.Dir(data)} {
		e := newExecutor(t, func(s *Settings) { s.EspeakData = dir })
		mustSpeak(t, e, map[string]any{"text": "Hello."})
	}
}

func installedData(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "espeak-ng", "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, data, ok := strings.Cut(strings.TrimSpace(string(out)), "Data at: ")
	if !ok {
		t.Fatalf("espeak-ng --version: %s", out)
	}
	return data
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*Settings)
		want   string
	}{
		{"defaults are valid", func(*Settings) {}, ""},
		{"an absolute program", func(s *Settings) { s.EspeakPath = "/usr/bin/espeak-ng" }, ""},
		{"no program", func(s *Settings) { s.EspeakPath = "" }, "espeak_path"},
		{"a relative program", func(s *Settings) { s.EspeakPath = "bin/espeak-ng" }, "espeak_path"},
		{"relative data", func(s *Settings) { s.EspeakData = "data" }, "espeak_data"},
		{"a voice with a path", func(s *Settings) { s.DefaultVoice = "../x" }, "default_voice"},
		{"no runes", func(s *Settings) { s.MaxRunes = 0 }, "max_runes"},
		{"the most runes", func(s *Settings) { s.MaxRunes = 50000 }, ""},
		{"too many runes", func(s *Settings) { s.MaxRunes = 50001 }, "max_runes"},
		{"a tiny file", func(s *Settings) { s.MaxBytes = 1 }, "max_bytes"},
		{"no concurrency", func(s *Settings) { s.Concurrency = 0 }, "concurrency"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := DefaultSettings()
			tt.change(&s)
			_, err := New(s)
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), "executors.tts."+tt.want)):
				t.Errorf("error %v does not name %s", err, tt.want)
			}
		})
	}
}

// waitFor waits until ok, for as long as a very busy machine may need.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(60 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Error("waited a minute in vain")
			return
		}
	}
}

// gone reports whether pid has ended; a zombie that PID 1 has yet to reap has.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, after, _ := bytes.Cut(stat, []byte(") "))
	return len(after) > 0 && (after[0] == 'Z' || after[0] == 'X')
}

// running lists the processes that have word in their command line.
func running(word string) []string {
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
	var found []string
	for _, dir := range dirs {
		if cmd, err := os.ReadFile(filepath.Join(dir, "cmdline")); err == nil && bytes.Contains(cmd, []byte(word)) {
			found = append(found, dir)
		}
	}
	return found
}
