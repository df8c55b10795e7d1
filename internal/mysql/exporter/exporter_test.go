package exporter_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/exporter"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

func TestMain(m *testing.M) { mysqltest.Main(m) }

// scraped are the metrics of a scrape, by name.
type scraped map[string]*dto.MetricFamily

// value is a metric's of a member, with the labels that are given as name and value. NaN: it is not there.
func (s scraped) value(name, member string, labels ...string) float64 {
	m := s.sample(name, member, labels...)
	switch {
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetHistogram() != nil:
		return float64(m.GetHistogram().GetSampleCount())
	}
	return math.NaN()
}

func (s scraped) sample(name, member string, labels ...string) *dto.Metric {
	want := append([]string{"member", member}, labels...)
	for _, m := range s[name].GetMetric() {
		has := map[string]string{}
		for _, l := range m.GetLabel() {
			has[l.GetName()] = l.GetValue()
		}
		fits := true
		for i := 0; i < len(want); i += 2 {
			fits = fits && has[want[i]] == want[i+1]
		}
		if fits {
			return m
		}
	}
	return nil
}

// bench is an exporter of the three servers as the operator sets it up.
type bench struct {
	t       *testing.T
	w       *mysqltest.World
	o       exporter.Options
	members []string
	server  *httptest.Server
}

func collectors() (all []string) {
	for _, c := range append(slices.Clone(v1alpha1.DefaultMetricsCollectors), v1alpha1.CollectErrors) {
		all = append(all, string(c))
	}
	return all
}

func newBench(t *testing.T, watched *mysqld.Server, change func(*exporter.Options)) *bench {
	t.Helper()
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	a := w.Farm.Authority
	if _, err := m[0].EnsurePodAccount(t.Context(), mysql.MetricsUser, a.IssuerDN(), a.ClientDN(pki.MetricsPod)); err != nil {
		t.Fatal(err)
	}
	if changed, err := m[0].EnsurePodAccount(t.Context(), mysql.MetricsUser, a.IssuerDN(), a.ClientDN(pki.MetricsPod)); err != nil || changed {
		t.Fatalf("the account was made twice: %v, %v", changed, err)
	}
	mysqltest.CatchUp(t, m[1], m[0])
	mysqltest.CatchUp(t, m[2], m[0])
	b := &bench{t: t, w: w}
	identity := identityOf(t, w)
	b.o = exporter.Options{
		Namespace: "shop", Cluster: "orders", Collectors: collectors(), Clock: clock.RealClock{}, Logger: testr.New(t), MemberTimeout: 20 * time.Second,
		Identity: func() (mysql.Identity, error) { return identity, nil },
	}
	for i, s := range w.Servers {
		b.members = append(b.members, fmt.Sprintf("orders-%d", i))
		b.o.Members = append(b.o.Members, exporter.Member{Name: b.members[i], Endpoint: mysqltest.EndpointOf(s)})
	}
	if watched != nil {
		b.o.Members = append(b.o.Members, exporter.Member{Name: "watched", Endpoint: mysqltest.EndpointOf(watched)})
	}
	if change != nil {
		change(&b.o)
	}
	e, err := exporter.New(b.o)
	mysqltest.Must(t, err)
	t.Cleanup(e.Close)
	handler, err := e.Handler()
	mysqltest.Must(t, err)
	b.server = httptest.NewServer(handler)
	t.Cleanup(b.server.Close)
	return b
}

// watchedServer is a server of its own whose performance schema is as an instance has it. Those that tests share have little of it.
func watchedServer(t *testing.T) *mysqld.Server {
	t.Helper()
	w := mysqltest.TheWorld(t)
	s, err := w.Farm.Start(t.Context(), mysqld.Options{Arguments: []string{"--performance-schema-max-statement-classes=250", "--performance-schema-error-size=6000"}})
	mysqltest.Must(t, err)
	t.Cleanup(func() { mysqltest.Must(t, w.Farm.Discard(s)) })
	m := admin.Open(mysqltest.NewPool(t, nil), mysqltest.EndpointOf(s), w.Identity())
	mysqltest.Must(t, m.Promote(t.Context(), mysql.PromoteSpec{}))
	_, err = m.EnsurePodAccount(t.Context(), mysql.MetricsUser, w.Farm.Authority.IssuerDN(), w.Farm.Authority.ClientDN(pki.MetricsPod))
	mysqltest.Must(t, err)
	return s
}

func identityOf(t *testing.T, w *mysqltest.World) mysql.Identity {
	t.Helper()
	cert, key, err := w.Farm.Authority.IssueClient(pki.MetricsPod, time.Now())
	mysqltest.Must(t, err)
	ca, _, _ := w.Farm.OperatorIdentity()
	return mysql.Identity{CAPEM: ca, CertPEM: cert, KeyPEM: key}
}

// scrape reads the metrics as Prometheus does, after what was read last no longer answers.
func (b *bench) scrape() scraped {
	b.t.Helper()
	time.Sleep(1100 * time.Millisecond)
	response, err := http.Get(b.server.URL + "/metrics")
	mysqltest.Must(b.t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		b.t.Fatalf("%s: %s", response.Status, text)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	mysqltest.Must(b.t, err)
	return families
}

// TestMetricsOfMembers: every metric of the table is there on real servers, and what it says is so.
func TestMetricsOfMembers(t *testing.T) {
	alone := watchedServer(t)
	b := newBench(t, alone, nil)
	root := mysqltest.Root(t, b.w.Servers[0])
	mysqltest.Exec(t, root, "CREATE DATABASE IF NOT EXISTS shop")
	var got scraped
	mysqltest.WaitFor(t, "a replica receives", func() bool {
		mysqltest.Exec(t, root, "CREATE TABLE IF NOT EXISTS shop.t (id INT PRIMARY KEY)")
		mysqltest.Exec(t, root, "DROP TABLE shop.t")
		_, _ = mysqltest.Root(t, alone).ExecContext(t.Context(), "SELECT no_such_column") // raises an error
		got = b.scrape()
		return !math.IsNaN(got.value("mysql_replica_receive_lag_seconds", "orders-1"))
	})
	documented, err := exporter.Documented()
	mysqltest.Must(t, err)
	for _, m := range documented {
		family := got[m.Name]
		if family == nil {
			t.Errorf("no member exports %s", m.Name)
			continue
		}
		if kind := strings.ToLower(family.GetType().String()); kind != m.Type {
			t.Errorf("%s is a %s, want a %s", m.Name, kind, m.Type)
		}
		for _, sample := range family.GetMetric() {
			var labels []string
			for _, l := range sample.GetLabel() {
				labels = append(labels, l.GetName())
			}
			want := append([]string{"cluster", "member", "namespace"}, m.Labels...)
			slices.Sort(want)
			if slices.Sort(labels); !slices.Equal(labels, want) {
				t.Errorf("%s has the labels %v, want %v", m.Name, labels, want)
			}
		}
		delete(got, m.Name)
	}
	for name := range got {
		t.Errorf("%s is exported and not in the table", name)
	}
	got = b.scrape()
	for _, family := range got {
		if family.GetName() == "mysql_exporter_collector_success" {
			for _, sample := range family.GetMetric() {
				if sample.GetGauge().GetValue() != 1 {
					t.Errorf("a query failed: %v", sample)
				}
			}
		}
	}
	for i, member := range b.members {
		db := mysqltest.Root(t, b.w.Servers[i])
		var expires int64
		mysqltest.Must(t, db.QueryRow("SELECT UNIX_TIMESTAMP(CONVERT_TZ(STR_TO_DATE(VARIABLE_VALUE, '%b %e %H:%i:%s %Y'), '+00:00', @@time_zone)) FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Ssl_server_not_after'").Scan(&expires))
		for name, want := range map[string]float64{
			"mysql_up": 1, "mysql_global_variables_read_only": float64(min(i, 1)), "mysql_certificate_expiry_timestamp_seconds": float64(expires),
		} {
			if is := got.value(name, member); is != want {
				t.Errorf("%s of %s is %v, want %v", name, member, is, want)
			}
		}
	}
	if got.value("mysql_slave_status_slave_io_running", "orders-1") != 1 || got.value("mysql_slave_status_slave_sql_running", "orders-1") != 1 || got.value("mysql_slave_status_seconds_behind_master", "orders-1") > 60 {
		t.Errorf("the replica's state: %v", got["mysql_slave_status_seconds_behind_master"])
	}
	if lag := got.value("mysql_replica_receive_lag_seconds", "orders-1"); lag > 60 {
		t.Errorf("the replica received %v s late", lag)
	}
	if got.value("mysql_global_status_rpl_semi_sync_source_clients", "orders-0") != 2 || got.value("mysql_binlog_size_bytes", "orders-0") <= 0 {
		t.Error("the primary has no replicas that acknowledge, or no binary log")
	}
}

// TestStatementsAreCounted: what is exported of statements agrees within 5 % with what was sent.
func TestStatementsAreCounted(t *testing.T) {
	alone := watchedServer(t)
	b := newBench(t, alone, nil)
	root := mysqltest.Root(t, alone)
	c, err := root.Conn(t.Context())
	mysqltest.Must(t, err)
	defer c.Close()
	before := b.scrape()
	const fast, slow = 4000, 400
	for range fast {
		_, err := c.ExecContext(t.Context(), "DO 1")
		mysqltest.Must(t, err)
	}
	for range slow {
		_, err := c.ExecContext(t.Context(), "SELECT SLEEP(0.005)")
		mysqltest.Must(t, err)
	}
	after := b.scrape()
	grew := func(name string, labels ...string) float64 {
		return after.value(name, "watched", labels...) - before.value(name, "watched", labels...)
	}
	within := func(what string, is, want float64) {
		t.Logf("%s: %v, sent %v", what, is, want)
		if math.IsNaN(is) || math.Abs(is-want) > want/20 {
			t.Errorf("%s: %v, want %v within 5 %%", what, is, want)
		}
	}
	within("questions", grew("mysql_global_status_questions"), fast+slow)
	within("selects", grew("mysql_global_status_commands_total", "command", "select"), slow)
	within("durations", grew("mysql_statement_duration_seconds"), fast+slow)
	below := func(s scraped, bound float64) (count float64) {
		for _, bucket := range s.sample("mysql_statement_duration_seconds", "watched").GetHistogram().GetBucket() {
			if bucket.GetUpperBound() <= bound {
				count = float64(bucket.GetCumulativeCount())
			}
		}
		return count
	}
	within("statements below 2 ms", below(after, 0.002)-below(before, 0.002), fast)
	sum := func(s scraped) float64 {
		return s.sample("mysql_statement_duration_seconds", "watched").GetHistogram().GetSampleSum()
	}
	if took := sum(after) - sum(before); took < slow*0.005 || took > 60 {
		t.Errorf("they took %v s together", took)
	}
}

// TestDeadMember: a member that does not answer costs its own time and takes nothing from others, and is read again when it is back.
func TestDeadMember(t *testing.T) {
	const timeout = 3 * time.Second
	b := newBench(t, nil, func(o *exporter.Options) { o.MemberTimeout = timeout })
	if b.scrape().value("mysql_up", "orders-2") != 1 {
		t.Fatal("orders-2 is not up to begin with")
	}
	mysqltest.Must(t, b.w.Servers[2].Freeze())
	t.Cleanup(func() { mysqltest.Up(t, b.w.Servers[2]) })
	began := time.Now()
	got := b.scrape()
	if took := time.Since(began); took > timeout+3*time.Second {
		t.Errorf("the scrape took %s", took)
	}
	for i, member := range b.members {
		up, has := got.value("mysql_up", member), !math.IsNaN(got.value("mysql_global_status_uptime", member))
		if refused := got.value("mysql_exporter_login_failed", member); refused != 0 {
			t.Errorf("%s: mysql_exporter_login_failed is %v", member, refused)
		}
		if dead := i == 2; (up == 0) != dead || has == dead {
			t.Errorf("%s: mysql_up is %v, it has other metrics: %v", member, up, has)
		}
	}
	mysqltest.Up(t, b.w.Servers[2])
	mysqltest.WaitFor(t, "orders-2 is read again", func() bool { return b.scrape().value("mysql_up", "orders-2") == 1 })

	// One that was restarted is read in the same scrape: the broken connection is no failure.
	b.w.Servers[2].Kill()
	mysqltest.Must(t, b.w.Servers[2].Boot(t.Context()))
	if b.scrape().value("mysql_up", "orders-2") != 1 {
		t.Error("a member that was restarted is down")
	}
}

// TestScrapesShareAReading: scrapes that come at once, or within a second, read each member once, over one connection.
func TestScrapesShareAReading(t *testing.T) {
	b := newBench(t, nil, nil)
	b.scrape()
	root := mysqltest.Root(t, b.w.Servers[0])
	asked := func() (n int64) {
		text := mysqltest.Value(t, root, "SELECT VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Questions'")
		if _, err := fmt.Sscan(text, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	time.Sleep(1100 * time.Millisecond)
	before := asked()
	b.scrape()
	first := asked()
	one := first - before
	time.Sleep(1100 * time.Millisecond)
	began := time.Now()
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			response, err := http.Get(b.server.URL + "/metrics")
			if err != nil || response.StatusCode != http.StatusOK {
				t.Errorf("a scrape failed: %v", err)
				return
			}
			response.Body.Close()
		})
	}
	group.Wait()
	took, six := time.Since(began), asked()-first
	t.Logf("one scrape asked %d times; six at once, within %s, %d times", one, took, six)
	if one < 5 || six != one {
		t.Errorf("one scrape asked %d times, six at once %d times", one, six)
	}
	if n := mysqltest.Value(t, root, "SELECT CURRENT_CONNECTIONS FROM performance_schema.accounts WHERE USER = '"+mysql.MetricsUser+"' AND CURRENT_CONNECTIONS > 0"); n != "1" {
		t.Errorf("%s connections are open, want 1", n)
	}
}

// TestTheAccountOnlyReadsStatus: what is not needed for metrics is refused, and so is a login in another way.
func TestTheAccountOnlyReadsStatus(t *testing.T) {
	b := newBench(t, nil, nil)
	root := mysqltest.Root(t, b.w.Servers[0])
	for _, statement := range []string{"CREATE DATABASE IF NOT EXISTS shop", "CREATE TABLE IF NOT EXISTS shop.secrets (id INT PRIMARY KEY)", "REPLACE INTO shop.secrets VALUES (1)"} {
		mysqltest.Exec(t, root, statement)
	}
	identity := identityOf(t, b.w)
	pool := mysqltest.NewPool(t, func(o *conn.Options) { o.User = mysql.MetricsUser })
	run := func(statement string) (err error) {
		return pool.Handle(mysqltest.EndpointOf(b.w.Servers[0]), identity).Read(t.Context(), func(s *conn.Session) error {
			return s.Rows(t.Context(), statement, nil, func(*sql.Rows) error { return nil })
		})
	}
	mysqltest.Must(t, run("SHOW BINARY LOGS"))
	client := mysqltest.Value(t, root, "SELECT ID FROM performance_schema.processlist WHERE USER = 'root' LIMIT 1")
	for _, statement := range []string{
		"SELECT * FROM shop.secrets", "SELECT User FROM mysql.user", "INSERT INTO shop.secrets VALUES (2)", "DELETE FROM shop.secrets", "CREATE DATABASE other", "DROP TABLE shop.secrets",
		"CREATE USER other", "GRANT SELECT ON *.* TO nairobi_metrics", "SET GLOBAL max_connections = 10", "SET PERSIST max_connections = 10", "KILL " + client, "SHUTDOWN", "RESTART", "FLUSH TABLES",
		"FLUSH BINARY LOGS", "RESET BINARY LOGS AND GTIDS", "PURGE BINARY LOGS BEFORE NOW()", "STOP REPLICA", "START REPLICA", "LOCK INSTANCE FOR BACKUP", "SHOW BINLOG EVENTS", "LOAD DATA INFILE '/etc/passwd' INTO TABLE shop.secrets",
		"TRUNCATE performance_schema.events_statements_histogram_global", "UPDATE performance_schema.setup_consumers SET ENABLED = 'NO'", "SELECT LOAD_FILE('/etc/passwd') INTO OUTFILE '/tmp/x'",
	} {
		if err := run(statement); conn.ServerErrorNumber(err) == 0 {
			t.Errorf("%s: %v, want it refused", statement, err)
		}
	}
	// Without its certificate, and with another's, nobody gets in.
	_, operatorCert, operatorKey := b.w.Farm.OperatorIdentity()
	identity.CertPEM, identity.KeyPEM = operatorCert, operatorKey
	other := mysqltest.NewPool(t, func(o *conn.Options) { o.User = mysql.MetricsUser })
	if err := other.Handle(mysqltest.EndpointOf(b.w.Servers[0]), identity).Read(t.Context(), func(*conn.Session) error { return nil }); err == nil {
		t.Error("the operator's certificate opened the account of metrics")
	}
	// It cannot use up the server's connections.
	identity = identityOf(t, b.w)
	var refused error
	for range 6 {
		many := mysqltest.NewPool(t, func(o *conn.Options) { o.User = mysql.MetricsUser })
		if err := many.Handle(mysqltest.EndpointOf(b.w.Servers[0]), identity).Read(context.Background(), func(*conn.Session) error { return nil }); err != nil {
			refused = err
		}
	}
	if refused == nil {
		t.Error("the account opened more than five connections")
	}
}

// TestARefusedLoginIsNoSilence: a member that has not been given the account yet is distinguished from one that does not answer.
func TestARefusedLoginIsNoSilence(t *testing.T) {
	stranger, err := pki.NewAuthority("another cluster's UID", "other", time.Now())
	mysqltest.Must(t, err)
	cert, key, err := stranger.IssueClient(pki.MetricsPod, time.Now())
	mysqltest.Must(t, err)
	b := newBench(t, nil, func(o *exporter.Options) {
		o.Identity = func() (mysql.Identity, error) {
			return mysql.Identity{CAPEM: mysqltest.TheWorld(t).Farm.Authority.CertificatePEM(), CertPEM: cert, KeyPEM: key}, nil
		}
	})
	got := b.scrape()
	for _, member := range b.members {
		if up, refused := got.value("mysql_up", member), got.value("mysql_exporter_login_failed", member); up != 0 || refused != 1 {
			t.Errorf("%s: mysql_up is %v, mysql_exporter_login_failed %v", member, up, refused)
		}
	}
}
