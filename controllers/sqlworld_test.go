package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/bootstrap"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

const (
	// hypervisorInterval is how often the hypervisor looks for instances to boot, hypervisorRest how often when all are up.
	hypervisorInterval, hypervisorRest = 200 * time.Millisecond, time.Second
	// bootTries is how often an instance is booted until its server answers: a busy machine may need more than the minute that
	// each gets.
	bootTries = 3
	// members is how many the cluster has.
	members = 3
	// sqlPatience bounds the way from nothing, or from a crash, to Ready: six to ten seconds on an idle machine.
	sqlPatience = 5 * time.Minute
	// statementPatience bounds a statement of the test itself. A commit may wait for its acknowledgement.
	statementPatience = 5 * time.Second
)

// sqlSlots bounds how many worlds with real servers there are at a time: each takes half a gigabyte, and starting its
// servers all of this instance.
var sqlSlots = make(chan struct{}, 3)

// sqlWorld is a world in whose instances real mysqld servers run.
type sqlWorld struct {
	*world
	farm  *mysqld.Farm
	cloud *ec2.Cloud
	books *books
	// backLog and persisted are what the members must have besides: the value of a variable that counts from a restart on,
	// and the names of the variables that spec.mysqld sets. Zero and empty before anything is set.
	backLog   int
	persisted string

	mu      sync.Mutex
	servers map[string]*mysqld.Server // those that are powered on, by instance id
	booting sync.WaitGroup

	// furnish, unless nil, puts what a new volume was made from onto a server that has just come up for the first time.
	furnish func(context.Context, inventory.Instance, *mysqld.Server) error

	// What only the hypervisor uses: the instances that were booted, the volumes in use, when each instance was last launched,
	// and the servers that are off.
	booted, used map[string]bool
	launched     map[string]time.Time
	shelf        map[string]*mysqld.Server
}

// newSQLWorld is newWorld with a hypervisor behind EC2, and with an application that writes as soon as it can.
func newSQLWorld(t *testing.T, farm *mysqld.Farm, change func(*v1alpha1.MySQLCluster)) *sqlWorld {
	t.Helper()
	return newSQLWorldIn(&world{t: t}, farm, nil, change)
}

// newSQLWorldIn is newSQLWorld in a world of which something is there already, with servers that are furnished.
func newSQLWorldIn(in *world, farm *mysqld.Farm, furnish func(context.Context, inventory.Instance, *mysqld.Server) error, change func(*v1alpha1.MySQLCluster)) *sqlWorld {
	t := in.t
	t.Helper()
	sqlSlots <- struct{}{}
	t.Cleanup(func() { <-sqlSlots })
	w := &sqlWorld{
		world: makeWorld(in, change), farm: farm, furnish: furnish, servers: map[string]*mysqld.Server{},
		booted: map[string]bool{}, used: map[string]bool{}, launched: map[string]time.Time{}, shelf: map[string]*mysqld.Server{},
	}
	var err error
	w.cloud, err = ec2.NewFactory(ec2.Options{Config: awsapi.Config{
		Endpoint: cloud.Endpoint(), CallTimeout: 10 * time.Second, Middleware: func(next http.RoundTripper) http.RoundTripper { return ownAccount{w.account.id, next} },
	}}).Cloud(w.t.Context(), awsapi.Account{Region: "us-east-1"})
	must(t, err)
	ctx, stop := context.WithCancel(w.t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.hypervise(ctx) })
	w.books = &books{world: w}
	w.books.open()
	t.Cleanup(func() {
		w.books.close()
		stop()
		running.Wait()
		w.booting.Wait()
		w.scrap()
	})
	return w
}

// hypervise boots every instance of the cluster that runs and has its volume, and cuts the power of those that no longer run.
func (w *sqlWorld) hypervise(ctx context.Context) {
	for ; ctx.Err() == nil; w.rest() {
		seen, err := cloud.WorldOf(ctx, w.account.id)
		if err != nil {
			continue // a busy machine; whoever waits for its members gives up in the end
		}
		volumeOf := map[string]string{}
		for _, v := range seen.Volumes {
			if v.Attachment == "attached" {
				volumeOf[v.Instance] = v.ID
			}
		}
		on, fresh := map[string]bool{}, map[string]string{} // the fresh with their volumes
		for _, in := range seen.Instances {
			if in.State != inventory.StateRunning {
				continue
			}
			last, known := w.launched[in.ID]
			w.launched[in.ID] = in.Launched
			if known && !in.Launched.Equal(last) {
				continue // it was off since the last look, and is on in the next one
			}
			on[in.ID] = true
			if volume := volumeOf[in.ID]; volume != "" && !w.booted[in.ID] {
				fresh[in.ID] = volume
			}
		}
		w.power(ctx, on)
		if len(fresh) > 0 {
			w.boot(ctx, fresh)
		}
	}
}

// rest is the pause between two looks of the hypervisor.
func (w *sqlWorld) rest() {
	if len(w.running()) == members {
		time.Sleep(hypervisorRest)
		return
	}
	time.Sleep(hypervisorInterval)
}

// power cuts the power of the servers whose instance is not on, and gives it back to those whose instance is on again.
func (w *sqlWorld) power(ctx context.Context, on map[string]bool) {
	for _, s := range w.running() {
		if id := s.InstanceID(); !on[id] {
			w.mu.Lock()
			delete(w.servers, id)
			w.mu.Unlock()
			s.Kill()
			w.shelf[id] = s
		}
	}
	for id, s := range w.shelf {
		if on[id] {
			delete(w.shelf, id)
			w.booting.Go(func() {
				if err := bootAgain(ctx, s, s.Boot(ctx)); err != nil && ctx.Err() == nil {
					w.t.Errorf("boot %s again: %v", s.Name, err)
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				w.servers[id] = s
			})
		}
	}
}

// boot starts a server on each of the given instances, named with their volumes: what their user data would have done,
// with the key and the sealed request of a first boot.
func (w *sqlWorld) boot(ctx context.Context, fresh map[string]string) {
	found, err := w.cloud.Inventory.Observe(ctx, string(w.cluster.UID), 0)
	if err != nil {
		return // a busy machine; the hypervisor comes again
	}
	for _, in := range found.Instances {
		volume := fresh[in.ID]
		if volume == "" {
			continue
		}
		if w.used[volume] {
			w.t.Errorf("volume %s moved to instance %s: the servers here cannot follow", volume, in.ID)
		}
		w.booted[in.ID], w.used[volume] = true, true
		incarnation := 1
		for _, v := range found.Volumes {
			if v.ID == volume {
				incarnation = max(v.Incarnation, 1)
			}
		}
		w.booting.Go(func() {
			if err := w.bootOne(ctx, in, incarnation); err != nil && ctx.Err() == nil {
				w.t.Errorf("boot %s: %v", in.Member, err)
			}
		})
	}
}

// bootOne starts the server of an instance, whose volume is the member's in an incarnation.
func (w *sqlWorld) bootOne(ctx context.Context, in inventory.Instance, volume int) error {
	name := resources.NamesOf(w.cluster.Name).CA
	var secret corev1.Secret
	if err := w.client.Get(ctx, client.ObjectKey{Namespace: w.cluster.Namespace, Name: name}, &secret); err != nil {
		return err
	}
	authority, err := pki.ParseAuthority(secret.Data[resources.KeyCertificate], secret.Data[resources.KeyPrivateKey], secret.Data[resources.KeyJoin])
	if err != nil {
		return err
	}
	ordinal, err := strconv.Atoi(strings.TrimPrefix(in.Member, w.cluster.Name+"-"))
	if err != nil {
		return err
	}
	server, err := w.farm.Start(ctx, mysqld.Options{
		Name: in.Member, ServerID: bootstrap.ServerID(ordinal, volume), Incarnation: in.Incarnation, Unjoined: true,
		IP: in.PrivateIP, InstanceID: in.ID, Authority: authority,
	})
	if server != nil {
		err = bootAgain(ctx, server, err)
	}
	if err == nil && w.furnish != nil {
		err = w.furnish(ctx, in, server)
	}
	if server != nil {
		w.mu.Lock()
		w.servers[in.ID] = server
		w.mu.Unlock()
	}
	return err
}

// bootAgain boots a server whose first boot ended as err says until it answers, or was booted bootTries times.
func bootAgain(ctx context.Context, s *mysqld.Server, err error) error {
	for tries := 1; err != nil && ctx.Err() == nil && tries < bootTries; tries++ {
		err = s.Boot(ctx)
	}
	return err
}

// running are the servers whose instances run, by name.
func (w *sqlWorld) running() []*mysqld.Server {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*mysqld.Server
	for _, s := range w.servers {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *mysqld.Server) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// scrap ends the servers. The instances are in an account that nobody looks into again.
func (w *sqlWorld) scrap() {
	var ending sync.WaitGroup
	for _, s := range slices.AppendSeq(w.running(), maps.Values(w.shelf)) {
		ending.Go(func() {
			if err := w.farm.Discard(s); err != nil {
				w.t.Error(err)
			}
		})
	}
	ending.Wait()
}

// newSQLOperator starts a life that can reach the servers. hook sees its changing statements.
func (w *sqlWorld) newSQLOperator(o *operator, hook func(op, phase string) error) *operator {
	transport := func(next http.RoundTripper) http.RoundTripper { return &scissors{next: next, operator: o} }
	return w.equip(o, transport, conn.Options{Dial: w.farm.Dial, Hook: hook})
}

// kill ends a life: what it has under way is cut off, as when its process is killed.
func (o *operator) kill() {
	o.dead.Store(true)
	// In the background: the caller may be a statement whose session this closes.
	go o.SQL.Close()
	go o.Prober.Close()
}

// look is what a member says of itself.
type look struct {
	Writable          bool
	HalfOpen          bool // to accounts that may write beside read_only
	Source, Replica   bool // the two sides of semi-sync
	WaitCount         int
	Executed          string
	Membership        string // as JSON; empty for none
	PendingCommits    int
	ReplicationErrors string
	BackLog           int
	SyncBinlog        int
	SyncRelayLog      int
	Persisted         string
}

const lookQuery = `SELECT JSON_OBJECT('Writable', CAST(IF(@@read_only OR @@super_read_only, 'false', 'true') AS JSON),
	'HalfOpen', CAST(IF(@@read_only AND NOT @@super_read_only, 'true', 'false') AS JSON),
	'Source', CAST(IF(@@rpl_semi_sync_source_enabled, 'true', 'false') AS JSON), 'Replica', CAST(IF(@@rpl_semi_sync_replica_enabled, 'true', 'false') AS JSON),
	'WaitCount', @@rpl_semi_sync_source_wait_for_replica_count, 'Executed', REPLACE(@@gtid_executed, '\n', ''),
	'PendingCommits', (SELECT CAST(VARIABLE_VALUE AS SIGNED) FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Rpl_semi_sync_source_wait_sessions'),
	'ReplicationErrors', (SELECT COALESCE(GROUP_CONCAT(LAST_ERROR_MESSAGE), '') FROM performance_schema.replication_applier_status_by_worker WHERE LAST_ERROR_MESSAGE <> ''),
	'BackLog', @@back_log, 'SyncBinlog', @@sync_binlog, 'SyncRelayLog', @@sync_relay_log,
	'Persisted', (SELECT COALESCE(GROUP_CONCAT(VARIABLE_NAME ORDER BY VARIABLE_NAME), '') FROM performance_schema.persisted_variables),
	'Membership', (SELECT CAST(JSON_OBJECT('voters', voters, 'w', w) AS CHAR) FROM nairobi_mysql.membership))`

func lookAt(ctx context.Context, s *mysqld.Server) (look, error) {
	ctx, cancel := context.WithTimeout(ctx, statementPatience)
	defer cancel()
	var l look
	text, err := s.SQL(ctx, lookQuery+";\n")
	if err != nil {
		return l, err
	}
	// The client escapes backslashes in batch mode.
	return l, json.Unmarshal([]byte(strings.ReplaceAll(text, `\\`, `\`)), &l)
}

// unsettled says what is missing until the cluster is as it must be, or "".
func (w *sqlWorld) unsettled() string {
	if text := w.condition(v1alpha1.ConditionReady); !strings.HasPrefix(text, "True/") || !w.phaseIs(v1alpha1.PhaseReady)() {
		return "not Ready: " + text
	}
	servers := w.running()
	if len(servers) != members {
		return fmt.Sprintf("%d servers run", len(servers))
	}
	writable := 0
	for _, s := range servers {
		l, err := lookAt(w.t.Context(), s)
		if err != nil {
			return err.Error()
		}
		if l.Writable {
			writable++
		}
		if l.HalfOpen {
			return s.Name + " is half open"
		}
		if l.Membership != `{"w": 1, "voters": ["orders-0", "orders-1", "orders-2"]}` {
			return fmt.Sprintf("%s has membership %s", s.Name, l.Membership)
		}
		if l.Source != l.Writable || l.Source && l.WaitCount != 1 || !l.Writable && !l.Replica || l.ReplicationErrors != "" {
			return fmt.Sprintf("%s has not what its role asks for: %+v", s.Name, l)
		}
		if w.backLog != 0 && l.BackLog != w.backLog || l.Persisted != w.persisted || l.SyncBinlog != 1 || l.SyncRelayLog != 10000 {
			return fmt.Sprintf("%s has not the settings of the spec: %+v", s.Name, l)
		}
	}
	if writable != 1 {
		return fmt.Sprintf("%d members are writable", writable)
	}
	return ""
}

// settle drives an operator until the cluster is as it must be, then stops everybody who writes and compares what the
// members hold with each other and with what the application was told is committed.
func (w *sqlWorld) settle(o *operator) {
	w.t.Helper()
	why := ""
	w.t.Cleanup(func() {
		if w.t.Failed() {
			w.t.Logf("last seen: %s", why)
			for _, s := range w.running() {
				l, err := lookAt(context.Background(), s)
				w.t.Logf("%s %s: %+v, %v", s.Name, s.InstanceID(), l, err)
			}
		}
	})
	w.drive(o, sqlPatience, func() bool {
		why = w.unsettled()
		return why == "" && w.books.count() > 0
	})
	w.oneOfEach(members)
	w.books.close()
	o.kill()
	o.Prober.Close()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if why = w.differ(); why == "" {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("the members do not become equal: %s", why)
		}
	}
}

// differ says in what the members differ, or what of the application's they lack, or "".
func (w *sqlWorld) differ() string {
	executed := ""
	for i, s := range w.running() {
		l, err := lookAt(w.t.Context(), s)
		if err != nil {
			return err.Error()
		}
		if i > 0 && l.Executed != executed {
			return fmt.Sprintf("%s executed %s, another %s", s.Name, l.Executed, executed)
		}
		executed = l.Executed
		if missing := w.books.missing(w.t.Context(), s); missing != "" {
			return s.Name + ": " + missing
		}
	}
	return ""
}
