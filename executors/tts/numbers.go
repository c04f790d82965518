package tts

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// currencies: sign, one, many, the hundredth part (one, many) if people say it.
var currencies = map[string][4]string{
	"$": {"dollar", "dollars", "cent", "cents"},
	"€": {"euro", "euros", "cent", "cents"},
	"£": {"pound", "pounds", "penny", "pence"},
	"¥": {"yen", "yen"},
}

var scales = map[string]string{
	"k": "thousand", "K": "thousand", "m": "million", "M": "million", "bn": "billion", "B": "billion",
	"thousand": "thousand", "million": "million", "billion": "billion", "trillion": "trillion",
}

var (
	money       = regexp.MustCompile(`([$€£¥]) ?(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(?:( ?)(thousand|million|billion|trillion|bn|k|K|m|M|B))?`)
	yearSpan    = regexp.MustCompile(`(1\d{3}|20\d{2}) ?[-–—] ?(1\d{3}|20\d{2})`)
	zipCode     = regexp.MustCompile(`\b([A-Z]{2}) (\d{5})(-\d{4})?`)
	numberedTag = regexp.MustCompile(`#(\d+)`)
	romanAfter  = regexp.MustCompile(`\b(World War|Super Bowl|Chapter|Part|Volume|Act|Scene|Section|Book|Article|Title|Episode|Phase) ([IVXLCDM]+)`)
	regnal      = regexp.MustCompile(`\b(Henry|Louis|Elizabeth|Charles|George|Edward|William|James|Philip|Napoleon|Pius|Benedict|Francis|Frederick|Richard|Catherine|John Paul|Nicholas|Alexander|Peter) ([IVX]+)`)
	romanShape  = regexp.MustCompile(`^M{0,3}(CM|CD|D?C{0,3})(XC|XL|L?X{0,3})(IX|IV|V?I{0,3})$`)
)

// expandNumbers writes out the English numbers that espeak-ng reads in a way
// nobody would say them: "$500" as "dollar five hundred", "World War II" as
// "world war roman two".
func expandNumbers(text string) string {
	text = rewrite(money, text, sayMoney)
	text = rewrite(yearSpan, text, func(m match) (string, bool) {
		return m.groups[1] + " to " + m.groups[2], !m.inWord() && m.groups[1] < m.groups[2]
	})
	text = rewrite(zipCode, text, func(m match) (string, bool) {
		digits := strings.Join(strings.Split(strings.TrimPrefix(m.groups[2]+m.groups[3], "-"), ""), " ")
		return m.groups[1] + " " + strings.ReplaceAll(digits, " - ", ", "), states[m.groups[1]] && !startsWord(m.after)
	})
	text = rewrite(numberedTag, text, func(m match) (string, bool) { return "number " + m.groups[1], !m.inWord() })
	text = rewrite(romanAfter, text, func(m match) (string, bool) {
		n := roman(m.groups[2])
		sure := len(m.groups[2]) > 1 || m.groups[1] == "World War" ||
			strings.Contains("IVX", m.groups[2]) && !strings.HasPrefix(m.after, " ") // not "the part I like"
		return m.groups[1] + " " + strconv.Itoa(n), n > 0 && sure && !startsWord(m.after)
	})
	return rewrite(regnal, text, func(m match) (string, bool) {
		n := roman(m.groups[2])
		sure := len(m.groups[2]) > 1 || !strings.HasPrefix(m.after, " ") // not "Henry I know"
		return m.groups[1] + " the " + ordinal(n), n > 0 && sure && !startsWord(m.after)
	})
}

// sayMoney puts the currency where it is said.
func sayMoney(m match) (string, bool) {
	sign, whole, part, gap, scale := m.groups[1], m.groups[2], m.groups[3], m.groups[4], m.groups[5]
	names := currencies[sign]
	switch {
	case !startsWord(m.after):
		gap = ""
	case scale != "" && gap == " ": // "$5 more": the m is not a million
		scale, gap = "", gap+scale
	default:
		return "", false
	}
	if scale != "" {
		return whole + part + " " + scales[scale] + " " + names[1], true
	}
	unit := names[1]
	if whole == "1" {
		unit = names[0]
	}
	if len(part) != len(".50") || names[2] == "" {
		if part != "" {
			unit = names[1]
		}
		return whole + part + " " + unit + gap, true
	}
	cents, _ := strconv.Atoi(part[1:]) // two digits by the expression
	small := names[3]
	if cents == 1 {
		small = names[2]
	}
	switch {
	case cents == 0:
		return whole + " " + unit + gap, true
	case whole == "0":
		return fmt.Sprintf("%d %s%s", cents, small, gap), true
	}
	return fmt.Sprintf("%s %s and %d %s%s", whole, unit, cents, small, gap), true
}

// roman is the value of a Roman numeral, 0 if s is none.
func roman(s string) int {
	if s == "" || !romanShape.MatchString(s) {
		return 0
	}
	values := map[byte]int{'I': 1, 'V': 5, 'X': 10, 'L': 50, 'C': 100, 'D': 500, 'M': 1000}
	n := 0
	for i := range len(s) {
		v := values[s[i]]
		if i+1 < len(s) && v < values[s[i+1]] {
			v = -v
		}
		n += v
	}
	return n
}

func ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}

// states are the two-letter codes before a ZIP code of the United States.
var states = func() map[string]bool {
	set := map[string]bool{}
	for code := range strings.FieldsSeq(`AL AK AZ AR CA CO CT DE FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM NY
		NC ND OH OK OR PA RI SC SD TN TX UT VT VA WA WV WI WY DC PR`) {
		set[code] = true
	}
	return set
}()
