package pod

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
)

// TestABackupThatAPersonAskedFor is taken and reported, though the object is written to meanwhile.
func TestABackupThatAPersonAskedFor(t *testing.T) {
	s := newScene(t)
	s.make("now")
	w := s.pod("now", task.Task{Backup: "now"})
	during(w, func() {
		b := s.read("now")
		b.Annotations = map[string]string{"somebody": "was here"}
		must(t, kube.Update(t.Context(), b))
	})
	must(t, w.backup(t.Context()))
	b := s.read("now")
	st := b.Status
	if st.Phase != v1alpha1.BackupCompleted || st.Member != "orders-0" || st.GTIDSet == "" || st.StoredBytes == 0 || st.Runner != "now" || st.CompletedAt == nil || st.Progress != nil ||
		!strings.HasPrefix(st.Checksum, "sha256:") || st.Location != s.store.URL(st.Path) {
		t.Errorf("the status is %+v", st)
	}
	if got := s.stored(); got != wholeBackup {
		t.Errorf("stored are %s", got)
	}
	if _, err := w.place.Finished(t.Context(), strings.TrimPrefix(st.Path, w.place.Folder(""))); err != nil {
		t.Error(err)
	}
}

// TestABackupThatIsTakenFromItsPod: a pod that was given up, or whose place another one took, must not complete it after all.
func TestABackupThatIsTakenFromItsPod(t *testing.T) {
	giveUp := func(s *scene) {
		s.report("b", func(st *v1alpha1.MySQLBackupStatus) {
			st.Phase, st.Reason, st.Message, st.Progress = v1alpha1.BackupFailed, v1alpha1.BackupReasonStalled, "nothing was heard of it", nil
		})
	}
	remake := func(s *scene) {
		must(s.t, kube.Delete(s.t.Context(), s.read("b")))
		s.make("b")
	}
	another := func(s *scene) {
		s.report("b", func(st *v1alpha1.MySQLBackupStatus) {
			later := metav1.NewTime(st.StartedAt.Add(time.Minute))
			st.StartedAt, st.Path = &later, "another"
		})
	}
	for name, row := range map[string]struct {
		do      func(*scene)
		phase   v1alpha1.BackupPhase
		message string
	}{
		"the operator gave it up":      {giveUp, v1alpha1.BackupFailed, "nothing was heard of it"},
		"another pod began it anew":    {another, v1alpha1.BackupRunning, "dumping orders-0"},
		"it was deleted and made anew": {remake, "", ""},
	} {
		t.Run(name+" while it was dumped", func(t *testing.T) {
			s := newScene(t)
			s.make("b")
			w := s.pod("b", task.Task{Backup: "b"})
			watched := &watching{Store: s.store}
			w.place.Store = watched
			during(w, func() { row.do(s) })
			err := w.backup(t.Context())
			if !errors.Is(err, ErrFailed) || !errors.Is(err, errNotOurs) {
				t.Errorf("it ended with %v", err)
			}
			if watched.manifests > 0 {
				t.Error("it wrote a manifest")
			}
			if got := s.stored(); got != "" {
				t.Errorf("it left %s", got)
			}
			if st := s.read("b").Status; st.Phase != row.phase || st.Message != row.message {
				t.Errorf("the status is %+v", st)
			}
		})
		t.Run(name+" when its manifest was written", func(t *testing.T) {
			s := newScene(t)
			s.make("b")
			w := s.pod("b", task.Task{Backup: "b"})
			w.place.Store = &watching{Store: s.store, after: func() { row.do(s) }}
			if err := w.backup(t.Context()); !errors.Is(err, ErrFailed) || !errors.Is(err, errNotOurs) {
				t.Errorf("it ended with %v", err)
			}
			if got := s.stored(); got != "" {
				t.Errorf("it left %s", got)
			}
			if st := s.read("b").Status; st.Phase != row.phase || st.Message != row.message {
				t.Errorf("the status is %+v", st)
			}
		})
	}
}

// watching is a store that tells of manifests.
type watching struct {
	store.Store
	manifests int
	after     func()
}

func (w *watching) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	n, err := w.Store.Put(ctx, key, r)
	if strings.HasSuffix(key, "/manifest.json") {
		if w.manifests++; w.after != nil {
			w.after()
		}
	}
	return n, err
}

// TestAPodThatWasLost: the next one of its Job goes on from what is there.
func TestAPodThatWasLost(t *testing.T) {
	t.Run("before it had reported", func(t *testing.T) {
		s := newScene(t)
		s.make("b")
		w := s.pod("b", task.Task{Backup: "b"})
		ctx, kill := context.WithCancel(t.Context())
		w.place.Store = &watching{Store: s.store, after: kill}
		if err := w.backup(ctx); err == nil || errors.Is(err, ErrFailed) {
			t.Errorf("it ended with %v", err)
		}
		before := s.read("b").Status
		if got := s.stored(); got != wholeBackup || before.Phase != v1alpha1.BackupRunning {
			t.Fatalf("it left %q in %s: this tries nothing", got, before.Phase)
		}
		next := s.pod("b", task.Task{Backup: "b"})
		during(next, func() { t.Error("it was dumped again") })
		must(t, next.backup(t.Context()))
		if st := s.read("b").Status; st.Phase != v1alpha1.BackupCompleted || st.Path != before.Path || st.GTIDSet == "" || st.CompletedAt == nil {
			t.Errorf("the status is %+v", st)
		}
	})
	t.Run("in the middle", func(t *testing.T) {
		s := newScene(t)
		s.make("b")
		started := metav1.NewTime(time.Now().Add(-time.Hour)).Rfc3339Copy()
		w := s.pod("b", task.Task{Backup: "b"})
		s.report("b", func(st *v1alpha1.MySQLBackupStatus) {
			st.Phase, st.Runner, st.StartedAt, st.Path = v1alpha1.BackupRunning, "b", &started, w.place.Folder("half")
		})
		_, err := s.store.Put(t.Context(), w.place.Folder("half")+"/dump.sql.zst", strings.NewReader("half"))
		must(t, err)
		_, err = s.store.Put(t.Context(), "of-somebody-else", strings.NewReader("x"))
		must(t, err)
		must(t, w.backup(t.Context()))
		if st := s.read("b").Status; st.Phase != v1alpha1.BackupCompleted || st.Path == w.place.Folder("half") {
			t.Errorf("the status is %+v", st)
		}
		if got := s.stored(); got != wholeBackup+" of-somebody-else" {
			t.Errorf("stored are %s", got)
		}
	})
	t.Run("with a path that is none of its own", func(t *testing.T) {
		s := newScene(t)
		s.make("b")
		started := metav1.Now().Rfc3339Copy()
		s.report("b", func(st *v1alpha1.MySQLBackupStatus) {
			st.Phase, st.Runner, st.StartedAt, st.Path = v1alpha1.BackupRunning, "b", &started, "x"
		})
		_, err := s.store.Put(t.Context(), "x/kept", strings.NewReader("x"))
		must(t, err)
		must(t, s.pod("b", task.Task{Backup: "b"}).backup(t.Context()))
		if got := s.stored(); got != "accounts.json.zst definitions.json.zst dump.sql.zst kept manifest.json" {
			t.Errorf("stored are %s", got)
		}
	})
	t.Run("and what it said was not heard", func(t *testing.T) {
		s := newScene(t)
		s.make("b")
		w := s.pod("b", task.Task{Backup: "b"})
		lost := 2
		w.client = interceptor.NewClient(kube, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			b, _ := o.(*v1alpha1.MySQLBackup)
			completes := b.Status.Phase == v1alpha1.BackupCompleted
			if completes && lost == 2 {
				lost--
				return apierrors.NewServiceUnavailable("it restarts")
			}
			err := c.SubResource(sub).Patch(ctx, o, p, opts...)
			if completes && lost == 1 && err == nil {
				lost--
				return apierrors.NewServiceUnavailable("it restarts")
			}
			return err
		}})
		must(t, w.backup(t.Context()))
		if st := s.read("b").Status; st.Phase != v1alpha1.BackupCompleted || lost != 0 {
			t.Errorf("the status is %+v, %d answers were heard", st, lost)
		}
	})
}

// TestABackupOfAnother is left alone.
func TestABackupOfAnother(t *testing.T) {
	s := newScene(t)
	s.make("daily-1")
	if err := s.pod("daily-1", task.Task{Schedule: "daily"}).backup(t.Context()); !errors.Is(err, ErrFailed) {
		t.Errorf("one that a person made under the name of a schedule's: %v", err)
	}
	s.report("daily-1", func(st *v1alpha1.MySQLBackupStatus) { st.Phase, st.Runner = v1alpha1.BackupRunning, "another" })
	if err := s.pod("mine", task.Task{Backup: "daily-1"}).backup(t.Context()); !errors.Is(err, ErrFailed) {
		t.Errorf("one that another Job works on: %v", err)
	}
	if got := s.stored(); got != "" {
		t.Errorf("stored are %s", got)
	}
}

// TestASchedulesRetention: objects are named before their data go, and what was verified last stays.
func TestASchedulesRetention(t *testing.T) {
	s := newScene(t)
	run := func(job string, look func(*worker)) v1alpha1.MySQLBackupStatus {
		t.Helper()
		w := s.pod(job, task.Task{Schedule: "daily", Retention: task.Retention{Keep: 2}})
		if look != nil {
			look(w)
		}
		must(t, w.backup(t.Context()))
		time.Sleep(time.Second) // folders are in the order of their seconds
		return s.read(job).Status
	}
	for _, job := range []string{"d1", "d2"} {
		if st := run(job, nil); st.Phase != v1alpha1.BackupCompleted || len(st.Pruned) > 0 {
			t.Errorf("%s: %+v", job, st)
		}
	}
	_, folder, _ := strings.Cut(s.read("d1").Status.Path, "/backups/")
	must(t, s.pod("verify", task.Task{}).place.RecordVerdict(t.Context(), folder, nil, time.Now()))
	if st := run("d3", nil); len(st.Pruned) > 0 {
		t.Errorf("the only one that was ever restored is gone: %+v", st)
	}
	st := run("d4", func(w *worker) {
		w.place.Store = &deleting{s.store, func(keys []string) {
			if named := s.read("d4").Status.Pruned; !slices.Contains(named, "d2") {
				t.Errorf("%s is deleted and the operator knows of %v", keys, named)
			}
		}}
	})
	if !slices.Equal(st.Pruned, []string{"d2"}) || st.Message != "" {
		t.Errorf("the status is %+v", st)
	}
	if got := strings.Count(s.stored(), "manifest.json"); got != 3 {
		t.Errorf("%d backups are left", got)
	}
	// A pod that is lost in the middle of that leaves it to the next one.
	ctx, kill := context.WithCancel(t.Context())
	w := s.pod("d5", task.Task{Schedule: "daily", Retention: task.Retention{Keep: 2}})
	w.place.Store = &deleting{s.store, func([]string) { kill() }}
	if err := w.backup(ctx); err == nil {
		t.Error("it was not lost: this tries nothing")
	}
	if st := run("d5", nil); st.Phase != v1alpha1.BackupCompleted || !slices.Equal(st.Pruned, []string{"d3"}) {
		t.Errorf("the status is %+v", st)
	}
	if got := strings.Count(s.stored(), "manifest.json"); got != 3 {
		t.Errorf("%d backups are left", got)
	}
}

// TestRetentionKnowsEarlierVerifications, whose results are only in the status of MySQLBackups: earlier versions wrote them nowhere else. One
// that passed stays although the last one failed for another reason, and one that was refuted takes the place of no other.
func TestRetentionKnowsEarlierVerifications(t *testing.T) {
	s := newScene(t)
	run := func(job string) v1alpha1.MySQLBackupStatus {
		t.Helper()
		must(t, s.pod(job, task.Task{Schedule: "daily", Retention: task.Retention{Keep: 2}}).backup(t.Context()))
		time.Sleep(time.Second) // folders are in the order of their seconds
		return s.read(job).Status
	}
	verified := func(job, reason string, passed *metav1.Time) {
		t.Helper()
		s.report(job, func(st *v1alpha1.MySQLBackupStatus) {
			st.VerifiedAt = passed
			st.Verification = &v1alpha1.VerificationStatus{At: metav1.Now(), Result: v1alpha1.VerificationFailed, Reason: reason, Message: "so it is"}
		})
	}
	run("d1")
	run("d2")
	verified("d1", v1alpha1.BackupReasonTooOld, ptr.To(metav1.Now()))
	verified("d2", v1alpha1.BackupReasonDiffers, nil)
	if st := run("d3"); len(st.Pruned) > 0 || st.Message != "" {
		t.Errorf("beside one that is refuted two are kept: %+v", st)
	}
	if st := run("d4"); !slices.Equal(st.Pruned, []string{"d2"}) || st.Message != "" {
		t.Errorf("the refuted one goes, and not the only one that was ever restored: %+v", st)
	}
	verified("d4", "LoadFailed", nil) // of an operator that had no other word for a load that found no room
	if st := run("d5"); !slices.Equal(st.Pruned, []string{"d3"}) || st.Message != "" {
		t.Errorf("one that may only have found no room is kept as a good one: %+v", st)
	}
	if got := strings.Count(s.stored(), "manifest.json"); got != 3 {
		t.Errorf("%d backups are left", got)
	}
}

// TestADumpThatIsGone: the next dump or verification says on its MySQLBackup that objects of it are missing, and later that they are there
// again.
func TestADumpThatIsGone(t *testing.T) {
	s := newScene(t)
	run := func(job string) {
		t.Helper()
		must(t, s.pod(job, task.Task{Schedule: "daily"}).backup(t.Context()))
		time.Sleep(time.Second) // folders are in the order of their seconds
	}
	standing := func(want v1alpha1.BackupStanding, names ...string) {
		t.Helper()
		for _, name := range names {
			if b := s.read(name); b.Standing() != want || b.Status.Phase != v1alpha1.BackupCompleted {
				t.Errorf("%s: standing %d, want %d: %+v", name, b.Standing(), want, b.Status)
			}
		}
	}
	for _, job := range []string{"whole", "lifecycle", "one-object", "truncated", "elsewhere"} {
		run(job)
	}
	lose := func(name, object string) (restore func()) {
		t.Helper()
		kept := map[string]string{}
		for o, err := range s.store.List(t.Context(), s.read(name).Status.Path+"/"+object) {
			must(t, err)
			text, err := store.ReadAll(t.Context(), s.store, o.Key, 1<<20)
			must(t, err)
			kept[o.Key] = string(text)
			must(t, s.store.Delete(t.Context(), o.Key))
		}
		if len(kept) == 0 {
			t.Fatalf("%s has no %s", name, object)
		}
		return func() {
			for key, text := range kept {
				_, err := s.store.Put(t.Context(), key, strings.NewReader(text))
				must(t, err)
			}
		}
	}
	putBack := lose("lifecycle", "")
	lose("one-object", "dump.sql.zst")
	_, err := s.store.Put(t.Context(), s.read("truncated").Status.Path+"/dump.sql.zst", strings.NewReader("x"))
	must(t, err)
	// What was written elsewhere is not missing here.
	lose("elsewhere", "")
	s.report("elsewhere", func(st *v1alpha1.MySQLBackupStatus) { st.Destination.S3.Endpoint = "https://store.example.com" })
	run("next")
	standing(v1alpha1.StandingGood, "whole", "elsewhere", "next")
	standing(v1alpha1.StandingVanished, "lifecycle", "one-object", "truncated")
	since := s.read("lifecycle").Status.VanishedAt.Time
	putBack()
	lose("whole", "manifest.json")
	must(t, s.pod("verify", task.Task{}).compare(t.Context()))
	standing(v1alpha1.StandingGood, "lifecycle", "elsewhere", "next")
	standing(v1alpha1.StandingVanished, "whole", "one-object", "truncated")
	if at := s.read("one-object").Status.VanishedAt.Time; !at.Equal(since) {
		t.Errorf("it has been missing since %s, and %s is written", since, at)
	}
}

// TestWhatIsInUseIsKept: retention passes over a backup that somebody restores from, until that has ended, and so does the pod that
// removes one.
func TestWhatIsInUseIsKept(t *testing.T) {
	s := newScene(t)
	run := func(job string) v1alpha1.MySQLBackupStatus {
		t.Helper()
		must(t, s.pod(job, task.Task{Schedule: "daily", Retention: task.Retention{Keep: 1}}).backup(t.Context()))
		time.Sleep(time.Second) // folders are in the order of their seconds
		return s.read(job).Status
	}
	path := run("d1").Path
	mark := path + "/used-by/another-cluster"
	_, err := s.store.Put(t.Context(), mark, strings.NewReader("x"))
	must(t, err)
	if st := run("d2"); len(st.Pruned) > 0 || st.Message != "" || s.read("d2").Status.Phase != v1alpha1.BackupCompleted {
		t.Errorf("while it is used: %+v", st)
	}
	if err := s.pod("rm", task.Task{Path: path}).remove(t.Context()); !errors.Is(err, backup.ErrInUse) || errors.Is(err, ErrFailed) {
		t.Errorf("its removal: %v", err)
	}
	if got := strings.Count(s.stored(), "manifest.json"); got != 2 {
		t.Errorf("%d backups are left", got)
	}
	must(t, s.store.Delete(t.Context(), mark))
	if st := run("d3"); len(st.Pruned) != 2 {
		t.Errorf("afterwards: %+v", st)
	}
}

// TestTwoSchedulesOfTheSameMinute: both back up at once, each into a folder of its own, and neither's retention touches the other's.
func TestTwoSchedulesOfTheSameMinute(t *testing.T) {
	s := newScene(t)
	for _, minute := range []string{"1", "2"} {
		var group sync.WaitGroup
		failures := make(chan error, 2)
		for _, schedule := range []string{"daily", "hourly"} {
			w := s.pod("orders-"+schedule+"-"+minute, task.Task{Schedule: schedule, Retention: task.Retention{Keep: 1}})
			group.Go(func() { failures <- w.backup(t.Context()) })
		}
		group.Wait()
		must(t, errors.Join(<-failures, <-failures))
		time.Sleep(time.Second) // folders are in the order of their seconds
	}
	place, paths := s.pod("x", task.Task{}).place, map[string]bool{}
	for _, schedule := range []string{"daily", "hourly"} {
		name := "orders-" + schedule + "-2"
		st := s.read(name).Status
		m, err := place.Finished(t.Context(), strings.TrimPrefix(st.Path, place.Folder("")))
		if err != nil || st.Phase != v1alpha1.BackupCompleted || m.Backup != name || m.Schedule != schedule || paths[st.Path] {
			t.Errorf("%s: %+v in %+v, %v", name, m, st, err)
		}
		paths[st.Path] = true
		if !slices.Equal(st.Pruned, []string{"orders-" + schedule + "-1"}) {
			t.Errorf("%s made %v superfluous", name, st.Pruned)
		}
	}
	if got := strings.Count(s.stored(), "manifest.json"); got != 2 {
		t.Errorf("%d backups are left", got)
	}
}

// deleting tells of what is deleted.
type deleting struct {
	store.Store
	before func(keys []string)
}

func (d *deleting) Delete(ctx context.Context, keys ...string) error {
	d.before(keys)
	return d.Store.Delete(ctx, keys...)
}

// TestABackupThatFails says why, and leaves nothing.
func TestABackupThatFails(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*scene, *worker)
		reason string
		left   string
	}{
		"no bucket": {func(s *scene, w *worker) {
			var err error
			w.place.Store, err = store.NewS3(s.t.Context(), store.S3Options{Bucket: "nowhere", Region: "us-east-1", Endpoint: cloud.Endpoint(), AccessKeyID: "lab", SecretAccessKey: "lab", Attempts: 1, MaxPause: time.Millisecond})
			must(s.t, err)
		}, v1alpha1.BackupReasonNoBucket, ""},
		"no store at all": {func(_ *scene, w *worker) { w.place.Store = broken{store.ErrDenied} }, v1alpha1.BackupReasonAccessDenied, ""},
		"mysqldump hangs": {func(_ *scene, w *worker) {
			w.task.StallTimeout = time.Second
			w.program = func(ctx context.Context, name string, arguments ...string) *exec.Cmd {
				if slices.Contains(arguments, "--version") {
					return primary.Program(ctx, name, arguments...)
				}
				return primary.Program(ctx, "sh", append([]string{"-c", `"$0" "$@" | head -c 3000; exec sleep 30`, name}, arguments...)...)
			}
		}, v1alpha1.BackupReasonStalled, ""},
		"no manifest, and nothing may be deleted": {func(_ *scene, w *worker) {
			w.place.Store = stubborn{w.place.Store, store.ErrUnavailable}
		}, v1alpha1.BackupReasonStoreUnavailable, "accounts.json.zst definitions.json.zst dump.sql.zst"},
		"nothing more is allowed after the dump, and nothing may be deleted": {func(_ *scene, w *worker) {
			w.place.Store = stubborn{w.place.Store, store.ErrDenied}
		}, v1alpha1.BackupReasonAccessDenied, "accounts.json.zst definitions.json.zst dump.sql.zst"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.make("b")
			w := s.pod("b", task.Task{Backup: "b"})
			row.change(s, w)
			if err := w.backup(t.Context()); !errors.Is(err, ErrFailed) {
				t.Errorf("it ended with %v", err)
			}
			if st := s.read("b").Status; st.Phase != v1alpha1.BackupFailed || st.Reason != row.reason || st.Message == "" || st.CompletedAt == nil || st.Progress != nil {
				t.Errorf("the status is %+v", st)
			}
			if got := s.stored(); got != row.left {
				t.Errorf("it left %s", got)
			}
			// Where that is stays known, and what is not there is not pointed at.
			if st := s.read("b").Status; (st.Path != "") != (row.left != "") || (st.Location != "") != (row.left != "") {
				t.Errorf("it left %q, and points at %q, %q", row.left, st.Path, st.Location)
			}
			// The next pod of the Job leaves it at that.
			if err := s.pod("b", task.Task{Backup: "b"}).backup(t.Context()); !errors.Is(err, ErrFailed) {
				t.Errorf("the next pod ended with %v", err)
			}
		})
	}
}

// stubborn is a store that takes no manifest and deletes nothing.
type stubborn struct {
	store.Store
	refusal error
}

func (s stubborn) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	if strings.HasSuffix(key, "/manifest.json") {
		return 0, s.refusal
	}
	return s.Store.Put(ctx, key, r)
}

func (s stubborn) Delete(context.Context, ...string) error { return s.refusal }
