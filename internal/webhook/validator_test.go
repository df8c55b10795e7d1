package webhook_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
	"github.com/alx-ke/nairobi-mysql-operator/internal/webhook"
)

// quiet is a cluster that there is nothing to warn of.
func quiet(changes ...func(*v1alpha1.MySQLCluster)) *v1alpha1.MySQLCluster {
	c := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}, Spec: v1alpha1.MySQLClusterSpec{
		AWS: v1alpha1.AWSSpec{ImageID: "ami-1", SubnetIDs: []string{"subnet-1", "subnet-2", "subnet-3"}, ClientCIDRs: []string{"10.0.0.0/8"}},
	}}
	for _, change := range changes {
		change(c)
	}
	return c
}

func replicas(n int32) func(*v1alpha1.MySQLCluster) {
	return func(c *v1alpha1.MySQLCluster) { c.Spec.Replicas = ptr.To(n) }
}

func mysqld(name, value string) func(*v1alpha1.MySQLCluster) {
	return func(c *v1alpha1.MySQLCluster) { c.Spec.MySQLD = map[string]v1alpha1.PlainValue{name: value} }
}

func async(c *v1alpha1.MySQLCluster) { c.Spec.Replication.Durability = v1alpha1.DurabilityAsync }

func unprotected(c *v1alpha1.MySQLCluster) { c.Spec.DeletionProtection = ptr.To(false) }

func subnets(ids ...string) func(*v1alpha1.MySQLCluster) {
	return func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.SubnetIDs = ids }
}

func tarball(instanceType, architecture string) func(*v1alpha1.MySQLCluster) {
	return func(c *v1alpha1.MySQLCluster) {
		c.Spec.AWS.InstanceType = instanceType
		c.Spec.AWS.Download = &v1alpha1.DownloadSpec{URL: "http://mirror.example.com/mysql-9.7.1-linux-glibc2.28-" + architecture + ".tar.xz"}
	}
}

func abandon(value string) func(*v1alpha1.MySQLCluster) {
	return func(c *v1alpha1.MySQLCluster) {
		c.Annotations = map[string]string{v1alpha1.AnnotationAbandonCloudResources: value}
	}
}

func window(schedule, zone string) func(*v1alpha1.MySQLCluster) {
	return func(c *v1alpha1.MySQLCluster) {
		c.Spec.MaintenanceWindow = &v1alpha1.MaintenanceWindow{Schedule: schedule, TimeZone: zone}
	}
}

func TestWarnings(t *testing.T) {
	for _, r := range []struct {
		name    string
		cluster *v1alpha1.MySQLCluster
		want    []string
	}{
		{"three members in three zones", quiet(), nil},
		{"no object", nil, nil},
		{"a setting", quiet(mysqld("max_connections", "500")), nil},
		{"a setting that is in force", quiet(mysqld("binlog_format", "row")), []string{"mysqld.binlog_format: row is in force on every member anyway"}},
		{"a setting of a component", quiet(mysqld("validate_password.length", "12")), []string{"mysqld.validate_password.length: MySQL has no variable of this name"}},
		{"a name of nothing", quiet(mysqld("max_conections", "500")), []string{"mysqld.max_conections: MySQL has no variable of this name"}},
		{"an empty object", &v1alpha1.MySQLCluster{}, nil},
		{"the default image", quiet(func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.ImageID = "" }), nil},
		{"a window that never opens", quiet(window("0 3 30 2 *", "Etc/UTC")), []string{"spec.maintenanceWindow.schedule names no day that ever comes"}},
		{"a window on another planet", quiet(window("@daily", "Mars/Olympus")), []string{"is no time zone of the IANA database"}},
		{"a backup that is never taken", quiet(func(c *v1alpha1.MySQLCluster) {
			c.Spec.Backup = &v1alpha1.BackupSpec{Schedules: []v1alpha1.BackupSchedule{{Name: "leap", Cron: "0 3 30 2 *"}}}
		}), []string{"spec.backup.schedules: the cron of leap names no day that ever comes"}},
		{"a window at night", quiet(window("0 3 29 2 *", "")), nil},
		{"one member", quiet(replicas(1), subnets("subnet-1")), []string{"replicas: 1 is not highly available"}},
		{"two members", quiet(replicas(2)), []string{"after the loss of one member writes wait"}},
		{"two members, Async", quiet(replicas(2), async), []string{"a failover may lose the newest commits"}},
		{"one member, Async", quiet(replicas(1), async), []string{"replicas: 1 is not highly available"}},
		{"four members", quiet(replicas(4)), []string{"replicas: 4 survives the loss of no more members at once than 3"}},
		{"five members", quiet(replicas(5)), nil},
		{"Async", quiet(async), []string{"replication.durability: Async"}},
		{"one subnet", quiet(subnets("subnet-1")), []string{"all members are in one subnet, so in one zone, and are lost together with it; give subnets of three zones (manager doctor shows the zone of each)"}},
		{"two subnets", quiet(subnets("subnet-1", "subnet-2")), []string{"3 members in 2 subnets: the loss of one zone can take the majority; give subnets of three zones (manager doctor shows the zone of each)"}},
		{"two members in two subnets", quiet(replicas(2), async, subnets("subnet-1", "subnet-2")), []string{"Async"}},
		{"a tarball for another processor", quiet(tarball("r7gd.large", "x86_64")), []string{"aws.download.url is a tarball for x86_64 by its name, on which mysqld does not start with aws.instanceType r7gd.large"}},
		{"a tarball for ARM", quiet(tarball("g5.xlarge", "aarch64")), []string{"aws.download.url is a tarball for aarch64 by its name"}},
		{"a tarball for the processor", quiet(tarball("im4gn.large", "aarch64")), nil},
		{"the whole world", quiet(func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.ClientCIDRs = []string{"0.0.0.0/0", "10.0.0.0/16"} }), []string{"0.0.0.0/0 lets whoever"}},
		{"half the world", quiet(func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.ClientCIDRs = []string{"128.0.0.0/1"} }), []string{"128.0.0.0/1 lets whoever"}},
		{"no network at all", quiet(func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.ClientCIDRs = []string{"x"} }), nil},
		{"in clear", quiet(func(c *v1alpha1.MySQLCluster) { c.Spec.Storage.Encrypted = ptr.To(false) }), []string{"storage.encrypted: false"}},
		{"nothing kept", quiet(func(c *v1alpha1.MySQLCluster) { c.Spec.Storage.DeletionPolicy = v1alpha1.DeletionPolicyDelete }), []string{"nothing is kept of its data"}},
		{"unprotected", quiet(unprotected), []string{"deletionProtection: false"}},
		{"abandon", quiet(abandon("true")), []string{"may leave instances and volumes behind"}},
		{"abandon, misspelt", quiet(abandon("yes")), []string{`"yes" has no effect`}},
		{"everything at once", quiet(replicas(2), unprotected, subnets("subnet-1")), []string{"writes wait", "one subnet", "deletionProtection"}},
	} {
		t.Run(r.name, func(t *testing.T) {
			warnings, err := new(webhook.Validator).ValidateCreate(t.Context(), r.cluster)
			if err != nil {
				t.Fatal(err)
			}
			if len(warnings) != len(r.want) {
				t.Fatalf("warned of %q", warnings)
			}
			for i, want := range r.want {
				if !strings.Contains(warnings[i], want) {
					t.Errorf("%q lacks %q", warnings[i], want)
				}
			}
		})
	}
}

func TestUpdateWarnsOfWhatIsNew(t *testing.T) {
	validator := &webhook.Validator{}
	deleted := quiet(replicas(2))
	deleted.DeletionTimestamp = &metav1.Time{}
	deleted.DeletionTimestamp.Time = deleted.DeletionTimestamp.AddDate(2026, 0, 0)
	for _, r := range []struct {
		name          string
		before, after *v1alpha1.MySQLCluster
		want          int
	}{
		{"nothing changed", quiet(replicas(2)), quiet(replicas(2)), 0},
		{"one thing more", quiet(replicas(2)), quiet(replicas(2), unprotected), 1},
		{"one thing less", quiet(replicas(2), unprotected), quiet(replicas(2)), 0},
		{"on its way out", quiet(), deleted, 0},
		{"nothing before", nil, quiet(replicas(2)), 1},
		{"nothing after", quiet(), nil, 0},
	} {
		t.Run(r.name, func(t *testing.T) {
			warnings, err := validator.ValidateUpdate(t.Context(), r.before, r.after)
			if err != nil || len(warnings) != r.want {
				t.Errorf("%q, %v", warnings, err)
			}
		})
	}
}

// TestUpdateWarnsOfBackupsThatNoScheduleDeletes: one that is renamed, removed or given another method leaves its backups to a person.
func TestUpdateWarnsOfBackupsThatNoScheduleDeletes(t *testing.T) {
	scheduled := func(schedules ...v1alpha1.BackupSchedule) *v1alpha1.MySQLCluster {
		return quiet(func(c *v1alpha1.MySQLCluster) { c.Spec.Backup = &v1alpha1.BackupSpec{Schedules: schedules} })
	}
	of := func(name string, method v1alpha1.BackupMethod) v1alpha1.BackupSchedule {
		return v1alpha1.BackupSchedule{Name: name, Cron: "0 * * * *", Method: method}
	}
	hourly, monthly := of("hourly", v1alpha1.BackupMethodDump), of("monthly", v1alpha1.BackupMethodDump)
	for name, r := range map[string]struct {
		before, after *v1alpha1.MySQLCluster
		want          string
	}{
		"a new one":      {scheduled(hourly), scheduled(monthly, hourly), ""},
		"the first one":  {quiet(), scheduled(hourly), ""},
		"renamed":        {scheduled(hourly, monthly), scheduled(hourly, of("month", v1alpha1.BackupMethodDump)), "that monthly made"},
		"removed":        {scheduled(hourly, monthly), scheduled(hourly), "that monthly made"},
		"converted":      {scheduled(hourly, monthly), scheduled(of("hourly", v1alpha1.BackupMethodSnapshot), monthly), "that hourly made"},
		"no backup left": {scheduled(hourly, monthly), quiet(), "that hourly, monthly made"},
	} {
		warnings, err := new(webhook.Validator).ValidateUpdate(t.Context(), r.before, r.after)
		if err != nil || strings.Contains(strings.Join(warnings, "\n"), "stay until you delete them") != (r.want != "") || !strings.Contains(strings.Join(warnings, "\n"), r.want) {
			t.Errorf("%s: %q, %v", name, warnings, err)
		}
	}
}

func TestDelete(t *testing.T) {
	validator := &webhook.Validator{}
	_, err := validator.ValidateDelete(t.Context(), quiet())
	if err == nil || !strings.Contains(err.Error(), `kubectl patch mysqlclusters.mysql.alx.ke orders --namespace shop --type merge --patch '{"spec":{"deletionProtection":false}}'`) ||
		!strings.Contains(err.Error(), "spec.storage.deletionPolicy, which is Snapshot") {
		t.Errorf("a cluster that does not speak of protection is protected, and the way on is told; got %v", err)
	}
	if warnings, err := validator.ValidateDelete(t.Context(), quiet(unprotected)); err != nil || len(warnings) > 0 {
		t.Errorf("%q, %v", warnings, err)
	}
	gone := quiet(unprotected, func(c *v1alpha1.MySQLCluster) { c.Spec.Storage.DeletionPolicy = v1alpha1.DeletionPolicyDelete })
	if warnings, err := validator.ValidateDelete(t.Context(), gone); err != nil || len(warnings) != 1 {
		t.Errorf("%q, %v", warnings, err)
	}
	if warnings, err := validator.ValidateDelete(t.Context(), nil); err != nil || len(warnings) > 0 {
		t.Errorf("%q, %v", warnings, err)
	}
}

func TestPolicyIsWarnedOf(t *testing.T) {
	rules, err := policy.Parse(map[string]string{policy.Key: `namespaces: {shop: {operatorCredentials: true}}`})
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]struct {
		policy policy.Policy
		err    error
		want   int
	}{
		"nothing is allowed":         {want: 5},
		"the account is allowed":     {policy: rules, want: 4},
		"the policy cannot be read":  {err: errors.New("no answer")},
		"own credentials, no policy": {want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := quiet()
			if strings.HasPrefix(name, "own") {
				cluster.Spec.AWS.CredentialsSecretRef = &v1alpha1.LocalSecretReference{Name: "aws"}
			}
			validator := &webhook.Validator{Policy: func(context.Context) (policy.Policy, error) { return r.policy, r.err }}
			warnings, err := validator.ValidateCreate(t.Context(), cluster)
			if err != nil || len(warnings) != r.want {
				t.Fatalf("%q, %v", warnings, err)
			}
			for _, warning := range warnings {
				if !strings.HasPrefix(warning, "will not be served: spec.aws") {
					t.Error(warning)
				}
			}
		})
	}
}

func TestUnknownSourceOfCertificates(t *testing.T) {
	if _, err := webhook.SetUp(nil, webhook.Options{Certificates: "letsencrypt"}); !errors.Is(err, webhook.ErrCertificates) {
		t.Errorf("error %v", err)
	}
	if check, err := webhook.SetUp(nil, webhook.Options{Certificates: webhook.CertificatesNone}); err != nil || check(nil) != nil {
		t.Errorf("without a webhook there is nothing to wait for: %v", err)
	}
}
