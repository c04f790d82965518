package tts

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// dateFormats are the orders of a date's parts that say-as knows.
var dateFormats = []string{"mdy", "dmy", "ymd", "md", "dm", "ym", "my", "y"}

// date is a day, a month of a year, a day of a month, or a year; 0 is absent.
type date struct{ year, month, day int }

var (
	isoDate     = regexp.MustCompile(`(\d{4})-(\d{2})-(\d{2})`)
	slashedDate = regexp.MustCompile(`(\d{1,2})/(\d{1,2})/(\d{4})`)
	dateParts   = regexp.MustCompile(`\d+`)
)

// expandDates writes out dates whose order is certain: 2026-11-30, and 11/30/2026
// where only one of the first two numbers can be a month.
func expandDates(text string) string {
	text = rewrite(isoDate, text, func(m match) (string, bool) {
		d := date{number(m.groups[1]), number(m.groups[2]), number(m.groups[3])}
		return d.say(), d.valid() && !m.inWord() && !inRun(m, "-")
	})
	return rewrite(slashedDate, text, func(m match) (string, bool) {
		first, second, year := number(m.groups[1]), number(m.groups[2]), number(m.groups[3])
		d := date{year, first, second}
		if first > 12 || first == second {
			d = date{year, second, first}
		} else if second <= 12 {
			return "", false // 3/4/2026 is in March or in April
		}
		return d.say(), d.valid() && !m.inWord() && !inRun(m, "/")
	})
}

// inRun reports whether the find goes on with the same separator: a part number
// or a path, not a date.
func inRun(m match, separator string) bool {
	return strings.HasSuffix(m.before, separator) || strings.HasPrefix(m.after, separator)
}

// parseDate reads text in the order that format names (say-as of SSML: y, m and
// d). Parts are separated by anything but digits.
func parseDate(text, format string) (date, bool) {
	parts := dateParts.FindAllString(text, -1)
	if len(parts) != len(format) {
		return date{}, false
	}
	var d date
	for i, c := range format {
		n := number(parts[i])
		switch c {
		case 'y':
			d.year = n
		case 'm':
			d.month = n
		case 'd':
			d.day = n
		}
	}
	return d, d.valid()
}

// valid reports whether there is such a date.
func (d date) valid() bool {
	if d.year < 0 || d.year > 9999 || d.month < 0 || d.month > 12 || d.day < 0 || d.day > 31 || d == (date{}) {
		return false
	}
	if d.day == 0 {
		return true
	}
	year := d.year
	if year == 0 {
		year = 2000 // a leap year: 29 February exists
	}
	t := time.Date(year, time.Month(d.month), d.day, 0, 0, 0, 0, time.UTC)
	return d.month > 0 && int(t.Month()) == d.month
}

// say returns the date as it is read in English.
func (d date) say() string {
	var parts []string
	if d.month > 0 {
		parts = append(parts, time.Month(d.month).String())
	}
	if d.day > 0 {
		parts = append(parts, ordinal(d.day))
	}
	said := strings.Join(parts, " ")
	switch {
	case d.year == 0:
		return said
	case said == "":
		return strconv.Itoa(d.year)
	case d.day > 0:
		return fmt.Sprintf("%s, %d", said, d.year)
	}
	return fmt.Sprintf("%s %d", said, d.year)
}

// number is the value of a few digits, or -1 where they are too many.
func number(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil || len(digits) > 4 {
		return -1
	}
	return n
}
