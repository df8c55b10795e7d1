package pitr

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

const timeout = time.Minute

var options = conn.Options{DialTimeout: timeout, StatementTimeout: timeout, ChangeTimeout: timeout}

// cluster is a real primary with a real replica that acknowledges, an archiver of them, and a place for backups.
type cluster struct {
	t                *testing.T
	farm             *mysqld.Farm
	primary, replica *mysqld.Server
	pool             *conn.Pool
	operator, pods   mysql.Identity
	folder           archive.Folder
	// serving is the server behind the primary Service.
	serving atomic.Pointer[mysqld.Server]

	mu     sync.Mutex
	report archive.Report
}

// farm is shared: it initialises its data directory once.
var shared struct {
	once sync.Once
	farm *mysqld.Farm
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.farm != nil {
		if err := shared.farm.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it takes too long until " + what)
		}
	}
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	shared.once.Do(func() { shared.farm, shared.err = mysqld.NewFarm(context.Background(), os.Stderr) })
	must(t, shared.err)
	c := &cluster{t: t, farm: shared.farm, pool: conn.NewPool(options)}
	t.Cleanup(c.pool.Close)
	ca, cert, key := c.farm.OperatorIdentity()
	c.operator = mysql.Identity{CAPEM: ca, CertPEM: cert, KeyPEM: key}
	cert, key, err := c.farm.Authority.IssueClient(pki.BackupPods, time.Now())
	must(t, err)
	c.pods = mysql.Identity{CAPEM: ca, CertPEM: cert, KeyPEM: key}
	c.primary, c.replica = c.server(), c.server()
	c.serving.Store(c.primary)
	p, r := c.member(c.primary), c.member(c.replica)
	must(t, p.Promote(t.Context(), mysql.PromoteSpec{}))
	must(t, p.WriteMembership(t.Context(), 0, mysql.Membership{Epoch: 1, Primary: c.primary.Name, Voters: []string{c.primary.Name}}))
	_, err = p.EnsurePodAccount(t.Context(), mysql.BackupUser, c.farm.Authority.IssuerDN(), c.farm.Authority.ClientDN(pki.BackupPods))
	must(t, err)
	must(t, r.CloneFrom(t.Context(), c.primary.Address()))
	await(t, "the replica is cloned", func() bool {
		o := r.Observe(t.Context()).Clone
		return o != nil && o.State == mysql.CloneCompleted
	})
	must(t, r.ReplicateFrom(t.Context(), c.primary.IP(), mysqld.Port))
	must(t, r.SetAcknowledging(t.Context(), true))
	await(t, "the replica acknowledges", func() bool { return r.Observe(t.Context()).SemiSync.ReplicaActive })
	must(t, p.SetSourceWait(t.Context(), true, 1))
	s, err := store.NewFolder(t.TempDir(), "pvc://backups")
	must(t, err)
	c.folder = archive.Folder{Place: backup.Place{Store: s, Root: backup.RootOf("shop", "orders", "uid")}}
	return c
}

// bucket has backups and the archive kept in an S3 bucket.
func (c *cluster) bucket() {
	c.t.Helper()
	cloud, err := moto.Start(c.t.Context(), moto.Options{})
	must(c.t, err)
	c.t.Cleanup(func() { must(c.t, cloud.Stop()) })
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodPut, cloud.Endpoint()+"/my-backups", http.NoBody)
	must(c.t, err)
	answer, err := http.DefaultClient.Do(request)
	must(c.t, err)
	must(c.t, answer.Body.Close())
	if answer.StatusCode != http.StatusOK {
		c.t.Fatalf("make the bucket: %s", answer.Status)
	}
	c.folder.Store, err = store.NewS3(c.t.Context(), store.S3Options{
		Bucket: "my-backups", Prefix: "team/mysql", Region: "us-east-1", Endpoint: cloud.Endpoint(), AccessKeyID: "lab", SecretAccessKey: "lab",
	})
	must(c.t, err)
}

// server is one more server.
func (c *cluster) server() *mysqld.Server {
	c.t.Helper()
	s, err := c.farm.Start(c.t.Context(), mysqld.Options{})
	must(c.t, err)
	c.t.Cleanup(func() { must(c.t, c.farm.Discard(s)) })
	return s
}

func endpoint(s *mysqld.Server) mysql.Endpoint {
	return mysql.Endpoint{Key: "uid/" + s.Name + "/" + s.InstanceID(), Address: s.Address(), ServerName: s.DNSName()}
}

func (c *cluster) member(s *mysqld.Server) *admin.Member {
	return admin.Open(c.pool, endpoint(s), c.operator)
}

func (c *cluster) visit(s *mysqld.Server, user string) podclient.VisitOptions {
	identity := c.pods
	if user == mysql.OperatorUser {
		identity = c.operator
	}
	return podclient.VisitOptions{Endpoint: endpoint(s), Identity: identity, User: user, Options: options}
}

func (c *cluster) place(s *mysqld.Server, user string) backup.Member {
	return backup.Member{Name: s.Name, Host: s.IP(), Connect: func(ctx context.Context) (*podclient.Visit, error) { return podclient.OpenVisit(ctx, c.visit(s, user)) }}
}

func sql(t *testing.T, s *mysqld.Server, statements string) string {
	t.Helper()
	out, err := s.SQL(t.Context(), statements)
	must(t, err)
	return out
}

func executed(t *testing.T, s *mysqld.Server) gtid.Set {
	t.Helper()
	set, err := gtid.Parse(strings.ReplaceAll(sql(t, s, "SELECT @@gtid_executed"), "\\n", ""))
	must(t, err)
	return set
}

// credentials puts an identity where the programs of a server see it.
func credentials(t *testing.T, s *mysqld.Server, identity mysql.Identity) backup.Credentials {
	t.Helper()
	for name, content := range map[string][]byte{"pod-ca.pem": identity.CAPEM, "pod-cert.pem": identity.CertPEM, "pod-key.pem": identity.KeyPEM} {
		must(t, s.WriteFile(name, content))
	}
	const dir = "/etc/nairobi-mysql/"
	return backup.Credentials{CAFile: dir + "pod-ca.pem", CertFile: dir + "pod-cert.pem", KeyFile: dir + "pod-key.pem"}
}

// dump takes a backup of a server, as soon as that has all that the primary has, and returns its folder.
func (c *cluster) dump(s *mysqld.Server, name string) string {
	c.t.Helper()
	must(c.t, c.member(s).WaitApplied(c.t.Context(), executed(c.t, c.serving.Load()).String(), timeout))
	folder := backup.FolderOf(time.Now(), name)
	_, err := backup.Dump(c.t.Context(), backup.DumpOptions{
		Place: c.folder.Place, Folder: folder, Backup: name, Namespace: "shop", Cluster: "orders", ClusterUID: "uid",
		Member: c.place(s, mysql.BackupUser), Credentials: credentials(c.t, s, c.pods), Program: s.Program, StallTimeout: timeout, Clock: clock.RealClock{},
	})
	must(c.t, err)
	return folder
}

// archiver runs an archiver until stop is called, which cuts it off in the midst of its work. change may change its options.
func (c *cluster) archiver(spool string, change func(*archive.Options)) (stop func()) {
	c.t.Helper()
	s, err := archive.OpenSpool(spool)
	must(c.t, err)
	o := archive.Options{
		Folder: c.folder, ClusterUID: "uid", Spool: s, Clock: clock.RealClock{}, SegmentAge: 300 * time.Millisecond, FlushTimeout: time.Nanosecond, Log: logs(c.t),
		Connect: func(ctx context.Context) (*podclient.Visit, error) {
			return podclient.OpenVisit(ctx, c.visit(c.serving.Load(), mysql.BackupUser))
		},
		Stream: func(ctx context.Context, have gtid.Set) (*podclient.BinlogStream, error) {
			return podclient.OpenBinlogStream(ctx, c.visit(c.serving.Load(), mysql.BackupUser), podclient.Follower{ServerID: 4294967294, UUID: "11111111-2222-3333-4444-555555555555"}, have)
		},
		Report: func(r archive.Report) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.report = r
		},
	}
	if change != nil {
		change(&o)
	}
	ctx, cancel := context.WithCancelCause(c.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- archive.New(o).Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel(errStopped)
		if err := <-ended; !errors.Is(err, errStopped) {
			c.t.Errorf("the archiver ended with %v", err)
		}
	})
}

var errStopped = errors.New("stopped by the test")

func logs(t *testing.T) logr.Logger {
	return funcr.New(func(prefix, args string) {
		if !testing.Verbose() {
			return
		}
		fmt.Fprintln(os.Stderr, t.Name(), time.Now().Format("05.000"), prefix, args)
	}, funcr.Options{})
}

func (c *cluster) reported() archive.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.report
}

// archived waits until the archive holds everything that the primary has.
func (c *cluster) archived() {
	c.t.Helper()
	want := executed(c.t, c.serving.Load())
	await(c.t, "everything is archived", func() bool {
		h, _, err := c.folder.Head(c.t.Context(), 0)
		return err == nil && h != nil && h.All().Contains(want)
	})
}

// failover makes the replica the primary, as after the loss of the other instance.
func (c *cluster) failover() {
	c.t.Helper()
	c.primary.Kill()
	var err error
	await(c.t, "the replica has applied what it received", func() bool {
		if broken := sql(c.t, c.replica, "SELECT IFNULL(MAX(LAST_ERROR_MESSAGE), '') FROM performance_schema.replication_applier_status_by_worker WHERE LAST_ERROR_NUMBER > 0"); broken != "" {
			c.t.Fatalf("the replica does not apply what the primary took: %s", broken)
		}
		err = c.member(c.replica).Promote(c.t.Context(), mysql.PromoteSpec{})
		return !errors.Is(err, mysql.ErrNotApplied)
	})
	must(c.t, err)
	c.serving.Store(c.replica)
}

// restore restores a plan into a server of a new cluster.
func (c *cluster) restore(p *Plan, to *mysqld.Server) error {
	target := c.place(to, mysql.OperatorUser)
	_, err := backup.Restore(c.t.Context(), backup.RestoreOptions{
		Place: c.folder.Place, Folder: p.Backup, Recovery: "uid-of-the-new-cluster", Target: target, User: mysql.OperatorUser,
		Credentials: credentials(c.t, to, c.operator), Program: to.Program, StallTimeout: timeout, Clock: clock.RealClock{},
		Then: func(ctx context.Context, _ *podclient.Visit, _ backup.Manifest) error {
			return p.Replay(ctx, target.Connect, nil)
		},
	})
	return err
}
