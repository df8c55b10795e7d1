package controllers

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/records"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// leads makes an operator that writes its name into the records, and holds the lease.
func (w *world) leads(name string) *operator {
	o := w.newOperator(nil)
	o.Config.WriterID, o.Config.Lease = name, func(context.Context) error { return nil }
	return o
}

// TestEditedRecordsArePutBack: an operator that leads knows them better than whoever edits them, or restores a copy of another time.
func TestEditedRecordsArePutBack(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]func(*testing.T, topology.ClusterRecord) string{
		"of a new cluster": func(*testing.T, topology.ClusterRecord) string { return `{"hand":"-"}` },
		"emptied":          func(*testing.T, topology.ClusterRecord) string { return "" },
		"no JSON":          func(*testing.T, topology.ClusterRecord) string { return "{" },
		"beyond measure": func(*testing.T, topology.ClusterRecord) string {
			return `{"held":[` + strings.Repeat(`"x",`, records.MaxListed) + `"x"]}`
		},
		"without who stands alone": func(t *testing.T, records topology.ClusterRecord) string {
			records.Alone, records.AloneSince, records.WriterID = "", 0, "an earlier operator"
			text, err := json.Marshal(records)
			must(t, err)
			return string(text)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			o := w.leads("first")
			w.drive(o, patience, w.machinesUp)
			w.passes(o, 3)
			w.changeRecords(func(records *topology.ClusterRecord) { records.Alone, records.AloneSince = "orders-1", 7 })
			second := w.leads("second") // takes them as they are
			w.passes(second, 2)
			cm, before := w.records()
			if before.WriterID != "second" || before.Alone != "orders-1" {
				t.Fatalf("the records are %+v", before)
			}
			cm.Data[resources.KeyMembers] = text(t, before)
			must(t, w.client.Update(t.Context(), cm))
			w.drive(second, patience, func() bool {
				_, now := w.records()
				return now.Equal(before)
			})
			version := w.recordsVersion()
			w.passes(second, 3)
			if w.recordsVersion() != version {
				t.Error("they are written again and again")
			}
			w.oneOfEach(members)
			if strings.Contains(w.condition(v1alpha1.ConditionDegraded), "ForeignResource") {
				t.Errorf("it is still told of: %s", w.condition(v1alpha1.ConditionDegraded))
			}
		})
	}
}

// TestRecordsThatAreGoneAreMadeAgain, with everything that was in them.
func TestRecordsThatAreGoneAreMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.leads("first")
	w.drive(o, patience, w.machinesUp)
	w.passes(o, 3)
	cm, before := w.records()
	cm.Finalizers = nil
	must(t, w.client.Update(t.Context(), cm))
	must(t, w.client.Delete(t.Context(), cm))
	w.passes(o, 3)
	if now, after := w.records(); now.UID == cm.UID || !after.Equal(before) {
		t.Errorf("the records were %+v and are %+v", before, after)
	}
	version := w.recordsVersion()
	w.passes(o, 3)
	if w.recordsVersion() != version {
		t.Error("they are written again and again")
	}
}

// TestRecordsOfANewClusterHideNothing: nobody knows any more what they said, but EC2 shows that the cluster is not new.
func TestRecordsOfANewClusterHideNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.drive(w.newOperator(nil), patience, w.machinesUp)
	cm, _ := w.records()
	cm.Data[resources.KeyMembers] = `{"hand":"-"}`
	must(t, w.client.Update(t.Context(), cm))
	o := w.newOperator(nil)
	w.passes(o, 3)
	if _, records := w.records(); records.RebuiltAt.IsZero() || !records.AloneUnknown || len(records.Members) != members {
		t.Errorf("the records are %+v", records)
	}
	w.follow(o, 5)
	w.oneOfEach(members)
}

// TestRecordsAreReadWhileTheyAreSaved, as by the actions of several members, which run side by side.
func TestRecordsAreReadWhileTheyAreSaved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.leads("first")
	w.drive(o, patience, w.machinesUp)
	s := w.seen(o)
	var wg sync.WaitGroup
	for name := range s.Records().Members {
		wg.Go(func() {
			err := s.Stored.Save(t.Context(), func(records *topology.ClusterRecord) {
				rec := records.Members[name]
				rec.SignedInstance = "i-" + name
				records.Members[name] = rec
			})
			if err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if s.Owner().ClusterUID == "" || s.Record(name).Volume == 0 {
				t.Error("what a pass knows of its records is not whole")
			}
		})
	}
	wg.Wait()
	_, stored := w.records()
	for name := range s.Records().Members {
		if stored.Members[name].SignedInstance != "i-"+name {
			t.Errorf("%s: what was saved is %+v", name, stored.Members[name])
		}
	}
}
