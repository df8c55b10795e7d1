package mysql

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

var (
	// variableName is that of a system variable; a component's or plug-in's begins with its own name and a dot.
	variableName = regexp.MustCompile(`^[a-z][a-z0-9_]*([.][a-z0-9_]+)?$`)
	wholeNumber  = regexp.MustCompile(`^-?[0-9]{1,20}$`)
	sizedNumber  = regexp.MustCompile(`^([0-9]{1,19})([KMGTPEkmgtpe])$`)
	realNumber   = regexp.MustCompile(`^-?[0-9]{1,20}\.[0-9]{1,20}$`)
)

// maxVariableName is in characters.
const maxVariableName = 64

// SettingLiteral turns a setting as a user writes it into an argument for the driver: whole numbers stay numbers,
// suffixes K to E are multiplied out (SET does not take them, my.cnf does), everything else is a string.
func SettingLiteral(value string) (any, error) {
	switch {
	case wholeNumber.MatchString(value):
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			return n, nil
		}
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %s is no number of 64 bits", ErrSettingRefused, value)
		}
		return n, nil
	case sizedNumber.MatchString(value):
		return expandSize(value)
	case realNumber.MatchString(value):
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %s is no number", ErrSettingRefused, value)
		}
		return n, nil
	default:
		return value, nil
	}
}

// expandSize multiplies out a size such as 512M.
func expandSize(value string) (uint64, error) {
	parts := sizedNumber.FindStringSubmatch(value)
	n, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s is no size", ErrSettingRefused, value)
	}
	shift := 10 * (1 + strings.Index("KMGTPE", strings.ToUpper(parts[2])))
	if n > math.MaxUint64>>shift {
		return 0, fmt.Errorf("%w: %s is beyond 64 bits", ErrSettingRefused, value)
	}
	return n << shift, nil
}

// IsNumber says whether SettingLiteral makes a number of a value.
func IsNumber(value string) bool {
	literal, err := SettingLiteral(strings.TrimSpace(value))
	_, isText := literal.(string)
	return err == nil && !isText
}

// EqualSetting says whether a value as a user writes it and a value as MySQL shows it are the same:
// sizes multiplied out, switches in any spelling, letter case ignored.
func EqualSetting(want, have string) bool {
	return canonicalSetting(want) == canonicalSetting(have)
}

func canonicalSetting(value string) string {
	value = strings.TrimSpace(value)
	switch strings.ToUpper(value) {
	case "ON", "TRUE", "YES":
		return "1"
	case "OFF", "FALSE", "NO":
		return "0"
	}
	switch literal, err := SettingLiteral(value); {
	case err != nil:
		return value
	default:
		if f, ok := literal.(float64); ok {
			return strings.TrimSuffix(strconv.FormatFloat(f, 'f', -1, 64), ".0")
		}
		return strings.ToLower(fmt.Sprint(literal))
	}
}

// CheckVariable refuses what is no name of a variable: names go into SQL as they are.
func CheckVariable(name string) error {
	if len(name) > maxVariableName || !variableName.MatchString(name) {
		return fmt.Errorf("%w: %q is no name of a variable", ErrSettingRefused, name)
	}
	return nil
}
