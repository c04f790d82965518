package tts

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
)

func installed(t *testing.T, def string) catalogue {
	t.Helper()
	voices, err := NewEspeak(DefaultSettings()).Voices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return catalogue{voices: voices, def: def}
}

func TestLanguageFindsAVoice(t *testing.T) {
	t.Parallel()
	c := installed(t, "en-us")
	for tag, want := range map[string]string{
		"en":      "en-us", // the default voice speaks it
		"en-GB":   "en-gb",
		"EN-us":   "en-us",
		"en-AU":   "en-us", // nobody speaks the region
		"de":      "de",
		"de-AT":   "de",
		"pt-BR":   "pt-br",
		"pt-PT":   "pt",
		"fr":      "fr-fr",
		"es-MX":   "es-419",
		"no":      "nb",
		"zh":      "cmn",
		"zh-TW":   "cmn",
		"iw":      "he", // the old code
		"ru":      "ru",
		"chr":     "chr-us-qaaa-x-west",
		"tlh-Foo": "",
		"xx":      "",
	} {
		v, err := c.speak(tag)
		switch {
		case want == "" && !executors.IsCode(err, executors.CodeNotFound):
			t.Errorf("%s: voice %q, error %v", tag, v.ID, err)
		case want != "" && (err != nil || v.ID != want):
			t.Errorf("%s: voice %q (%v), want %s", tag, v.ID, err, want)
		}
	}
}

func TestVoiceAndLanguageMustFit(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, nil)
	mustSpeak(t, e, map[string]any{"text": "Hallo.", "voice": "de", "language": "de-AT"})
	s := run(t.Context(), t, e, payload(t, map[string]any{"text": "Hallo.", "voice": "de", "language": "fr"}), nil)
	if s.err == nil || s.err.Code != executors.CodeInvalidInput || s.err.Field != "language" {
		t.Errorf("%+v", s.err)
	}
	s = run(t.Context(), t, e, payload(t, map[string]any{"text": "Hallo.", "voice": "de", "voice_id": "fr-fr"}), nil)
	if s.err == nil || s.err.Field != "voice_id" {
		t.Errorf("%+v", s.err)
	}
}

func TestNotFoundNamesWhatIsNear(t *testing.T) {
	t.Parallel()
	c := installed(t, "en-us")
	_, err := c.find("en-uss")
	if err == nil || !strings.Contains(err.Error(), "nearest: en-us, ") || strings.Count(err.Error(), ",") != 2 {
		t.Errorf("%v", err)
	}
	for _, nothing := range []string{"nosuch", "joe"} { // "be" and "de" are not near to joe
		if _, err := c.find(nothing); err == nil || strings.Contains(err.Error(), "nearest") || !strings.Contains(err.Error(), "op list_voices") {
			t.Errorf("%v", err)
		}
	}
	c.voices = append(c.voices, Voice{ID: "en-us-joe-medium", Language: "en-us"})
	if _, err := c.find("joe"); err == nil || !strings.Contains(err.Error(), "nearest: en-us-joe-medium") {
		t.Errorf("a part of a name: %v", err)
	}
}

func TestListVoices(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, nil)
	list := func(fields map[string]any) (voices []voiceInfo, count int) {
		t.Helper()
		fields["op"] = "list_voices"
		s := run(t.Context(), t, e, payload(t, fields), nil)
		if s.err != nil {
			t.Fatal(s.err)
		}
		var out struct {
			Voices  []voiceInfo `json:"voices"`
			Count   int         `json:"count"`
			Default string      `json:"default"`
		}
		if err := json.Unmarshal(s.result.Output, &out); err != nil || out.Default != "en-us" {
			t.Fatalf("%s: %v", s.result.Output, err)
		}
		return out.Voices, out.Count
	}
	all, count := list(map[string]any{})
	if len(all) < 100 || count != len(all) {
		t.Errorf("%d voices, count %d", len(all), count)
	}
	english, _ := list(map[string]any{"language": "en"})
	if len(english) < 5 || len(english) > 20 {
		t.Errorf("%d English voices", len(english))
	}
	for _, v := range english {
		if !strings.HasPrefix(v.Language, "en") {
			t.Errorf("%+v is not English", v)
		}
	}
}
