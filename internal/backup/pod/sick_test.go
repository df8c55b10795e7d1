package pod

import (
	"context"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// awaitAtMost is how long something may take that nobody holds up, on an instance that is busy.
const awaitAtMost = 2 * time.Minute

// await waits until something holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(awaitAtMost); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not after %s: %s", awaitAtMost, what)
		}
	}
}

// uploads are how many multipart uploads nobody has completed or aborted.
func (s *scene) uploads() int {
	s.t.Helper()
	list, err := bucketAPI().ListMultipartUploads(s.t.Context(), &s3.ListMultipartUploadsInput{Bucket: &s.namespace})
	must(s.t, err)
	return len(list.Uploads)
}

// bulk makes a table of 32 MiB that nothing compresses, of which much is still on the server when the first parts are stored:
// buffers of the network take some 10 MiB.
func bulk(t *testing.T) {
	t.Helper()
	_, err := primary.SQL(t.Context(), "CREATE DATABASE bulk; CREATE TABLE bulk.t (id INT PRIMARY KEY AUTO_INCREMENT, b BLOB); SET cte_max_recursion_depth = 40000; "+
		"INSERT INTO bulk.t (b) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 32768) SELECT RANDOM_BYTES(1024) FROM n")
	must(t, err)
	t.Cleanup(func() {
		_, err := primary.SQL(context.Background(), "DROP DATABASE bulk")
		must(t, err)
	})
}

// midway is a store that stops in the middle of the first upload of a dump, with a part of it stored, until it may go on.
type midway struct {
	store.Store
	once        sync.Once
	reached, on chan struct{}
}

func newMidway(s store.Store) *midway {
	return &midway{Store: s, reached: make(chan struct{}), on: make(chan struct{})}
}

// begun is how much of the dump is stored, or on its way, then: more than one part of an upload.
const begun = 6 << 20

func (m *midway) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	if strings.HasSuffix(key, "/dump.sql.zst") {
		stop := readerFunc(func([]byte) (int, error) {
			m.once.Do(func() {
				close(m.reached)
				select {
				case <-m.on:
				case <-ctx.Done():
				}
			})
			return 0, io.EOF
		})
		r = io.MultiReader(io.LimitReader(r, begun), stop, r)
	}
	return m.Store.Put(ctx, key, r)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// replicas makes two replicas of the primary. All three are returned by name.
func replicas(t *testing.T) map[string]*mysqld.Server {
	t.Helper()
	servers := map[string]*mysqld.Server{"orders-0": primary}
	pool := conn.NewPool(conn.Options{DialTimeout: time.Minute, StatementTimeout: time.Minute, ChangeTimeout: time.Minute})
	t.Cleanup(pool.Close)
	for _, name := range []string{"orders-1", "orders-2"} {
		server, err := farm.Start(t.Context(), mysqld.Options{Name: name})
		must(t, err)
		t.Cleanup(func() { must(t, farm.Discard(server)) })
		r := admin.Open(pool, endpoint(server), operator)
		must(t, r.CloneFrom(t.Context(), primary.Address()))
		await(t, name+" is cloned", func() bool {
			c := r.Observe(t.Context()).Clone
			return c != nil && c.State == mysql.CloneCompleted
		})
		servers[name] = server
	}
	return servers
}

// follow has a replica replicate, and waits until it holds what the primary does.
func follow(t *testing.T, replica *mysqld.Server) {
	t.Helper()
	pool := conn.NewPool(conn.Options{DialTimeout: time.Minute, StatementTimeout: time.Minute, ChangeTimeout: time.Minute})
	defer pool.Close()
	r := admin.Open(pool, endpoint(replica), operator)
	must(t, r.ReplicateFrom(t.Context(), primary.IP(), mysqld.Port))
	await(t, replica.Name+" follows", func() bool {
		o := r.Observe(t.Context()).Replication
		return o != nil && o.IOState == mysql.IOOn && o.SQLRunning && o.LagSeconds != nil
	})
	executed, err := primary.SQL(t.Context(), "SELECT @@gtid_executed")
	must(t, err)
	got, err := replica.SQL(t.Context(), "SELECT WAIT_FOR_EXECUTED_GTID_SET('"+strings.ReplaceAll(executed, "\\n", "")+"', 120)")
	if must(t, err); got != "0" {
		t.Fatalf("%s does not catch up: %s", replica.Name, got)
	}
}

// verified restores the newest backup of the scene into a throw-away server, and expects it whole.
func (s *scene) verified(programs func(context.Context, string, ...string) *exec.Cmd) {
	s.t.Helper()
	s.reportIn("orders-verify")
	w := s.pod("orders-verify-1", task.Task{Report: "orders-verify"})
	w.program, w.workDir = programs, short(s.t)
	if err := w.verify(s.t.Context()); err != nil {
		s.t.Errorf("its verification ended with %v", err)
	}
}

// TestAMemberThatIsSickMidDump does not fail the backup: another member gives it, within the same backup, and the primary only when
// there is no other replica.
func TestAMemberThatIsSickMidDump(t *testing.T) {
	programs, err := mysqld.HostPrograms(t.Context())
	must(t, err)
	bulk(t)
	servers := replicas(t)
	freeze := func(victim *mysqld.Server) error { return victim.Freeze() }
	kill := func(victim *mysqld.Server) error { victim.Kill(); return nil }
	for name, row := range map[string]struct {
		strike  func(*mysqld.Server) error
		members []string
		primary bool // gives it in the end
	}{
		"it stands still":                        {freeze, []string{"orders-0", "orders-1", "orders-2"}, false},
		"it is killed":                           {kill, []string{"orders-0", "orders-1", "orders-2"}, false},
		"it is killed, and was the only replica": {kill, []string{"orders-0", "orders-1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, name := range []string{"orders-1", "orders-2"} {
				follow(t, servers[name])
			}
			s := newScene(t)
			s.make("b")
			w := s.pod("b", task.Task{Backup: "b"})
			w.task.Members, w.task.StallTimeout = row.members, time.Minute
			w.reach = func(name, user string) backup.Member { return reach(servers[name])(name, user) }
			half := newMidway(s.store)
			w.place.Store = half
			ended := make(chan error, 1)
			go func() { ended <- w.backup(t.Context()) }()
			select {
			case <-half.reached:
			case err := <-ended:
				t.Fatalf("it ended before anything happened: %v", err)
			}
			sick, open := s.read("b").Status.Member, s.uploads()
			victim := servers[sick]
			must(t, row.strike(victim))
			defer func() {
				if victim.Running() {
					must(t, victim.Thaw())
				} else {
					must(t, victim.Boot(context.WithoutCancel(t.Context())))
				}
			}()
			close(half.on)
			if err := <-ended; err != nil {
				t.Errorf("it ended with %v", err)
			}
			if victim == primary || open != 1 {
				t.Errorf("%s was struck with %d uploads under way: this tries nothing", sick, open)
			}
			st := s.read("b").Status
			if st.Phase != v1alpha1.BackupCompleted || st.Member == sick || (st.Member == "orders-0") != row.primary {
				t.Errorf("%s was sick, and the status is %+v", sick, st)
			}
			if n := s.uploads(); n != 0 {
				t.Errorf("%d uploads are left", n)
			}
			if got := s.stored(); got != wholeBackup {
				t.Errorf("stored are %s", got)
			}
			if row.primary {
				return // its dump is restored often enough
			}
			s.verified(programs)
			if s.read("b").Status.VerifiedAt == nil {
				t.Error("nobody noted that it was verified")
			}
		})
	}
}
