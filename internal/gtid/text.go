package gtid

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

const (
	// uuidLength is the length of a UUID as MySQL prints it, hyphens included.
	uuidLength = 36
	// maxTagLength is the longest tag that MySQL accepts.
	maxTagLength = 32
	// maxStop ends the largest interval: MySQL's transaction numbers are below 2^63 - 1.
	maxStop = math.MaxInt64
)

// Parse reads a GTID set as MySQL prints it in gtid_executed and elsewhere:
//
//	uuid:1-5:8, uuid:tag:1-3:other_tag:7
//
// A tag holds for the intervals that follow it, up to the next tag or UUID. White space around the parts, upper case,
// overlapping and unsorted intervals are accepted; an empty text is the empty set. What MySQL never prints
// (an interval that runs backwards, a transaction number of 0) is an error.
func Parse(text string) (Set, error) {
	if strings.TrimSpace(text) == "" {
		return Set{}, nil
	}
	var terms []weighted
	for part := range strings.SplitSeq(text, ",") {
		var err error
		if terms, err = appendPart(terms, part); err != nil {
			return Set{}, fmt.Errorf("parse GTID set: %w", err)
		}
	}
	return combine(1, terms...), nil
}

// MustParse is Parse for texts that are known to be right, as in tests. It panics on others.
func MustParse(text string) Set {
	s, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return s
}

// appendPart adds the intervals of one `uuid[:tag]:interval…` to terms.
func appendPart(terms []weighted, part string) ([]weighted, error) {
	fields := strings.Split(part, ":")
	uuid, err := parseUUID(strings.TrimSpace(fields[0]))
	if err != nil {
		return nil, err
	}
	key, complete := uuid, false
	for _, field := range fields[1:] {
		field = strings.TrimSpace(field)
		if tag, ok := parseTag(field); ok {
			key, complete = uuid+":"+tag, false
			continue
		}
		i, err := parseInterval(field)
		if err != nil {
			return nil, err
		}
		terms = append(terms, weighted{Set{[]source{{key, []interval{i}}}}, 1})
		complete = true
	}
	if !complete {
		return nil, fmt.Errorf("no interval after %q", key)
	}
	return terms, nil
}

func parseUUID(text string) (string, error) {
	if len(text) != uuidLength {
		return "", fmt.Errorf("%q is not a UUID", text)
	}
	lower := strings.ToLower(text)
	for n := range len(lower) {
		hyphen := n == 8 || n == 13 || n == 18 || n == 23
		if hyphen != (lower[n] == '-') || !hyphen && !isHex(lower[n]) {
			return "", fmt.Errorf("%q is not a UUID", text)
		}
	}
	return lower, nil
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f'
}

// parseTag returns the tag in lower case, as MySQL stores it: a letter or underscore, then letters, digits, underscores.
func parseTag(text string) (string, bool) {
	if text == "" || len(text) > maxTagLength {
		return "", false
	}
	lower := strings.ToLower(text)
	for n := range len(lower) {
		c := lower[n]
		letter := c == '_' || 'a' <= c && c <= 'z'
		digit := '0' <= c && c <= '9'
		if !letter && (n == 0 || !digit) {
			return "", false
		}
	}
	return lower, true
}

// parseInterval reads `5` or `5-9`.
func parseInterval(text string) (interval, error) {
	first, last, isRange := strings.Cut(text, "-")
	start, err := parseNumber(strings.TrimSpace(first))
	if err != nil {
		return interval{}, err
	}
	if !isRange {
		return interval{start, start + 1}, nil
	}
	end, err := parseNumber(strings.TrimSpace(last))
	if err != nil {
		return interval{}, err
	}
	if end < start {
		return interval{}, fmt.Errorf("interval %q runs backwards", text)
	}
	return interval{start, end + 1}, nil
}

func parseNumber(text string) (int64, error) {
	// ParseInt accepts a sign, which is no part of a transaction number.
	if text == "" || text[0] < '0' || text[0] > '9' {
		return 0, fmt.Errorf("%q is neither a transaction number nor a tag", text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n >= maxStop {
		return 0, fmt.Errorf("transaction number %q is not between 1 and %d", text, int64(maxStop-1))
	}
	return n, nil
}

// String returns the set in its one canonical form, which MySQL reads: sorted, merged, lower case, without white space.
// Equal sets have equal texts. The empty set is the empty text.
func (s Set) String() string {
	var b strings.Builder
	for n, src := range s.sources {
		uuid, tag := src.key[:uuidLength], src.key[uuidLength:]
		switch {
		case n > 0 && s.sources[n-1].key[:uuidLength] == uuid:
			b.WriteString(tag)
		case n > 0:
			b.WriteByte(',')
			b.WriteString(src.key)
		default:
			b.WriteString(src.key)
		}
		for _, i := range src.intervals {
			b.WriteByte(':')
			b.WriteString(strconv.FormatInt(i.start, 10))
			if i.stop > i.start+1 {
				b.WriteByte('-')
				b.WriteString(strconv.FormatInt(i.stop-1, 10))
			}
		}
	}
	return b.String()
}
