package tts

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// titles are read as words before a name.
var titles = map[string]string{
	"Mr": "Mister", "Mrs": "Missis", "Ms": "Miz", "Dr": "Doctor", "Prof": "Professor", "St": "Saint", "Mt": "Mount",
	"Gen": "General", "Sen": "Senator", "Rep": "Representative", "Gov": "Governor", "Capt": "Captain",
	"Lt": "Lieutenant", "Sgt": "Sergeant", "Col": "Colonel", "Rev": "Reverend", "Hon": "Honourable",
}

// streets are the same letters after a name.
var streets = map[string]string{"St": "Street", "Dr": "Drive", "Mt": "Mountain", "Ave": "Avenue", "Blvd": "Boulevard", "Rd": "Road"}

var months = map[string]string{
	"Jan": "January", "Feb": "February", "Mar": "March", "Apr": "April", "Jun": "June", "Jul": "July",
	"Aug": "August", "Sep": "September", "Sept": "September", "Oct": "October", "Nov": "November", "Dec": "December",
}

// plainWords stand for themselves wherever they are.
var plainWords = map[string]string{
	"vs": "versus", "approx": "approximately", "dept": "department", "Dept": "Department", "Jr": "Junior", "Sr": "Senior",
	"Approx": "Approximately",
}

// units after a number: one, many.
var units = map[string][2]string{
	"km/h": {"kilometre per hour", "kilometres per hour"}, "mph": {"mile per hour", "miles per hour"},
	"km": {"kilometre", "kilometres"}, "cm": {"centimetre", "centimetres"}, "mm": {"millimetre", "millimetres"},
	"kg": {"kilogram", "kilograms"}, "mg": {"milligram", "milligrams"}, "lb": {"pound", "pounds"}, "lbs": {"pounds", "pounds"},
	"ml": {"millilitre", "millilitres"}, "ms": {"millisecond", "milliseconds"},
	"°C": {"degree Celsius", "degrees Celsius"}, "°F": {"degree Fahrenheit", "degrees Fahrenheit"},
	"KB": {"kilobyte", "kilobytes"}, "MB": {"megabyte", "megabytes"}, "GB": {"gigabyte", "gigabytes"}, "TB": {"terabyte", "terabytes"},
	"Hz": {"hertz", "hertz"}, "kHz": {"kilohertz", "kilohertz"}, "MHz": {"megahertz", "megahertz"}, "GHz": {"gigahertz", "gigahertz"},
	"kW": {"kilowatt", "kilowatts"}, "kWh": {"kilowatt hour", "kilowatt hours"},
}

var (
	abbreviation = regexp.MustCompile(`([A-Za-z]{2,6})\.`)
	numberSign   = regexp.MustCompile(`\b(No|Nos)\. ?(\d)`)
	degree       = regexp.MustCompile(`\bPh\.\s?D\b`)
	unitNumber   = regexp.MustCompile(`(\d[\d.,]*)\s?(km/h|mph|km|cm|mm|kg|mg|lbs?|ml|ms|°C|°F|[KMGT]B|[kMG]?Hz|kWh?)`)
)

// expandAbbreviations writes out the English abbreviations that espeak-ng
// spells, misreads, or takes for the end of a sentence.
func expandAbbreviations(text string) string {
	text = rewrite(abbreviation, text, func(m match) (string, bool) {
		if endsWord(m.before) || strings.HasSuffix(m.before, ".") || startsWord(m.after) {
			return "", false // a part of a longer word or name: example.vs.com
		}
		return expandWord(m)
	})
	text = numberSign.ReplaceAllString(text, "number $2")
	text = degree.ReplaceAllString(text, "P H D")
	return rewrite(unitNumber, text, func(m match) (string, bool) {
		if m.inWord() || strings.HasSuffix(m.before, ".") || unicode.Is(unicode.Sc, lastRune(m.before)) {
			return "", false
		}
		unit := units[m.groups[2]]
		if m.groups[1] == "1" {
			return "1 " + unit[0], true
		}
		return m.groups[1] + " " + unit[1], true
	})
}

// expandWord writes out one abbreviation with its full stop. Where the full
// stop ends the sentence as well, it stays.
func expandWord(m match) (string, bool) {
	word := m.groups[1]
	next := nextRune(m.after)
	afterName := unicode.IsUpper(firstOfLastWord(m.before))
	if full, ok := titles[word]; ok && unicode.IsUpper(next) && strings.HasPrefix(m.after, " ") {
		return full, true
	}
	if full, ok := streets[word]; ok && afterName && !unicode.IsUpper(next) {
		return full + stopBefore(next), true
	}
	if full, ok := months[word]; ok && unicode.IsDigit(next) {
		return full, true
	}
	if full, ok := plainWords[word]; ok {
		if word == "Jr" || word == "Sr" {
			return full + stopBefore(next), true
		}
		if next == 0 {
			return full + ".", true
		}
		return full, true
	}
	return "", false
}

// stopBefore returns a full stop unless the sentence goes on with next.
func stopBefore(next rune) string {
	if next == 0 || unicode.IsUpper(next) {
		return "."
	}
	return ""
}

// nextRune is the first rune of s that is not white space, 0 if there is none.
func nextRune(s string) rune {
	s = strings.TrimSpace(s)
	if s == "" {
		return 0
	}
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

func lastRune(s string) rune {
	r, _ := utf8.DecodeLastRuneInString(s)
	return r
}

// firstOfLastWord is the first rune of the word before the end of s.
func firstOfLastWord(s string) rune {
	if i := len(s) - 1; i < 0 || s[i] != ' ' {
		return 0
	}
	s = strings.TrimSpace(s)
	r, _ := utf8.DecodeRuneInString(s[strings.LastIndexAny(s, " \n\t")+1:])
	return r
}
