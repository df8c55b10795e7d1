package pod

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// short is a folder whose name is short enough for a socket, and that must be empty in the end.
func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "verify-")
	must(t, err)
	t.Cleanup(func() { must(t, os.Remove(dir)) })
	return dir
}

// stopping is a store in which a pod is told to end when it looks for backups.
type stopping struct {
	store.Store
	stop func()
}

// List implements store.Store.
func (s stopping) List(ctx context.Context, prefix string) iter.Seq2[store.Object, error] {
	s.stop()
	return s.Store.List(ctx, prefix)
}

// TestAVerificationThatBeginsReportsItsJob before it has a result: by that the operator knows that its pod runs.
func TestAVerificationThatBeginsReportsItsJob(t *testing.T) {
	s := newScene(t)
	s.reportIn("orders-verify")
	w := s.pod("orders-verify-1", task.Task{Report: "orders-verify"})
	w.jobUID = "uid-of-the-job"
	ctx, stop := context.WithCancel(t.Context())
	w.place.Store = stopping{w.place.Store, stop}
	if err := w.verify(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if said := s.said("orders-verify"); len(said) != 1 || said[task.ReportJob] != "uid-of-the-job" {
		t.Errorf("it said %v", said)
	}
	// Where it is not heard it goes on.
	w.place.Store, w.task.Report = s.store, "missing"
	if err := w.verify(t.Context()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("it ended with %v", err)
	}
}

// loaderPrints has the mysql client print an error and end.
func loaderPrints(programs func(context.Context, string, ...string) *exec.Cmd, text string) func(context.Context, string, ...string) *exec.Cmd {
	return func(ctx context.Context, name string, arguments ...string) *exec.Cmd {
		if name == "mysql" {
			return printing(text)(ctx, name, arguments...)
		}
		return programs(ctx, name, arguments...)
	}
}

// TestAVerificationReports on the MySQLBackup and in the ConfigMap: what is whole passes, and nothing else.
func TestAVerificationReports(t *testing.T) {
	programs, err := mysqld.HostPrograms(t.Context())
	must(t, err)
	s := newScene(t)
	path := s.taken("b")
	whole := s.contents(path)
	s.reportIn("orders-verify")
	for name, row := range map[string]struct {
		change func(*scene, *worker, string)
		result v1alpha1.VerificationResult
		reason string
		silent bool // on the MySQLBackup
	}{
		"whole":             {nil, v1alpha1.VerificationPassed, "", false},
		"a bit of the dump": {func(s *scene, _ *worker, path string) { s.damage(path, "dump.sql.zst", flipped) }, v1alpha1.VerificationFailed, v1alpha1.BackupReasonDamaged, false},
		"half of the dump":  {func(s *scene, _ *worker, path string) { s.damage(path, "dump.sql.zst", halved) }, v1alpha1.VerificationFailed, v1alpha1.BackupReasonDamaged, false},
		"a row less than promised": {func(s *scene, w *worker, path string) {
			s.promise(w, path, func(m *backup.Manifest) { m.Tables[0].Rows++ })
		}, v1alpha1.VerificationFailed, v1alpha1.BackupReasonDiffers, false},
		"a statement that no server takes": {func(_ *scene, w *worker, _ string) {
			w.program = loaderPrints(programs, "ERROR 3819 (HY000) at line 5: Check constraint 'c' is violated.")
		}, v1alpha1.VerificationFailed, v1alpha1.BackupReasonLoadRejected, false},
		"no room for the server": {func(_ *scene, w *worker, _ string) {
			w.program = loaderPrints(programs, "ERROR 1114 (HY000) at line 5: The table 't' is full")
		}, v1alpha1.VerificationFailed, v1alpha1.BackupReasonLoadFailed, false},
		"the manifest": {func(s *scene, _ *worker, path string) { s.damage(path, "manifest.json", halved) }, v1alpha1.VerificationFailed, v1alpha1.BackupReasonDamaged, false},
		"no heartbeat": {func(_ *scene, w *worker, _ string) { w.task.MaxAge = time.Hour }, v1alpha1.VerificationFailed, v1alpha1.BackupReasonTooOld, false},
		"the bucket is gone": {func(s *scene, w *worker, _ string) { w.place.Store = denying(s.t, "NoSuchBucket", http.StatusNotFound) },
			v1alpha1.VerificationFailed, v1alpha1.BackupReasonNoBucket, true},
		"wrong credentials": {func(s *scene, w *worker, _ string) {
			w.place.Store = denying(s.t, "SignatureDoesNotMatch", http.StatusForbidden)
		},
			v1alpha1.VerificationFailed, v1alpha1.BackupReasonAccessDenied, true},
		"no backup": {func(s *scene, w *worker, path string) {
			_, folder, _ := strings.Cut(path, "/backups/")
			must(s.t, w.place.Remove(s.t.Context(), folder))
		}, v1alpha1.VerificationFailed, v1alpha1.BackupReasonNotFound, true},
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			defer s.put(path, whole)
			verdict := path + "/verification.json"
			must(t, s.store.Delete(t.Context(), verdict))
			s.report("b", func(st *v1alpha1.MySQLBackupStatus) { st.BackupFindings = v1alpha1.BackupFindings{} })
			must(t, kube.Patch(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "orders-verify"}}, client.RawPatch(client.Merge.Type(), []byte(`{"data":null}`))))
			w := s.pod("orders-verify-1", task.Task{Report: "orders-verify"})
			w.program, w.workDir = programs, short(t)
			if row.change != nil {
				row.change(s, w, path)
			}
			err := w.verify(t.Context())
			if (err == nil) != (row.result == v1alpha1.VerificationPassed) {
				t.Errorf("it ended with %v", err)
			}
			said, v := s.said("orders-verify"), s.read("b").Status.Verification
			if said[task.ReportState] != string(row.result) || said[task.ReportReason] != row.reason || said[task.ReportAt] == "" || (said[task.ReportPassedBackup] == "b") != (err == nil) {
				t.Errorf("it said %v", said)
			}
			switch {
			case row.silent:
				if v != nil {
					t.Errorf("the MySQLBackup says %+v", v)
				}
			case v == nil || v.Result != row.result || v.Reason != row.reason:
				text, _ := json.Marshal(v)
				t.Errorf("the MySQLBackup says %s", text)
			}
			refuted := row.reason == v1alpha1.BackupReasonDamaged || row.reason == v1alpha1.BackupReasonDiffers || row.reason == v1alpha1.BackupReasonLoadRejected
			text, err := store.ReadAll(t.Context(), s.store, verdict, 1<<20)
			if (err == nil) != (refuted || row.result == v1alpha1.VerificationPassed) || err == nil && strings.Contains(string(text), `"passed":true`) == refuted {
				t.Errorf("its folder says %s, %v", text, err)
			}
			gone := row.reason == v1alpha1.BackupReasonNotFound
			if good := s.read("b").Good(); good == (refuted || gone) {
				t.Errorf("whether it is good: %v", good)
			}
			if st := s.read("b").Status; st.Phase != v1alpha1.BackupCompleted || (st.VerifiedAt != nil) != (row.result == v1alpha1.VerificationPassed) {
				t.Errorf("the status is %+v", st)
			}
		})
	}
}
