package pod

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
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

// taken takes a backup and returns where it is.
func (s *scene) taken(name string) string {
	s.t.Helper()
	s.make(name)
	must(s.t, s.pod(name, task.Task{Backup: name}).backup(s.t.Context()))
	return s.read(name).Status.Path
}

// reportIn makes the ConfigMap that the operator makes for a pod.
func (s *scene) reportIn(name string) {
	s.t.Helper()
	must(s.t, kube.Create(s.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}))
}

func (s *scene) said(name string) map[string]string {
	s.t.Helper()
	var cm corev1.ConfigMap
	must(s.t, kube.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, &cm))
	return cm.Data
}

// restorer is a pod that restores a path into a server.
func (s *scene) restorer(path string, into *mysqld.Server) *worker {
	s.t.Helper()
	w := s.pod("orders-recovery", task.Task{Path: path, Recovery: task.Recovery{Target: "orders-0"}, Report: "orders-recovery"})
	w.reach, w.credentials, w.program, w.jobUID = reach(into), files(s.t, into, operator), into.Program, "uid-of-the-job"
	return w
}

// fresh is a server of a new cluster.
func fresh(t *testing.T) *mysqld.Server {
	t.Helper()
	server, err := farm.Start(t.Context(), mysqld.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, farm.Discard(server)) })
	return server
}

func rows(t *testing.T, s *mysqld.Server) string {
	t.Helper()
	out, err := s.SQL(t.Context(), "SELECT IFNULL((SELECT TABLE_ROWS >= 0 FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'shop' AND TABLE_NAME = 'orders'), 'none')")
	must(t, err)
	if out == "none" {
		return out
	}
	out, err = s.SQL(t.Context(), "SELECT GROUP_CONCAT(id ORDER BY id) FROM shop.orders")
	must(t, err)
	return out
}

// TestARestoreReports how it went, and under which Job; what it left out is said also when another pod of the Job ends it.
func TestARestoreReports(t *testing.T) {
	_, err := primary.SQL(t.Context(), "CREATE DATABASE old; CREATE TABLE old.t (a INT); CREATE USER heir; GRANT SELECT ON old.t TO heir; DROP TABLE old.t")
	must(t, err)
	defer func() {
		_, err := primary.SQL(context.WithoutCancel(t.Context()), "DROP DATABASE old; DROP USER heir")
		must(t, err)
	}()
	s := newScene(t)
	path := s.taken("b")
	s.reportIn("orders-recovery")
	into := fresh(t)
	w := s.restorer(path, into)
	must(t, w.restore(t.Context()))
	said := s.said("orders-recovery")
	const left = "GRANT SELECT ON `old`.`t` TO `heir`@`%`"
	if said[task.ReportState] != stateDone || said[task.ReportJob] != "uid-of-the-job" || !strings.Contains(said[task.ReportMessage], left) || !strings.Contains(said[task.ReportSkipped], left) {
		t.Errorf("it said %v", said)
	}
	if got := rows(t, into); got != "1,2,3" {
		t.Errorf("restored are %s", got)
	}
	// Another pod of the Job finds it done.
	must(t, s.restorer(path, into).restore(t.Context()))
	if said = s.said("orders-recovery"); said[task.ReportState] != stateDone || !strings.Contains(said[task.ReportMessage], left) {
		t.Errorf("then it said %v", said)
	}
	// Another recovery does not write over it.
	w = s.restorer(path, into)
	w.task.ClusterUID = "another"
	if err := w.restore(t.Context()); !errors.Is(err, ErrFailed) {
		t.Errorf("into a server that has data: %v", err)
	}
	if said = s.said("orders-recovery"); said[task.ReportState] != stateFailed || said[task.ReportReason] != v1alpha1.BackupReasonNotEmpty {
		t.Errorf("it said %v", said)
	}
}

// denying answers everything with a refusal, as S3 does for wrong credentials.
func denying(t *testing.T, code string, status int) store.Store {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte("<Error><Code>" + code + "</Code><Message>no</Message></Error>"))
	}))
	t.Cleanup(server.Close)
	s, err := store.NewS3(t.Context(), store.S3Options{Bucket: "my-backups", Region: "us-east-1", Endpoint: server.URL, AccessKeyID: "a", SecretAccessKey: "b", Attempts: 2, MaxPause: time.Millisecond})
	must(t, err)
	return s
}

// damage changes an object of a backup.
func (s *scene) damage(path, name string, change func([]byte) []byte) {
	s.t.Helper()
	key := path + "/" + name
	content, err := store.ReadAll(s.t.Context(), s.store, key, 1<<30)
	must(s.t, err)
	_, err = s.store.Put(s.t.Context(), key, bytes.NewReader(change(bytes.Clone(content))))
	must(s.t, err)
}

// contents are the objects of a backup, and put puts them back.
func (s *scene) contents(path string) map[string][]byte {
	s.t.Helper()
	all := map[string][]byte{}
	for _, name := range strings.Fields(wholeBackup) {
		content, err := store.ReadAll(s.t.Context(), s.store, path+"/"+name, 1<<30)
		must(s.t, err)
		all[name] = content
	}
	return all
}

func (s *scene) put(path string, contents map[string][]byte) {
	s.t.Helper()
	for name, content := range contents {
		_, err := s.store.Put(s.t.Context(), path+"/"+name, bytes.NewReader(content))
		must(s.t, err)
	}
}

// promise makes a backup's manifest promise something else.
func (s *scene) promise(w *worker, path string, change func(*backup.Manifest)) {
	s.t.Helper()
	_, folder, _ := strings.Cut(path, "/backups/")
	m, err := w.place.ReadManifest(s.t.Context(), folder)
	must(s.t, err)
	change(&m)
	must(s.t, w.place.WriteManifest(s.t.Context(), folder, m))
}

func flipped(b []byte) []byte { b[len(b)/2] ^= 1; return b }
func halved(b []byte) []byte  { return b[:len(b)/2] }

// printing makes a program that prints an error and fails.
func printing(text string) func(context.Context, string, ...string) *exec.Cmd {
	return func(ctx context.Context, _ string, _ ...string) *exec.Cmd {
		return exec.CommandContext(ctx, "sh", "-c", `read -r line; echo "$0" >&2; exit 1`, text)
	}
}

// TestARestoreThatFails says why, for good where trying again is of no use, and never that it is done.
func TestARestoreThatFails(t *testing.T) {
	s := newScene(t)
	path := s.taken("b")
	whole := s.contents(path)
	s.reportIn("orders-recovery")
	into := fresh(t) // one that failed is begun again
	for name, row := range map[string]struct {
		change func(*scene, *worker)
		reason string
		again  bool
	}{
		"wrong credentials":     {func(s *scene, w *worker) { w.place.Store = denying(s.t, "InvalidAccessKeyId", http.StatusForbidden) }, v1alpha1.BackupReasonAccessDenied, false},
		"the bucket is gone":    {func(s *scene, w *worker) { w.place.Store = denying(s.t, "NoSuchBucket", http.StatusNotFound) }, v1alpha1.BackupReasonNoBucket, false},
		"the bucket is silent":  {func(s *scene, w *worker) { w.place.Store = denying(s.t, "SlowDown", http.StatusServiceUnavailable) }, v1alpha1.BackupReasonStoreUnavailable, true},
		"a bit of the dump":     {func(s *scene, w *worker) { s.damage(w.task.Path, "dump.sql.zst", flipped) }, v1alpha1.BackupReasonDamaged, false},
		"half of the dump":      {func(s *scene, w *worker) { s.damage(w.task.Path, "dump.sql.zst", halved) }, v1alpha1.BackupReasonDamaged, false},
		"a bit of the accounts": {func(s *scene, w *worker) { s.damage(w.task.Path, "accounts.json.zst", flipped) }, v1alpha1.BackupReasonDamaged, false},
		"a bit of a definition": {func(s *scene, w *worker) { s.damage(w.task.Path, "definitions.json.zst", flipped) }, v1alpha1.BackupReasonDamaged, false},
		"a bit of the manifest": {func(s *scene, w *worker) { s.damage(w.task.Path, "manifest.json", flipped) }, v1alpha1.BackupReasonDamaged, false},
		"half of the manifest":  {func(s *scene, w *worker) { s.damage(w.task.Path, "manifest.json", halved) }, v1alpha1.BackupReasonDamaged, false},
		"the dump is gone":      {func(s *scene, w *worker) { must(s.t, s.store.Delete(s.t.Context(), w.task.Path+"/dump.sql.zst")) }, v1alpha1.BackupReasonDamaged, false},
		"no backup":             {func(_ *scene, w *worker) { w.task.Path = w.place.Folder("20260101T000000Z-none") }, v1alpha1.BackupReasonNotFound, false},
		"the mysql client ends": {func(_ *scene, w *worker) {
			w.program = func(ctx context.Context, _ string, _ ...string) *exec.Cmd { return exec.CommandContext(ctx, "false") }
		}, v1alpha1.BackupReasonLoadFailed, true},
		"the server refuses a statement": {func(_ *scene, w *worker) {
			w.program = printing("ERROR 1449 (HY000) at line 5: The user specified as a definer ('a'@'%') does not exist")
		}, v1alpha1.BackupReasonLoadRejected, false},
		"the server has no room": {func(_ *scene, w *worker) {
			w.program = printing("ERROR 1114 (HY000) at line 5: The table 't' is full")
		}, v1alpha1.BackupReasonLoadFailed, true},
		"the server goes down": {func(_ *scene, w *worker) {
			w.program = printing("ERROR 1053 (08S01) at line 5: Server shutdown in progress")
		}, v1alpha1.BackupReasonLoadFailed, true},
		"the connection is lost": {func(_ *scene, w *worker) {
			w.program = printing("ERROR 2013 (HY000) at line 5: Lost connection to MySQL server during query")
		}, v1alpha1.BackupReasonLoadFailed, true},
		"a dump of a newer MySQL": {func(s *scene, w *worker) {
			s.promise(w, w.task.Path, func(m *backup.Manifest) { m.Version = "9.99.0" })
		}, v1alpha1.BackupReasonWrongVersion, false},
		"a row less than promised": {func(s *scene, w *worker) { s.promise(w, w.task.Path, func(m *backup.Manifest) { m.Tables[0].Rows++ }) }, v1alpha1.BackupReasonDiffers, false},
		"a point that nobody kept": {func(_ *scene, w *worker) { at := time.Now(); w.task.UntilTime = &at }, v1alpha1.BackupReasonOutOfReach, false},
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			defer s.put(path, whole)
			w := s.restorer(path, into)
			row.change(s, w)
			if err := w.restore(t.Context()); err == nil || errors.Is(err, ErrFailed) == row.again {
				t.Errorf("it ended with %v", err)
			}
			said := s.said("orders-recovery")
			if said[task.ReportState] != stateFailed || said[task.ReportReason] != row.reason || said[task.ReportMessage] == "" || said[task.ReportFailure] != row.reason+": "+said[task.ReportMessage] {
				t.Errorf("it said %v, not %s", said, row.reason)
			}
			if out, err := into.SQL(t.Context(), "SELECT @@read_only"); err != nil || out != "1" {
				t.Errorf("the server is open to writes: %s, %v", out, err)
			}
			if left, err := s.store.Sweep(t.Context(), ""); err != nil || left > 0 {
				t.Errorf("%d unfinished uploads are left, %v", left, err)
			}
		})
	}
	s.t = t
	must(t, s.restorer(path, into).restore(t.Context()))
	if got := rows(t, into); got != "1,2,3" || s.said("orders-recovery")[task.ReportState] != stateDone {
		t.Errorf("in the end restored are %s; it said %v", got, s.said("orders-recovery"))
	}
}

// TestOneThatWasCutOffIsBegunAgain by the next pod of its Job.
func TestOneThatWasCutOffIsBegunAgain(t *testing.T) {
	s := newScene(t)
	path := s.taken("b")
	s.reportIn("orders-recovery")
	into := fresh(t)
	w := s.restorer(path, into)
	ctx, kill := context.WithCancel(t.Context())
	genuine := w.program
	w.program = func(ctx context.Context, name string, arguments ...string) *exec.Cmd {
		kill()
		return genuine(ctx, name, arguments...)
	}
	if err := w.restore(ctx); err == nil || errors.Is(err, ErrFailed) {
		t.Fatalf("it was cut off, and ended with %v", err)
	}
	must(t, s.restorer(path, into).restore(t.Context()))
	if got := rows(t, into); got != "1,2,3" || s.said("orders-recovery")[task.ReportState] != stateDone {
		t.Errorf("restored are %s; it said %v", got, s.said("orders-recovery"))
	}
}

// TestRemove removes a backup's folder and nothing else; what is no such folder is refused.
func TestRemove(t *testing.T) {
	s := newScene(t)
	path := s.taken("b")
	time.Sleep(1100 * time.Millisecond) // folders are in the order of their seconds
	s.taken("c")
	remove := func(path string) error {
		return s.pod("rm", task.Task{Path: path}).remove(t.Context())
	}
	for _, wrong := range []string{"", "mysql", path + "/dump.sql.zst", strings.TrimSuffix(path, path[strings.LastIndexByte(path, '/')+1:])} {
		if err := remove(wrong); !errors.Is(err, ErrFailed) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if got := s.stored(); strings.Count(got, "manifest.json") != 2 {
		t.Fatalf("stored are %s", got)
	}
	for range 2 { // again is a success
		must(t, remove(path))
	}
	if got := s.stored(); got != wholeBackup {
		t.Errorf("stored are %s", got)
	}
	w := s.pod("rm", task.Task{Path: path})
	w.place.Store = denying(t, "AccessDenied", http.StatusForbidden)
	if err := w.remove(t.Context()); !errors.Is(err, store.ErrDenied) || errors.Is(err, ErrFailed) {
		t.Errorf("refused: %v", err)
	}
}
