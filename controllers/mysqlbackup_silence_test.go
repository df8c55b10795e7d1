package controllers

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/backups"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/jobs"
)

// oldCache is a client whose cache has stayed behind: it shows one MySQLBackup as it was.
type oldCache struct {
	client.Client
	shown *v1alpha1.MySQLBackup
}

// Get implements client.Client.
func (c oldCache) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	if b, is := into.(*v1alpha1.MySQLBackup); is && key == client.ObjectKeyFromObject(c.shown) {
		c.shown.DeepCopyInto(b)
		return nil
	}
	return c.Client.Get(ctx, key, into, opts...)
}

// noAPI is the way to an API server that does not answer.
type noAPI struct{ client.Client }

// Get implements client.Client.
func (noAPI) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("connection refused")
}

// dumping is a shelf with a dump that runs.
func dumping(t *testing.T) *shelf {
	t.Helper()
	s := newShelf(t)
	s.put("now", nil)
	s.look("now")
	s.running("now")
	return s
}

// restart has another operator begin, and show an old cache unless that is nil.
func (s *shelf) restart(cache client.Client) {
	next := &backups.Supervisor{Client: s.r.Client, Reader: s.r.Reader, Events: s.r.Events, Clock: s.clock, Images: s.r.Images, SystemNamespace: s.r.SystemNamespace}
	if cache != nil {
		next.Client = cache
	}
	s.r = next
}

// heard has the pod report progress.
func (s *shelf) heard() {
	s.t.Helper()
	s.report("now", func(st *v1alpha1.MySQLBackupStatus) { st.Progress.At = metav1.NewTime(s.clock.Now()) })
}

// goesOn fails the test unless the dump and its Job go on.
func (s *shelf) goesOn(when string) {
	s.t.Helper()
	b := s.look("now")
	if job := s.runner("now"); b.Status.Phase != v1alpha1.BackupRunning || job == nil || !job.DeletionTimestamp.IsZero() {
		s.t.Fatalf("%s: the backup is %+v; its Job is %+v", when, b.Status, job)
	}
}

// ends fails the test unless the Job of the dump is ended.
func (s *shelf) ends(when string) {
	s.t.Helper()
	s.look("now")
	if job := s.runner("now"); job != nil && job.DeletionTimestamp.IsZero() {
		s.t.Fatalf("%s: its Job goes on", when)
	}
}

// TestAnOperatorThatBeginsWaitsForAReport: while no operator ran, or none was heard by the API server, the pod of a dump could not
// report either, and it goes on all the same.
func TestAnOperatorThatBeginsWaitsForAReport(t *testing.T) {
	s := dumping(t)
	s.later(3 * time.Hour)
	s.restart(nil)
	s.goesOn("it has just begun")
	s.later(backups.ReportGrace - time.Minute)
	s.heard()
	s.later(2 * time.Minute)
	s.goesOn("the pod has reported")

	s.later(3 * time.Hour)
	s.restart(nil)
	s.goesOn("it has just begun")
	s.later(backups.ReportGrace + time.Second)
	s.ends("the pod is silent")
}

// TestAnOldCacheEndsNoDump: what the pod reported counts, however late a cache shows it.
func TestAnOldCacheEndsNoDump(t *testing.T) {
	s := dumping(t)
	old := s.get("now")
	s.later(3 * time.Hour)
	s.heard()
	s.restart(oldCache{shared.cached, old})
	for _, since := range []time.Duration{0, backups.ReportGrace + time.Second, 5 * time.Minute} {
		s.later(since)
		s.goesOn("the cache is old")
	}
	s.later(v1alpha1.DefaultStallTimeout)
	s.ends("the pod is silent")
}

// TestAnAPIServerThatWasAwayEndsNoDump: an operator that leads on through it gives the pod the time to report again, however long
// after the end of it the operator looks, and also when it ends just before the limit.
func TestAnAPIServerThatWasAwayEndsNoDump(t *testing.T) {
	for name, pauses := range map[string][]time.Duration{
		"hours":                 {3 * time.Hour, 15 * time.Minute},
		"until just before":     {v1alpha1.DefaultStallTimeout + time.Second, backups.ReportGrace - 2*time.Second},
		"beyond all patience":   {v1alpha1.DefaultStallTimeout + time.Second, jobs.EndPatience, time.Hour},
		"it is soon asked anew": {v1alpha1.DefaultStallTimeout + backups.ReportGrace + time.Second, backups.SuperviseEvery, backups.SuperviseEvery},
	} {
		t.Run(name, func(t *testing.T) {
			s := dumping(t)
			reader := s.r.Reader
			s.r.Reader = noAPI{shared.operator}
			for _, pause := range pauses {
				s.later(pause)
				if _, err := s.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s.get("now"))}); err == nil {
					t.Error("it did without the API server")
				}
			}
			s.r.Reader = reader
			s.later(backups.SuperviseEvery)
			s.goesOn("the API server is back")
			s.later(backups.ReportGrace - time.Second)
			s.goesOn("the pod may yet report")
			s.later(2 * time.Second)
			s.ends("the pod is silent")
		})
	}
}
