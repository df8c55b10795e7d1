package topology

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// fields visits every field below a value that is no struct itself, with its path.
func fields(v reflect.Value, path string, visit func(path string, field reflect.Value)) {
	if v.Kind() != reflect.Struct || v.Type() == reflect.TypeFor[time.Time]() {
		visit(path, v)
		return
	}
	for i := range v.NumField() {
		fields(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
	}
}

// fill sets a field to something that is not its zero value.
func fill(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint64:
		v.SetUint(7)
	case reflect.Array:
		fill(t, path, v.Index(0))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, path, v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		element := reflect.New(v.Type().Elem()).Elem()
		fields(element, path, func(path string, field reflect.Value) { fill(t, path, field) })
		v.SetMapIndex(reflect.ValueOf("orders-0"), element)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fields(v.Elem(), path, func(path string, field reflect.Value) { fill(t, path, field) })
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
			return
		}
		fields(v, path, func(path string, field reflect.Value) { fill(t, path, field) })
	default:
		t.Fatalf("%s is a %s", path, v.Kind())
	}
}

// filled are records in which everything is set.
func filled(t *testing.T) ClusterRecord {
	t.Helper()
	var r ClusterRecord
	fields(reflect.ValueOf(&r).Elem(), "Records", func(path string, field reflect.Value) { fill(t, path, field) })
	return r
}

// TestEveryFieldOfTheRecordsCounts: a field that a comparison forgot would be a write that is left out.
func TestEveryFieldOfTheRecordsCounts(t *testing.T) {
	n := 0
	var r ClusterRecord
	fields(reflect.ValueOf(&r).Elem(), "Records", func(path string, field reflect.Value) {
		fill(t, path, field)
		empty := r.Empty() != (path == "Records.Schema") // which says how they are written, and records nothing
		if r.Equal(ClusterRecord{}) || (ClusterRecord{}).Equal(r) || empty {
			t.Errorf("%s does not count", path)
		}
		field.SetZero()
		n++
	})
	rec := MemberRecord{}
	fields(reflect.ValueOf(&rec).Elem(), "Record", func(path string, field reflect.Value) {
		fill(t, path, field)
		if (ClusterRecord{Members: map[string]MemberRecord{"orders-0": rec}}).Equal(ClusterRecord{Members: map[string]MemberRecord{"orders-0": {}}}) {
			t.Errorf("%s does not count", path)
		}
		field.SetZero()
		n++
	})
	if n < 60 {
		t.Errorf("only %d fields were tried", n)
	}
	if empty := (ClusterRecord{Members: map[string]MemberRecord{}, PowerOffs: PowerOffs{PoweredOff: []string{}}}); !empty.Equal(ClusterRecord{}) {
		t.Error("nothing is something else than nothing")
	}
}

// TestRecordsAreKeptWhole: what is written is what is read, and a copy shares nothing with its original.
func TestRecordsAreKeptWhole(t *testing.T) {
	r := filled(t)
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var read ClusterRecord
	if err := json.Unmarshal(text, &read); err != nil || !reflect.DeepEqual(read, r) {
		t.Errorf("read %+v: %v", read, err)
	}
	c := r.Clone()
	fields(reflect.ValueOf(&c).Elem(), "Records", func(_ string, field reflect.Value) {
		switch field.Kind() {
		case reflect.Slice:
			field.Index(0).SetZero()
		case reflect.Pointer:
			field.Elem().SetZero()
		case reflect.Map:
			field.SetMapIndex(reflect.ValueOf("orders-1"), reflect.New(field.Type().Elem()).Elem())
		default:
		}
	})
	if !reflect.DeepEqual(read, r) {
		t.Errorf("the original changed with its copy: %+v", r)
	}
}

// TestOldRecordsAreDoubted: a row that is newer than the records shows that they are an old copy. In its time a primary may have gone on
// alone, so that two of three voters prove nothing.
func TestOldRecordsAreDoubted(t *testing.T) {
	for name, row := range map[string]struct {
		recorded uint64
		promoted string
	}{"those of the row": {6, "orders-1"}, "those that are ahead of it": {8, "orders-1"}, "older ones": {5, ""}} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0", "orders-1", "orders-2"}, W: 1})
			s.observed.Records.Epoch, s.observed.Records.Established = row.recorded, true
			s.observed.Records.Leader, s.observed.Records.LeaderServer = "orders-0", uuidOf(0)
			s.lose(0)
			s.io(ioOff, 1, 2)
			p := pureNext(s.desired, s.observed)
			var promoted string
			for _, a := range planned[Promote](p) {
				promoted = a.Member
			}
			if promoted != row.promoted || p.Records.AloneUnknown != (row.promoted == "") {
				t.Errorf("%q is promoted, and whether one was alone is unknown: %t", promoted, p.Records.AloneUnknown)
			}
		})
	}
}

// TestALongSetIsNotRecorded: what a proof found helps to repeat it. The records must hold it four times over, and be read again.
func TestALongSetIsNotRecorded(t *testing.T) {
	const server = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	of := func(intervals int) gtid.Set {
		var text strings.Builder
		text.WriteString(server)
		for n := range intervals {
			fmt.Fprintf(&text, ":%d", 1000001+2*n)
		}
		set, err := gtid.Parse(text.String())
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	m := &Member{Name: "orders-1"}
	m.SQL.ServerUUID = server
	for intervals, recorded := range map[int]bool{100: true, 10000: false} {
		r := ClusterRecord{}
		r.recordPromotion(m, 7, Proof{Candidate: m.Name, MayBeAcknowledged: of(intervals), Void: of(intervals)})
		if r.Leader != m.Name || (r.LeaderAcknowledged != "") != recorded || (r.LeaderVoid != "") != recorded {
			t.Errorf("%d intervals: leader %q, %d bytes acknowledged, %d void", intervals, r.Leader, len(r.LeaderAcknowledged), len(r.LeaderVoid))
		}
	}
}
