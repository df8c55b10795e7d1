package mysql

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Version is x.y.z. The zero Version is below all others.
type Version [3]int

// ParseVersion reads x.y.z, without what a distribution appends after a hyphen.
func ParseVersion(text string) (Version, error) {
	var v Version
	numbers, _, _ := strings.Cut(text, "-")
	parts := strings.Split(numbers, ".")
	if len(parts) != len(v) {
		return v, fmt.Errorf("%q is no version", text)
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil {
			return Version{}, fmt.Errorf("%q is no version", text)
		}
		v[i] = n
	}
	return v, nil
}

// OlderVersion says whether version a is below b. What is no version, such as an unknown one, is below all.
func OlderVersion(a, b string) bool {
	x, _ := ParseVersion(a)
	y, _ := ParseVersion(b)
	return slices.Compare(x[:], y[:]) < 0
}

// SameSeries says whether two versions are of one series, such as 9.7.1 and 9.7.4.
func SameSeries(a, b string) bool {
	x, _ := ParseVersion(a)
	y, _ := ParseVersion(b)
	return slices.Equal(x[:2], y[:2])
}
