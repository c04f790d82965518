package tts

import (
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func texts(pieces []piece) []string {
	out := []string{}
	for _, p := range pieces {
		out = append(out, p.text)
	}
	return out
}

func TestSplitFindsSentences(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"Hello world. Second sentence.", []string{"Hello world.", "Second sentence."}},
		{"What? Yes! Well… No.", []string{"What?", "Yes!", "Well…", "No."}},
		{"It is 3.14 or so. See example.com today.", []string{"It is 3.14 or so.", "See example.com today."}},
		{"Mr. Smith met Dr. Jones. They spoke.", []string{"Mr. Smith met Dr. Jones.", "They spoke."}},
		{"J. R. Tolkien wrote. I did.", []string{"J. R. Tolkien wrote.", "I did."}},
		{`He said "Stop." Then he left.`, []string{`He said "Stop."`, "Then he left."}},
		{`"Stop!" he said. (Really.) Yes.`, []string{`"Stop!"`, "he said.", "(Really.)", "Yes."}},
		{"Some things, e.g. this one, etc. and so on. End.", []string{"Some things, e.g. this one, etc. and so on.", "End."}},
		{"1. First item.\n\n2. Second item.", []string{"1. First item.", "2. Second item."}},
		{"One line\nof one sentence.\n\nA paragraph without end\n\nNext", []string{"One line of one sentence.", "A paragraph without end", "Next"}},
		{"今日は。元気ですか？はい！", []string{"今日は。", "元気ですか？", "はい！"}},
		{"Wait ... what?! No way!!!", []string{"Wait ... what?!", "No way!!!"}},
		{"Hello. ... - World.", []string{"Hello. ...", "- World."}},
		{"- Hello.", []string{"- Hello."}},
		{"...", []string{"..."}},
		{" \n\t", []string{}},
		{"a\r\nb\r\n\r\nc", []string{"a b", "c"}},
	} {
		if diff := cmp.Diff(tt.want, texts(split(tt.text))); diff != "" {
			t.Errorf("%q: %s", tt.text, diff)
		}
	}
}

func TestSplitCutsLongSentences(t *testing.T) {
	t.Parallel()
	words := strings.TrimSpace(strings.Repeat("word ", 100))
	pieces := split(words)
	for i, p := range pieces {
		if n := utf8.RuneCountInString(p.text); n > 200 || p.continues != (i < len(pieces)-1) {
			t.Errorf("piece %d has %d runes, continues %v", i, n, p.continues)
		}
	}
	if got := strings.Join(texts(pieces), " "); got != words {
		t.Errorf("text became %q", got)
	}
	if n := utf8.RuneCountInString(pieces[0].text); n != 199 {
		t.Errorf("the first piece has %d runes", n)
	}
	// An abbreviation's full stop is the best place in a sentence too long.
	long := strings.Repeat("a", 60) + " Mr. " + strings.Repeat("b ", 100)
	if got := split(long)[0].text; !strings.HasSuffix(got, " Mr.") {
		t.Errorf("first piece %q", got)
	}
	if got := texts(split(strings.Repeat("x", 450))); len(got) != 3 || len(got[0]) != 200 || len(got[2]) != 50 {
		t.Errorf("%q", got)
	}
	// A letter and its accent stay together.
	for _, s := range texts(split(strings.Repeat("e\u0301", 150) + "x")) {
		if r, _ := utf8.DecodeRuneInString(s); unicode.Is(unicode.Mn, r) {
			t.Errorf("a piece begins with an accent: %q", s)
		}
	}
}

func TestNormalizeEnglish(t *testing.T) {
	t.Parallel()
	all := normalization{Numbers: true, Abbreviations: true, URLs: true, Markdown: true}
	for _, tt := range []struct{ text, want string }{
		// currency
		{"It costs $500.", "It costs 500 dollars."},
		{"$1 and $1.00", "1 dollar and 1 dollar"},
		{"$5.50, $0.99, $2.01", "5 dollars and 50 cents, 99 cents, 2 dollars and 1 cent"},
		{"$1,234,567.89!", "1,234,567 dollars and 89 cents!"},
		{"$3 million and $3.5bn and €20K", "3 million dollars and 3.5 billion dollars and 20 thousand euros"},
		{"£1.50 or ¥500", "1 pound and 50 pence or 500 yen"},
		{"$5 more, $5 better", "5 dollars more, 5 dollars better"},
		{"-$5", "-5 dollars"},
		{"$(id) $HOME a$", "$(id) $HOME a$"},
		{"$1.234", "1.234 dollars"},
		{"$20kg", "$20kg"},
		// numbers
		{"1939-1945 and 1990–2000", "1939 to 1945 and 1990 to 2000"},
		{"call 1945-1939", "call 1945-1939"},
		{"Beverly Hills, CA 90210.", "Beverly Hills, CA 9 0 2 1 0."},
		{"CA 90210-1234", "CA 9 0 2 1 0, 1 2 3 4"},
		{"90210 people", "90210 people"},
		{"We are #1, C#5 too", "We are number 1, C#5 too"},
		// Roman numerals
		{"World War II began. World War I ended.", "World War 2 began. World War 1 ended."},
		{"Henry VIII and Louis XIV.", "Henry the 8th and Louis the 14th."},
		{"Elizabeth II, Charles I.", "Elizabeth the 2nd, Charles the 1st."},
		{"Chapter IV: Part I", "Chapter 4: Part 1"},
		{"the Part I like, Chapter MIX, Section C", "the Part I like, Chapter 1009, Section C"},
		{"George I think, Chapter IIII", "George I think, Chapter IIII"},
		// abbreviations
		{"Mr. Smith and Mrs. Dr. Jones", "Mister Smith and Missis Doctor Jones"},
		{"St. John lives on Main St. in town", "Saint John lives on Main Street in town"},
		{"He went to Main St.", "He went to Main Street."},
		{"Mt. Everest vs. K2", "Mount Everest versus K2"},
		{"Jan. 5 and Sept. 30", "January 5 and September 30"},
		{"No. 5 and Nos. 7", "number 5 and number 7"},
		{"No. I will not.", "No. I will not."},
		{"approx. 5 km, 1 km, 60 mph, 20°C, 3.5 GB", "approximately 5 kilometres, 1 kilometre, 60 miles per hour, 20 degrees Celsius, 3.5 gigabytes"},
		{"5 mbar, x5km, 5 kms", "5 mbar, x5km, 5 kms"},
		{"Sammy Davis Jr. sang.", "Sammy Davis Junior sang."},
		{"a Ph.D. in music", "a P H D. in music"},
		{"e.g. this, i.e. that, etc.", "e.g. this, i.e. that, etc."},
		{"The end is near. The dr. is in.", "The end is near. The dr. is in."},
		// addresses
		{"See https://www.example.com/docs/getting-started?x=1#top.", "See example dot com slash docs slash getting started."},
		{"www.example.com, (http://a.org/)", "example dot com, (a dot org)"},
		{"http://localhost:8080", "localhost port 8080"},
		{"https://user:secret@host.net/%7Ejoe/a%20b", "host dot net slash ~joe slash a b"},
		{"https://en.wikipedia.org/wiki/Go_(game)", "en dot wikipedia dot org slash wiki slash Go (game)"},
		{"https://x.org/%00%ff", "x dot org slash %00%ff"},
		{"mail joe@example.com", "mail joe@example.com"},
		// Markdown
		{"# Title\nText", "\nTitle.\n\nText"},
		{"**Bold** and *italic*, __strong__ and _em_, ~~gone~~ `code`", "Bold and italic, strong and em, gone code"},
		{"***both***", "both"},
		{"2*3*4, snake_case_name, 5 * 6 * 7", "2*3*4, snake_case_name, 5 * 6 * 7"},
		{"[the docs](https://example.com/x?y) and ![a cat](cat.png \"Cat\")", "the docs and a cat"},
		{"- one\n* two!\n+ [x] three", "one.\ntwo!\nthree."},
		{"1. first\n2. second", "1. first.\n2. second."},
		{"> quoted\n>> deeper", "quoted\ndeeper"},
		{"a\n---\nb\n***\nc", "a\n\nb\n\nc"},
		{"| a | b |\n|---|---|\n| 1 | 2 |", "a, b.\n\n1, 2."},
		{"```go\nx := a*b*c\n```\nEnd", "\nx := a*b*c\n\nEnd"},
		{"-5 degrees", "-5 degrees"},
		{"--help", "--help"},
		{"#5 and #tag", "number 5 and #tag"},
		{"plain text", "plain text"},
	} {
		if got := all.apply(tt.text, true); got != tt.want {
			t.Errorf("%q:\n got %q\nwant %q", tt.text, got, tt.want)
		}
	}
}

func TestNormalizeSwitches(t *testing.T) {
	t.Parallel()
	const text = "**$5** Mr. X at www.a.org"
	for _, tt := range []struct {
		n       normalization
		english bool
		want    string
	}{
		{normalization{}, true, text},
		{normalization{Markdown: true}, true, "$5 Mr. X at www.a.org"},
		{normalization{Numbers: true}, true, "**5 dollars** Mr. X at www.a.org"},
		{normalization{Abbreviations: true}, true, "**$5** Mister X at www.a.org"},
		{normalization{URLs: true}, true, "**$5** Mr. X at a dot org"},
		{normalization{Numbers: true, Abbreviations: true, URLs: true, Markdown: true}, false, "$5 Mr. X at a.org"},
	} {
		if got := tt.n.apply(text, tt.english); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.n, got, tt.want)
		}
	}
}

var (
	plainWord = regexp.MustCompile(`[a-z]{3,}`)
	rewritten = regexp.MustCompile("(?i)://|www\\.|\\]\\(|```|~~~|\\.|[$€£¥°]|\\d")
)

// FuzzSegments checks that no text is lost, damaged or runs on for ever.
func FuzzSegments(f *testing.F) {
	for _, s := range []string{
		"", "Hello world. Second sentence.", strings.Repeat("word ", 300), strings.Repeat("x", 700), strings.Repeat("e\u0301\u200d", 200),
		"# A\n- b\n> c\n| d | e |\n***\n[x](y) ![z](w)", "$5 $5.50 World War II Henry VIII CA 90210", "https://a.b/%00?q www.x.y Mr. St. Dr. No. 5",
		"。！？", "\r\n \u2028\u0085", "**_a_** __b__ `c` ~~d~~", "...!!!???", "😀👨‍👩‍👧", strings.Repeat("*", 500), strings.Repeat("[", 500),
	} {
		f.Add(s)
	}
	all := normalization{Numbers: true, Abbreviations: true, URLs: true, Markdown: true}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || len(text) > 20000 {
			return
		}
		checkPieces(t, text)
		normal := all.apply(text, true)
		if !utf8.ValidString(normal) {
			t.Fatalf("%q became invalid: %q", text, normal)
		}
		if len(normal) > 40*len(text)+100 {
			t.Fatalf("%d bytes became %d", len(text), len(normal))
		}
		for _, r := range normal {
			if unicode.IsControl(r) && !strings.ContainsRune(text, r) && r != '\n' {
				t.Fatalf("%q got the control character %U", text, r)
			}
		}
		checkPieces(t, normal)
		if !rewritten.MatchString(text) {
			left := normal
			for _, w := range plainWord.FindAllString(text, -1) {
				_, after, ok := strings.Cut(left, w)
				if !ok {
					t.Fatalf("%q lost %q: %q", text, w, normal)
				}
				left = after
			}
		}
	})
}

// checkPieces fails unless split keeps every rune that is not white space.
func checkPieces(t *testing.T, text string) {
	t.Helper()
	pieces := split(text)
	for i, p := range pieces {
		if n := utf8.RuneCountInString(p.text); n < 1 || n > maxSegmentRunes || strings.TrimSpace(p.text) != p.text {
			t.Fatalf("piece %d of %q has %d runes: %q", i, text, n, p.text)
		}
	}
	if n := len(pieces); n > 0 && pieces[n-1].continues {
		t.Fatalf("the last piece of %q goes on", text)
	}
	bare := func(s string) string { return strings.Join(strings.Fields(s), "") }
	if got := bare(strings.Join(texts(pieces), "")); got != bare(text) {
		t.Fatalf("%q became %q", text, got)
	}
}

func TestDatesAreReadWhereTheirOrderIsCertain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"on 2026-11-30.":         "on November 30th, 2026.",
		"by 11/30/2026 at noon":  "by November 30th, 2026 at noon",
		"by 30/11/2026":          "by November 30th, 2026",
		"on 5/5/2026":            "on May 5th, 2026",
		"on 3/4/2026":            "on 3/4/2026",
		"2026-02-30":             "2026-02-30",
		"part 2026-11-30-7":      "part 2026-11-30-7",
		"see /11/30/2026/report": "see /11/30/2026/report",
		"2026-13-01 and 0000":    "2026-13-01 and 0000",
	} {
		if got := expandDates(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
