package mysql

import (
	"errors"
	"testing"
)

func TestSettingLiteral(t *testing.T) {
	for _, row := range []struct {
		value string
		want  any
	}{
		{"100", int64(100)},
		{"-1", int64(-1)},
		{"18446744073709551615", uint64(18446744073709551615)},
		{"512M", uint64(512 << 20)},
		{"1g", uint64(1 << 30)},
		{"15E", uint64(15 << 60)},
		{"0.5", 0.5},
		{"ON", "ON"},
		{"1; DROP TABLE x", "1; DROP TABLE x"},
		{"12MB", "12MB"},
		{"", ""},
	} {
		if got, err := SettingLiteral(row.value); err != nil || got != row.want {
			t.Errorf("%q: %v (%T), %v; want %v", row.value, got, got, err, row.want)
		}
	}
	for _, value := range []string{"16E", "99999999999P", "99999999999999999999"} {
		if got, err := SettingLiteral(value); !errors.Is(err, ErrSettingRefused) {
			t.Errorf("%q: %v, %v", value, got, err)
		}
	}
}

func TestEqualSetting(t *testing.T) {
	for _, row := range []struct {
		want, have string
		equal      bool
	}{
		{"1G", "1073741824", true},
		{"on", "ON", true},
		{"1", "ON", true},
		{"true", "1", true},
		{"OFF", "0", true},
		{"READ-COMMITTED", "read-committed", true},
		{"0.50", "0.500000", true},
		{"10", "10.000000", true},
		{"100", "101", false},
		{"ON", "OFF", false},
		{"", "0", false},
	} {
		if EqualSetting(row.want, row.have) != row.equal {
			t.Errorf("EqualSetting(%q, %q) is not %t", row.want, row.have, row.equal)
		}
	}
}

func TestNamesOfVariables(t *testing.T) {
	for _, name := range []string{"", "Max", "a b", "a=1", "9a", "a.b.c", "a.", ".a", "a..b", "@@a", "a;", "a.b;"} {
		if CheckVariable(name) == nil {
			t.Errorf("%q is taken for a variable", name)
		}
	}
	for _, name := range []string{"max_connections", "validate_password.length", "mysqlx_port"} {
		if err := CheckVariable(name); err != nil {
			t.Error(err)
		}
	}
}
