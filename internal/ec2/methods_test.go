package ec2

import (
	"iter"
	"reflect"
	"strings"
	"testing"
	"unicode"
)

// coversCloud fails unless each method of Cloud either has a row or is excepted with a reason. The name of a row begins with the method
// that it calls; that of another row begins with a small letter.
func coversCloud(t *testing.T, rows iter.Seq[string], excepted map[string]string) {
	t.Helper()
	called, methods := map[string]bool{}, map[string]bool{}
	for row := range rows {
		if method, _, _ := strings.Cut(row, " "); unicode.IsUpper(rune(method[0])) {
			called[method] = true
		}
	}
	for m := range reflect.TypeFor[*Cloud]().Methods() {
		methods[m.Name] = true
		if excluded := excepted[m.Name] != ""; called[m.Name] == excluded {
			t.Errorf("the method %s of Cloud: has a row is %t, is excepted is %t; want one of both", m.Name, called[m.Name], excluded)
		}
	}
	for name := range called {
		if !methods[name] {
			t.Errorf("Cloud has no method %s, which a row names", name)
		}
	}
	for name := range excepted {
		if !methods[name] {
			t.Errorf("Cloud has no method %s, which is excepted", name)
		}
	}
}
