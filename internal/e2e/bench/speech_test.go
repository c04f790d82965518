package bench

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors/child"
	"github.com/autobot-fleet/autobot/queue"
)

const (
	hello    = "Hello world"
	longText = "The ship left the harbor early in the morning, and the people on the shore watched it for a long time, " +
		"until there was nothing to be seen but sea and sky." // 32 words
	twoSentences = "The ship left the harbor early in the morning, when the sea was calm. " +
		"The people on the shore watched it go, and then they went home." // about 7 s
	neuralVoice = "en-us-joe-medium"
)

// BenchmarkSpeechHello measures two words from submission to the file of
// sound, next to the program espeak-ng that writes the same file.
func BenchmarkSpeechHello(b *testing.B) {
	r := startRig(b, 4, "", "tts")
	ours, bare, _ := speechRounds(b, r, hello)
	b.ReportMetric(ours.p(50), "p50-ms")
	figure(b, "speech, %q: p50 %.1f ms, p99 %.1f ms; espeak-ng alone p50 %.1f ms: %.2f x (goal p50 <= 40 ms: %s)",
		hello, ours.p(50), ours.p(99), bare.p(50), ours.p(50)/bare.p(50), verdict(ours.p(50) <= 40))
}

// BenchmarkSpeechLong measures 32 words as a part of how long they sound.
func BenchmarkSpeechLong(b *testing.B) {
	if n := len(strings.Fields(longText)); n != 32 {
		b.Fatalf("the text has %d words", n)
	}
	r := startRig(b, 4, "", "tts")
	ours, bare, audio := speechRounds(b, r, longText)
	rtf := ours.p(50) / audio
	b.ReportMetric(rtf, "rtf")
	figure(b, "speech, 32 words, %.1f s of sound: p50 %.1f ms, real-time factor %.4f; espeak-ng alone p50 %.1f ms: %.2f x (goal <= 0.01: %s)",
		audio/1000, ours.p(50), rtf, bare.p(50), ours.p(50)/bare.p(50), verdict(rtf <= 0.01))
}

// speechRounds lets both speak in turns. audio is the length in milliseconds.
func speechRounds(b *testing.B, r *rig, text string) (ours, bare times, audio float64) {
	b.Helper()
	speak := task("tts", map[string]any{"text": text})
	audio = spoken(r, speak)
	for b.Loop() {
		for range 10 {
			bare = append(bare, espeak(b, text))
			ours = append(ours, r.one(speak))
		}
	}
	return ours, bare, audio
}

// spoken runs a task and returns how long its speech is, in milliseconds.
func spoken(r *rig, s queue.Submission) float64 {
	r.b.Helper()
	var out struct {
		DurationMS float64 `json:"duration_ms"`
	}
	r.result(s, &out)
	if out.DurationMS == 0 {
		r.b.Fatal("nothing was spoken")
	}
	return out.DurationMS
}

// espeak runs the program as the executor does, into a file.
func espeak(b *testing.B, text string) time.Duration {
	b.Helper()
	file := filepath.Join(b.TempDir(), "speech.wav")
	began := time.Now()
	cmd := exec.Command("espeak-ng", "-b", "1", "-v", "en-us", "-w", file, "--stdin")
	cmd.Stdin = strings.NewReader(text)
	if err := cmd.Start(); err != nil {
		b.Fatalf("%v (install it: apt-get install espeak-ng)", err)
	}
	child.Lower(cmd.Process.Pid)
	if err := cmd.Wait(); err != nil {
		b.Fatalf("espeak-ng: %v", err)
	}
	return time.Since(began)
}

// BenchmarkSpeechNeural measures two sentences by a warm neural voice, next to
// piper-tts in process.
func BenchmarkSpeechNeural(b *testing.B) {
	r, p := startRig(b, 4, "", "tts"), startPeer(b, "speech")
	speak := task("tts", map[string]any{"text": twoSentences, "voice": neuralVoice})
	spoken(r, speak)
	audio := spoken(r, speak)
	theirAudio := 0.0
	var ours, bare times
	for b.Loop() {
		a := p.ask(map[string]any{"text": twoSentences, "runs": 2})
		bare, theirAudio = append(bare, a.times()...), a.AudioMS
		ours = append(ours, r.one(speak), r.one(speak))
	}
	rtf, theirs := ours.p(50)/audio, bare.p(50)/theirAudio
	b.ReportMetric(rtf, "rtf")
	figure(b, "speech, two sentences by %s, %.1f s of sound: p50 %.0f ms, real-time factor %.3f; piper-tts %.3f: %.2f x (goal <= 0.06: %s)",
		neuralVoice, audio/1000, ours.p(50), rtf, theirs, rtf/theirs, verdict(rtf <= 0.06))
}
