package engines

import (
	"slices"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/executors/engines"
)

func catalogue(t *testing.T) Catalogue {
	t.Helper()
	c, err := Pinned()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestThePinnedCatalogueHasWhatExecutorsNeed(t *testing.T) {
	t.Parallel()
	c := catalogue(t)
	var all, others []string
	for _, e := range c {
		if e.All {
			all = append(all, e.ID())
		} else {
			others = append(others, e.ID())
		}
	}
	wantAll := []string{
		"openvino@2026.4.1", "playwright@1.64.1", "espeak-ng@distribution", "all-minilm-l6-v2@1.0.0",
		"ssd-mobilenet-v2@0.4.1675468480", "pp-ocr-v4@1.4.4", "silero-vad@6.2.3", "magika@1.0.3", "sample-pictures@0.26.0",
	}
	wantOthers := []string{"openvino@2025.4.1", "node@24.19.0", "en-us-joe-medium@1.0.0"}
	if !slices.Equal(all, wantAll) || !slices.Equal(others, wantOthers) {
		t.Errorf("all: %v\nothers: %v", all, others)
	}
	if e, err := c.Find("en-us-joe-medium"); err != nil || e.Free || !strings.Contains(e.Why, "lessac") {
		t.Errorf("the voice whose terms are not known: %+v, %v", e, err)
	}
}

func TestEveryProcessorThatIsSupportedGetsEverything(t *testing.T) {
	t.Parallel()
	for _, arch := range []string{"amd64", "arm64"} {
		for _, e := range catalogue(t) {
			sources, err := e.sources(arch)
			if err != nil || len(sources) == 0 && len(e.System) == 0 {
				t.Errorf("%s for %s: %v", e.ID(), arch, err)
			}
		}
	}
	e, err := catalogue(t).Find("openvino")
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.sources("riscv64")
	wantError(t, err, "openvino@2026.4.1 is not published for riscv64, only for amd64, arm64")
}

func TestLicencesAreKeptBesideWhatIsInstalled(t *testing.T) {
	t.Parallel()
	for _, e := range catalogue(t) {
		for _, s := range e.Sources {
			kept := slices.ContainsFunc(s.Files, func(f File) bool { return strings.HasPrefix(f.To, "licences/") }) || len(s.Trees) > 0
			if !kept {
				t.Errorf("%s keeps no licence of %s", e.ID(), s.Package)
			}
		}
	}
}

func TestTheRuntimeIsOnlyWhatIsNeeded(t *testing.T) {
	t.Parallel()
	e, err := catalogue(t).Find("openvino")
	if err != nil {
		t.Fatal(err)
	}
	sources, err := e.sources("amd64")
	if err != nil {
		t.Fatal(err)
	}
	var libs []string
	for _, f := range sources[0].Files {
		if strings.Contains(f.To, ".so") {
			libs = append(libs, f.To)
		}
	}
	if len(libs) != 8 || containsText(libs, "gpu") || containsText(libs, "tensorflow_frontend") {
		t.Errorf("got %v", libs)
	}
}

func TestTheCatalogueNamesNoRegistry(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"://", ".org", ".com", ".io/"} {
		if strings.Contains(string(pinned), part) {
			t.Errorf("%q is in it: how the machine reaches its registries is the machine's", part)
		}
	}
}

func TestCardsOfTheCatalogueSayWhereTheyAreFrom(t *testing.T) {
	t.Parallel()
	for _, e := range catalogue(t) {
		if e.Kind != KindModel {
			continue
		}
		c, err := e.card()
		if err != nil {
			t.Error(err)
			continue
		}
		if c.Name != e.Name || c.Source == "" || c.Licence == "" || c.Revision != e.Version || c.SHA256() == "" {
			t.Errorf("%s: %+v", e.ID(), c)
		}
		if c.Task == engines.TaskDetect && c.Thresholds == nil {
			t.Errorf("%s has no thresholds", e.ID())
		}
	}
}

func TestNamesThatAreNotThere(t *testing.T) {
	t.Parallel()
	c := catalogue(t)
	for name, want := range map[string]string{
		"openvno":           "did you mean openvino?",
		"openvino@1":        "there is openvino@2026.4.1, openvino@2025.4.1",
		"zzzzzzzzzzzzzzzzz": "only all-minilm-l6-v2, ",
	} {
		_, err := c.Find(name)
		wantError(t, err, want)
	}
	if e, err := c.Find("openvino"); err != nil || e.Version != "2026.4.1" {
		t.Errorf("openvino is %s, %v", e.Version, err)
	}
	if e, err := c.Find("openvino@2025.4.1"); err != nil || e.All {
		t.Errorf("got %+v, %v", e, err)
	}
}

func TestACatalogueThatIsWrongIsRefused(t *testing.T) {
	t.Parallel()
	const good = `
- name: x
  version: "1"
  kind: data
  about: a
  licence: MIT
  free: true
  all: true
  sources:
    - {from: pip, package: p, version: "1", platform: any, archive: p-1.whl, size: 1, sha256: SUM, files: [{from: a, to: a, size: 1, sha256: SUM}]}
`
	for _, tt := range []struct{ name, from, to, want string }{
		{"the good one", "", "", ""},
		{"an unknown key", "about:", "abuot:", "abuot"},
		{"no licence", "licence: MIT", `licence: ""`, "licence"},
		{"a kind nobody knows", "kind: data", "kind: toy", "kind:"},
		{"not free, and installed unasked", "free: true", "free: false", "only what is free"},
		{"not in all, and no reason", "all: true", "all: false", "why:"},
		{"a source nobody knows", "from: pip", "from: web", "from: must be pip or npm"},
		{"an archive that is a path", "archive: p-1.whl", "archive: ../p-1.whl", "archive:"},
		{"an archive of a kind nobody reads", "archive: p-1.whl", "archive: p-1.rar", "archive:"},
		{"a file outside", "to: a,", "to: ../a,", "files:"},
		{"an absolute file", "to: a,", "to: /a,", "files:"},
		{"a model without card", "kind: data", "kind: model", "card:"},
		{"something twice", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := strings.ReplaceAll(strings.Replace(good, tt.from, tt.to, 1), "SUM", sum("x"))
			_, err := ParseCatalogue([]byte(text))
			wantError(t, err, tt.want)
			if tt.name == "something twice" {
				_, err = ParseCatalogue([]byte(text + text))
				wantError(t, err, "x@1 is there twice")
			}
		})
	}
}
