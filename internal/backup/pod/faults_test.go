package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// fault answers a request to S3 in its place when it returns true.
type fault func(http.ResponseWriter, *http.Request) bool

// faulty puts a proxy before a scene's S3 that misbehaves as it is told. A fault of nil ends that.
func (s *scene) faulty() (endpoint string, misbehave func(fault)) {
	s.t.Helper()
	upstream, err := url.Parse(cloud.Endpoint())
	must(s.t, err)
	pass := httputil.NewSingleHostReverseProxy(upstream)
	var now atomic.Pointer[fault]
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := now.Load(); f != nil && *f != nil && (*f)(w, r) {
			return
		}
		pass.ServeHTTP(w, r)
	}))
	s.t.Cleanup(proxy.Close)
	return proxy.URL, func(f fault) { now.Store(&f) }
}

// through is the scene's store by way of an endpoint.
func (s *scene) through(endpoint string) store.Store {
	s.t.Helper()
	st, err := openThrough(s.t.Context(), s.namespace, endpoint)
	must(s.t, err)
	return st
}

func openThrough(ctx context.Context, bucket, endpoint string) (store.Store, error) {
	return store.NewS3(ctx, store.S3Options{
		Bucket: bucket, Prefix: "mysql", Region: "us-east-1", Endpoint: endpoint, AccessKeyID: "lab", SecretAccessKey: "lab", Attempts: 4, MaxPause: 10 * time.Millisecond,
	})
}

// refuse answers as S3 does.
func refuse(w http.ResponseWriter, r *http.Request, status int, code string) bool {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>as the test wants it</Message></Error>`, code)
	return true
}

// partOf is the number of the part that a request uploads; 0 for every other request.
func partOf(r *http.Request) int {
	if r.Method != http.MethodPut {
		return 0
	}
	n, _ := strconv.Atoi(r.URL.Query().Get("partNumber"))
	return n
}

func completes(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
}
func aborts(r *http.Request) bool {
	return r.Method == http.MethodDelete && r.URL.Query().Has("uploadId")
}

// whole reads all that a backup stored, down to the checksums of its manifest.
func (s *scene) whole(path string) {
	s.t.Helper()
	place := s.pod("x", task.Task{}).place
	folder := strings.TrimPrefix(path, place.Folder(""))
	m, err := place.Finished(s.t.Context(), folder)
	must(s.t, err)
	for _, stream := range []backup.Stream{m.Dump, m.Accounts, m.Definitions} {
		r, err := place.Unpack(s.t.Context(), folder, stream)
		must(s.t, err)
		_, err = io.Copy(io.Discard, r)
		must(s.t, errors.Join(err, r.Close()))
	}
	if len(m.Dump.Objects) != 1 || m.Dump.Objects[0].Bytes < 4*begun {
		s.t.Errorf("the dump is %+v", m.Dump)
	}
}

// TestS3FailsMidDump has S3 answer parts of a dump as it does on bad days. What passes is waited for; what does not fails the backup,
// shows nothing and leaves no part that is paid for, and the next backup completes.
func TestS3FailsMidDump(t *testing.T) {
	bulk(t)
	for name, row := range map[string]struct {
		// answer is given the n-th try of the same part, or of the same other request.
		answer func(n int, w http.ResponseWriter, r *http.Request) bool
		reason string // empty: it completes all the same
		left   bool   // an upload, as long as S3 is so
	}{
		"throttled for a while": {func(n int, w http.ResponseWriter, r *http.Request) bool {
			return partOf(r) > 0 && n <= 2 && refuse(w, r, http.StatusServiceUnavailable, "SlowDown")
		}, "", false},
		"an internal error now and then": {func(n int, w http.ResponseWriter, r *http.Request) bool {
			return (partOf(r)%2 == 1 || completes(r)) && n == 1 && refuse(w, r, http.StatusInternalServerError, "InternalError")
		}, "", false},
		"throttled for good": {func(_ int, w http.ResponseWriter, r *http.Request) bool {
			return partOf(r) >= 3 && refuse(w, r, http.StatusServiceUnavailable, "SlowDown")
		}, v1alpha1.BackupReasonStoreUnavailable, false},
		"not available": {func(_ int, w http.ResponseWriter, r *http.Request) bool {
			return partOf(r) >= 3 && refuse(w, r, http.StatusServiceUnavailable, "ServiceUnavailable")
		}, v1alpha1.BackupReasonStoreUnavailable, false},
		"internal errors": {func(_ int, w http.ResponseWriter, r *http.Request) bool {
			return partOf(r) >= 3 && refuse(w, r, http.StatusInternalServerError, "InternalError")
		}, v1alpha1.BackupReasonStoreUnavailable, false},
		"an internal error at the end": {func(_ int, w http.ResponseWriter, r *http.Request) bool {
			return completes(r) && refuse(w, r, http.StatusInternalServerError, "InternalError")
		}, v1alpha1.BackupReasonStoreUnavailable, false},
		"denied from the third part on": {func(_ int, w http.ResponseWriter, r *http.Request) bool {
			return partOf(r) >= 3 && refuse(w, r, http.StatusForbidden, "AccessDenied")
		}, v1alpha1.BackupReasonAccessDenied, false},
		"full": {func(_ int, w http.ResponseWriter, r *http.Request) bool {
			return partOf(r) >= 3 && refuse(w, r, http.StatusInsufficientStorage, "XMinioStorageFull")
		}, v1alpha1.BackupReasonStoreFull, false},
		"not available, and nothing is taken back": {func(_ int, w http.ResponseWriter, r *http.Request) bool {
			return (partOf(r) >= 3 || aborts(r)) && refuse(w, r, http.StatusServiceUnavailable, "ServiceUnavailable")
		}, v1alpha1.BackupReasonStoreUnavailable, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.make("b")
			via, misbehave := s.faulty()
			var mu sync.Mutex
			tries, refused := map[string]int{}, 0
			misbehave(func(w http.ResponseWriter, r *http.Request) bool {
				mu.Lock()
				id := r.Method + r.URL.Query().Get("partNumber")
				tries[id]++
				n := tries[id]
				mu.Unlock()
				if !row.answer(n, w, r) {
					return false
				}
				mu.Lock()
				refused++
				mu.Unlock()
				return true
			})
			w := s.pod("b", task.Task{Backup: "b"})
			w.place.Store = s.through(via)
			err := w.backup(t.Context())
			misbehave(nil)
			if refused == 0 {
				t.Error("nothing was refused: this tries nothing")
			}
			st := s.read("b").Status
			if row.reason == "" {
				if err != nil || st.Phase != v1alpha1.BackupCompleted || s.stored() != wholeBackup || s.uploads() != 0 {
					t.Errorf("it ended with %v, left %d uploads, and the status is %+v", err, s.uploads(), st)
				}
				s.whole(st.Path)
				return
			}
			if !errors.Is(err, ErrFailed) || st.Phase != v1alpha1.BackupFailed || st.Reason != row.reason || st.Message == "" {
				t.Errorf("it ended with %v, and the status is %+v", err, st)
			}
			if got := s.stored(); got != "" {
				t.Errorf("it left %s", got)
			}
			if n := s.uploads(); (n != 0) != row.left || (st.Path != "") != row.left {
				t.Errorf("it left %d uploads, and points at %q", n, st.Path)
			}
			if row.left {
				must(t, s.pod("rm", task.Task{Path: st.Path}).remove(t.Context()))
			}
			s.make("next")
			next := s.pod("next", task.Task{Backup: "next"})
			next.place.Store = s.through(via)
			must(t, next.backup(t.Context()))
			if st := s.read("next").Status; st.Phase != v1alpha1.BackupCompleted || s.stored() != wholeBackup {
				t.Errorf("the next one's status is %+v, and stored are %s", st, s.stored())
			}
			if n := s.uploads(); n != 0 {
				t.Errorf("%d uploads are left", n)
			}
		})
	}
}

// killed is a backup named b whose pod's processes end in the moment of a request, with at least so many parts of an upload stored.
func (s *scene) killed(moment func(*http.Request) bool, parts int) *v1alpha1.MySQLBackup {
	s.t.Helper()
	s.make("b")
	via, misbehave := s.faulty()
	reached, over := make(chan struct{}), make(chan struct{})
	var once sync.Once
	misbehave(func(_ http.ResponseWriter, r *http.Request) bool {
		if !moment(r) {
			return false
		}
		once.Do(func() { close(reached) })
		<-over
		panic(http.ErrAbortHandler) // whoever asked is gone
	})
	defer close(over)
	pod := s.process(task.Task{Backup: "b"}, via)
	select {
	case <-reached:
	case <-pod.ended:
		s.t.Fatalf("it ended before anything happened: %v", pod.err)
	}
	await(s.t, "parts are stored", func() bool { return s.parts() >= parts })
	pod.kill()
	return s.read("b")
}

// TestAPodIsKilledMidUpload: its processes end in that very moment, and nobody takes anything back. There is no backup then, and
// whoever comes next, a pod of the same Job or the one that removes what it left, leaves no part.
func TestAPodIsKilledMidUpload(t *testing.T) {
	bulk(t)
	manifest := func(r *http.Request) bool {
		return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/manifest.json")
	}
	for name, row := range map[string]struct {
		moment  func(*http.Request) bool
		parts   int
		removed bool // no other pod of its Job follows
	}{
		"with some parts stored":                      {func(r *http.Request) bool { return partOf(r) == 3 }, 2, false},
		"with some parts stored, and is not replaced": {func(r *http.Request) bool { return partOf(r) == 3 }, 2, true},
		"with all parts stored":                       {completes, 3, false},
		"with everything stored but the manifest":     {manifest, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			before := s.killed(row.moment, row.parts).Status
			if n := s.uploads(); (n == 1) != (row.parts > 0) || before.Phase != v1alpha1.BackupRunning {
				t.Errorf("it left %d uploads, and the status is %+v: this tries nothing", n, before)
			}
			if _, err := s.pod("x", task.Task{}).place.Latest(t.Context()); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("there seems to be a backup: %v", err)
			}
			if got := s.stored(); strings.Contains(got, "manifest") || strings.Contains(got, "dump") && row.parts > 0 {
				t.Errorf("visible is %s", got)
			}
			last := "b"
			if row.removed {
				must(t, s.pod("rm", task.Task{Path: before.Path}).remove(t.Context()))
				if got, n := s.stored(), s.uploads(); got != "" || n != 0 {
					t.Errorf("left are %q and %d uploads", got, n)
				}
				last = "next"
				s.make(last)
			}
			must(t, s.pod(last, task.Task{Backup: last}).backup(t.Context()))
			if st := s.read(last).Status; st.Phase != v1alpha1.BackupCompleted || st.Path == before.Path {
				t.Errorf("then the status is %+v", st)
			}
			if got, n := s.stored(), s.uploads(); got != wholeBackup || n != 0 {
				t.Errorf("stored are %s, and %d uploads are left", got, n)
			}
			s.whole(s.read(last).Status.Path)
		})
	}
}

// parts are how many parts of uploads are stored.
func (s *scene) parts() int {
	s.t.Helper()
	list, err := bucketAPI().ListMultipartUploads(s.t.Context(), &s3.ListMultipartUploadsInput{Bucket: &s.namespace})
	must(s.t, err)
	n := 0
	for _, u := range list.Uploads {
		parts, err := bucketAPI().ListParts(s.t.Context(), &s3.ListPartsInput{Bucket: &s.namespace, Key: u.Key, UploadId: u.UploadId})
		must(s.t, err)
		n += len(parts.Parts)
	}
	return n
}

// playedPod names the file that tells a process of this test's binary which pod it plays.
const playedPod = "NAIROBI_TEST_POD"

// part is what a process that plays a pod has to know.
type part struct {
	Task             task.Task
	Runner           string
	Host             string // the API server's
	CA, Cert, Key    []byte
	Bucket, Endpoint string
	Member           mysql.Endpoint
	IP               string
	Identity         mysql.Identity
	Credentials      backup.Credentials
	Program          []string // the command that a program's name and arguments follow
}

// process is a pod in a process of its own.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has
	err   error         // what it ended with
}

// process starts a pod that backs up by way of an endpoint.
func (s *scene) process(t task.Task, via string) *process {
	s.t.Helper()
	w := s.pod(t.Backup, t)
	program := primary.Program(s.t.Context(), "")
	text, err := json.Marshal(part{
		Task: w.task, Runner: w.runner, Host: kubeConfig.Host, CA: kubeConfig.CAData, Cert: kubeConfig.CertData, Key: kubeConfig.KeyData,
		Bucket: s.namespace, Endpoint: via, Member: endpoint(primary), IP: primary.IP(), Identity: pods, Credentials: w.credentials,
		Program: program.Args[:len(program.Args)-1],
	})
	must(s.t, err)
	file := filepath.Join(s.t.TempDir(), "part")
	must(s.t, os.WriteFile(file, text, 0o600))
	p := &process{t: s.t, ended: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0]) // without a context: it is killed as a container is, with all its processes
	p.cmd.Env = append(os.Environ(), playedPod+"="+file)
	p.cmd.Stdout, p.cmd.Stderr = os.Stderr, os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(s.t, p.cmd.Start())
	go func() { p.err = p.cmd.Wait(); close(p.ended) }()
	s.t.Cleanup(p.kill)
	return p
}

// kill ends all its processes at once, as the end of a container does, and returns when it is gone.
func (p *process) kill() {
	p.t.Helper()
	select {
	case <-p.ended:
	default:
		must(p.t, syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL))
		<-p.ended
	}
}

// playPod is what a process does that plays a pod.
func playPod(file string) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "the pod:", err)
		return 1
	}
	text, err := os.ReadFile(file) //nolint:gosec // the test's own
	if err != nil {
		return fail(err)
	}
	var p part
	if err := json.Unmarshal(text, &p); err != nil {
		return fail(err)
	}
	scheme, err := newScheme()
	if err != nil {
		return fail(err)
	}
	c, err := client.New(&rest.Config{Host: p.Host, TLSClientConfig: rest.TLSClientConfig{CAData: p.CA, CertData: p.Cert, KeyData: p.Key}}, client.Options{Scheme: scheme})
	if err != nil {
		return fail(err)
	}
	bucket, err := openThrough(context.Background(), p.Bucket, p.Endpoint)
	if err != nil {
		return fail(err)
	}
	w := &worker{
		task: p.Task, client: c, place: backup.Place{Store: bucket, Root: backup.RootOf(p.Task.Namespace, p.Task.Cluster, p.Task.ClusterUID)},
		log:   funcr.New(func(prefix, args string) { fmt.Fprintln(os.Stderr, "the pod:", prefix, args) }, funcr.Options{}),
		clock: clock.RealClock{}, runner: p.Runner, credentials: p.Credentials,
		reach: func(name, user string) backup.Member {
			return backup.Member{Name: name, Host: p.IP, Connect: func(ctx context.Context) (*podclient.Visit, error) {
				return podclient.OpenVisit(ctx, podclient.VisitOptions{Endpoint: p.Member, Identity: p.Identity, User: user, Options: conn.Options{DialTimeout: time.Minute, StatementTimeout: time.Minute}})
			}}
		},
		program: func(ctx context.Context, name string, arguments ...string) *exec.Cmd {
			return exec.CommandContext(ctx, p.Program[0], append(append(p.Program[1:len(p.Program):len(p.Program)], name), arguments...)...) //nolint:gosec // the test's own
		},
	}
	if err := w.backup(context.Background()); err != nil {
		return fail(err)
	}
	return 0
}

// TestAnAttemptInTheSecondOfTheOneBefore: an object keeps whole seconds, and by them two attempts and their folders are told apart.
func TestAnAttemptInTheSecondOfTheOneBefore(t *testing.T) {
	second := time.Date(2026, 11, 23, 8, 32, 31, 0, time.UTC)
	clock := testclock.NewFakeClock(second.Add(300 * time.Millisecond))
	w := &worker{clock: clock}
	first, err := w.beginning(t.Context(), nil)
	must(t, err)
	if !first.Time.Equal(second) {
		t.Errorf("it begins at %s", first)
	}
	type answer struct {
		at  metav1.Time
		err error
	}
	begin := func(ctx context.Context) <-chan answer {
		began := make(chan answer, 1)
		go func() {
			at, err := w.beginning(ctx, &first)
			began <- answer{at, err}
		}()
		await(t, "it to wait", clock.HasWaiters)
		return began
	}
	began := begin(t.Context())
	clock.Step(700 * time.Millisecond)
	if a := <-began; a.err != nil || !a.at.Time.Equal(second.Add(time.Second)) {
		t.Errorf("the next begins at %s: %v", a.at, a.err)
	}
	clock.SetTime(second)
	ctx, cancel := context.WithCancel(t.Context())
	began = begin(ctx)
	cancel()
	if a := <-began; !errors.Is(a.err, context.Canceled) {
		t.Errorf("it ends with %v", a.err)
	}
}
