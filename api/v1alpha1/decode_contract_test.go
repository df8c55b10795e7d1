package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// wrongTimes pass for a date-time with the API server, or with Go, or look as if they did. None of them is what Go writes.
var wrongTimes = []string{
	"2026-01-01t00:00:00z", "2026-01-01T00:00:00z", "2026-01-01t00:00:00Z", "2026-01-01T00:00:00x5Z", "2026-01-01T00:00:00+99:99",
	"2026-01-01T00:00:00-24:01", "2026-01-01T00:00:00+02:00", "2026-01-01T00:00:00-00:00", "2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00,5Z",
	"2026-01-01T24:00:00Z", "2026-01-01T23:60:00Z", "2026-01-01T23:59:60Z", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-01-00T00:00:00Z",
	"2026-01-32T00:00:00Z", "2026-04-31T00:00:00Z", "2026-02-30T00:00:00Z", "2026-02-29T00:00:00Z", "2100-02-29T00:00:00Z",
	"12026-01-01T00:00:00Z", "026-01-01T00:00:00Z", "2026-1-1T0:0:0Z", "2026-01-01T00:00Z", "2026-01-01T00:00:00", "2026-01-01 00:00:00Z", "2026-01-01",
	"2026-01-01T00:00:00Ztt", "2026-01-01T00:00:00Z\n", " 2026-01-01T00:00:00Z", "٢٠٢٦-01-01T00:00:00Z", "1767225600", "now", "",
}

// leaf is a field whose text or number Go may be unable to decode.
type leaf struct {
	path   []string // with [] for the items of a list
	kind   reflect.Type
	schema apiextensionsv1.JSONSchemaProps
	rules  apiextensionsv1.ValidationRules // of all that it is in
}

func (l leaf) name() string { return strings.Join(l.path, ".") }

var (
	unmarshaler  = reflect.TypeFor[json.Unmarshaler]()
	timeType     = reflect.TypeFor[metav1.Time]()
	durationType = reflect.TypeFor[metav1.Duration]()
	quantityType = reflect.TypeFor[resource.Quantity]()
)

// leaves walks a type and its schema side by side.
func leaves(t *testing.T, kind reflect.Type, s apiextensionsv1.JSONSchemaProps, rules apiextensionsv1.ValidationRules, path ...string) []leaf {
	t.Helper()
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	rules = append(slices.Clone(rules), s.XValidations...)
	here := []leaf{{path: slices.Clone(path), kind: kind, schema: s, rules: rules}}
	if s.XPreserveUnknownFields != nil || s.XEmbeddedResource {
		t.Errorf("%v takes anything, which Go may not", path)
	}
	switch {
	case reflect.PointerTo(kind).Implements(unmarshaler):
		return here
	case kind.Kind() == reflect.Struct:
		here = nil
		for field := range kind.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if field.Anonymous && name == "" {
				here = append(here, leaves(t, field.Type, s, rules, path...)...)
				continue
			}
			property, ok := s.Properties[name]
			if !ok {
				t.Errorf("%v has no %s in its schema", path, name)
				continue
			}
			here = append(here, leaves(t, field.Type, property, rules, append(path, name)...)...)
		}
		return here
	case kind.Kind() == reflect.Slice:
		return leaves(t, kind.Elem(), *s.Items.Schema, rules, append(path, "[]")...)
	case kind.Kind() == reflect.Map:
		return leaves(t, kind.Elem(), *s.AdditionalProperties.Schema, rules, append(path, "{}")...)
	}
	return here
}

// contractLeaves are those of both kinds, spec and status.
func contractLeaves(t *testing.T) map[string][]leaf {
	t.Helper()
	found := map[string][]leaf{}
	for name, kind := range map[string]reflect.Type{crdName: reflect.TypeFor[v1alpha1.MySQLCluster](), "mysqlbackups.mysql.alx.ke": reflect.TypeFor[v1alpha1.MySQLBackup]()} {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := api(t).Get(t.Context(), client.ObjectKey{Name: name}, &crd); err != nil {
			t.Fatal(err)
		}
		schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		for part, field := range map[string]string{"spec": "Spec", "status": "Status"} {
			of, _ := kind.FieldByName(field)
			found[crd.Spec.Names.Kind] = append(found[crd.Spec.Names.Kind], leaves(t, of.Type, schema.Properties[part], schema.XValidations, part)...)
		}
	}
	return found
}

// TestWhatTheAPIServerTakesGoCanRead: one object that Go cannot decode blinds the operator to all of its kind, in every
// namespace. Every field whose decoding can fail has a rule of its own that leaves nothing of the sort through.
func TestWhatTheAPIServerTakesGoCanRead(t *testing.T) {
	has := func(l leaf, text string) bool {
		return slices.ContainsFunc(l.rules, func(r apiextensionsv1.ValidationRule) bool { return strings.Contains(r.Rule, text) })
	}
	count := 0
	for kind, all := range contractLeaves(t) {
		for _, l := range all {
			count++
			s, good := l.schema, false
			switch {
			case l.kind == timeType:
				good = s.Type == "string" && s.Format == "date-time" && (s.Pattern != "" || has(l, "string(c.lastTransitionTime).size() == 20"))
			case l.kind == durationType:
				good = s.Type == "string" && has(l, "duration(self)")
			case l.kind == quantityType:
				good = s.XIntOrString && has(l, "isQuantity(string(self)) && ")
			case l.kind.Kind() == reflect.String:
				good = s.Type == "string"
			case l.kind.Kind() == reflect.Bool:
				good = s.Type == "boolean"
			case l.kind.Kind() == reflect.Int32:
				good = s.Type == "integer" && s.Minimum != nil && *s.Minimum >= -1<<31 && s.Maximum != nil && *s.Maximum <= 1<<31-1
			case l.kind.Kind() == reflect.Int64:
				good = s.Type == "integer" // what is beyond it is no integer to the API server: see TestNumbersBeyondTheirType
			}
			if !good {
				t.Errorf("%s %s: nothing keeps from a %s what Go cannot decode", kind, l.name(), l.kind)
			}
		}
	}
	if count < 100 {
		t.Errorf("only %d fields were found", count)
	}
}

// stored makes an object of a kind.
func stored(t *testing.T, kind, name string) *unstructured.Unstructured {
	t.Helper()
	object := backupOf(t, name)
	if kind == "MySQLCluster" {
		object = cluster(t, name)
	}
	if err := api(t).Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	return object
}

// patchOf is a merge patch that sets one field, and nothing that it needs beside.
func patchOf(path []string, value any) client.Patch {
	for _, name := range slices.Backward(path) {
		if name == "[]" {
			value = []any{value}
		} else {
			value = map[string]any{name: value}
		}
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return client.RawPatch(types.MergePatchType, text)
}

// TestTimesThatGoCannotRead sends each wrong time to each field of a time. In conditions it is the only wrong thing, because
// their rule is asked last.
func TestTimesThatGoCannotRead(t *testing.T) {
	for kind, all := range contractLeaves(t) {
		object := stored(t, kind, "times")
		for _, l := range all {
			if l.kind != timeType || l.path[1] == "conditions" {
				continue
			}
			for _, text := range wrongTimes {
				// Dates that the calendar lacks are the format's to refuse, everything else the pattern's.
				err := api(t).Status().Patch(t.Context(), object.DeepCopy(), patchOf(l.path, text), client.DryRunAll)
				if err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(l.name(), ".[]", "[0]")+": Invalid value") {
					t.Errorf("%s %s = %q: %v", kind, l.name(), text, err)
				}
			}
		}
		if kind != "MySQLCluster" {
			continue
		}
		for _, text := range wrongTimes {
			if text == "2026-01-01T00:00:00-00:00" {
				continue // is read as UTC by the rule as by Go
			}
			condition := map[string]any{"type": "Available", "status": "True", "reason": "WriteSucceeded", "message": "", "lastTransitionTime": text}
			err := api(t).Status().Patch(t.Context(), object.DeepCopy(), patchOf([]string{"status", "conditions", "[]"}, condition), client.DryRunAll)
			if err == nil || !strings.Contains(err.Error(), "status.conditions") {
				t.Errorf("%s of a condition = %q: %v", kind, text, err)
			}
		}
	}
}

// TestNumbersBeyondTheirType sends numbers that the types of Go do not hold, or that JSON writes as something else.
func TestNumbersBeyondTheirType(t *testing.T) {
	beyond := map[reflect.Kind][]string{
		reflect.Int32: {"2147483648", "-2147483649", "4294967296", "1e10", "0.5", `"1"`},
		reflect.Int64: {"9223372036854775808", "-9223372036854775809", "1e19", "1e300", "0.5", `"1"`},
	}
	for kind, all := range contractLeaves(t) {
		object := stored(t, kind, "numbers")
		for _, l := range all {
			for _, number := range beyond[l.kind.Kind()] {
				if l.path[0] == "spec" {
					continue // TestEverythingIsBoundedAndExplained
				}
				err := api(t).Status().Patch(t.Context(), object.DeepCopy(), patchOf(l.path, json.RawMessage(number)), client.DryRunAll)
				if err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(l.name(), ".[]", "[0]")+": Invalid value") {
					t.Errorf("%s %s = %s: %v", kind, l.name(), number, err)
				}
			}
		}
	}
}

// TestTimesThatGoWrites: what the operator and its pods write is taken, and comes back as it was.
func TestTimesThatGoWrites(t *testing.T) {
	backup, mysql := &v1alpha1.MySQLBackup{}, &v1alpha1.MySQLCluster{}
	for kind, object := range map[string]client.Object{"MySQLBackup": backup, "MySQLCluster": mysql} {
		if err := api(t).Get(t.Context(), client.ObjectKeyFromObject(stored(t, kind, "written")), object); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"2026-01-01T00:00:00Z", "2024-02-29T23:59:59Z", "2000-02-29T12:00:00+05:30", "2026-12-31T00:00:00.987654321-08:00", "1970-01-01T00:00:00Z"} {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		moment := metav1.NewTime(at)
		backup.Status = v1alpha1.MySQLBackupStatus{StartedAt: &moment, CompletedAt: &moment, Progress: &v1alpha1.BackupProgress{At: moment},
			BackupFindings: v1alpha1.BackupFindings{VanishedAt: &moment, VerifiedAt: &moment, Verification: &v1alpha1.VerificationStatus{At: moment, Result: v1alpha1.VerificationPassed}}}
		mysql.Status = v1alpha1.MySQLClusterStatus{
			Conditions:    []metav1.Condition{{Type: "Available", Status: metav1.ConditionTrue, Reason: "WriteSucceeded", LastTransitionTime: moment}},
			Rollout:       &v1alpha1.RolloutStatus{Since: &moment},
			LastPromotion: &v1alpha1.PromotionStatus{Kind: "Failover", To: "written-1", Total: "1", At: moment},
			Backup:        &v1alpha1.BackupSummary{LastGoodAt: &moment, LastFailedAt: &moment, LastVerifiedAt: &moment, FirstRecoverablePoint: &moment},
		}
		for _, object := range []client.Object{backup, mysql} {
			if err := api(t).Status().Update(t.Context(), object); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		want := at.Truncate(time.Second)
		for what, got := range map[string]metav1.Time{
			"backup": *backup.Status.StartedAt, "progress": backup.Status.Progress.At, "verification": backup.Status.Verification.At,
			"condition": mysql.Status.Conditions[0].LastTransitionTime, "rollout": *mysql.Status.Rollout.Since, "promotion": mysql.Status.LastPromotion.At,
			"summary": *mysql.Status.Backup.FirstRecoverablePoint,
		} {
			if !got.Time.Equal(want) {
				t.Errorf("%s: %s came back as %s", what, text, fmt.Sprint(got))
			}
		}
	}
}
