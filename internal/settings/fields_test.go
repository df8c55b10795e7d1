package settings_test

import (
	"reflect"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/settings"
)

// TestFieldsOfTheirOwnAreSettable: what a field of the spec gives for a variable that the operator keeps would be put back in every pass.
func TestFieldsOfTheirOwnAreSettable(t *testing.T) {
	var spec v1alpha1.MySQLClusterSpec
	fill(reflect.ValueOf(&spec).Elem(), 4)
	spec.MySQLD = nil
	for name := range spec.Settings() {
		if d, ok := settings.Decide(name); !ok || d.Class != settings.Settable {
			t.Errorf("%s is %s: take it out of the operator's settings first", name, d.Class)
		}
	}
}

// fill sets what is not set: pointers, strings and numbers, so many levels deep.
func fill(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), depth-1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), depth-1)
			}
		}
	case reflect.String:
		v.SetString("1")
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Bool:
		v.SetBool(true)
	default: // a map, a slice
	}
}
