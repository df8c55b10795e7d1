package execute

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/backups"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// logs are the binary logs of a primary that its replicas do not need, each of so many bytes, the archive has so many of them.
type logs struct {
	left, archived int
	bytes          uint64
}

func (l *logs) remove(_ context.Context, executed []string, enough uint64) (admin.Purged, error) {
	n := l.left
	if len(executed) > 2 {
		n = l.archived
	}
	if enough > 0 {
		n = min(n, int((enough+l.bytes-1)/l.bytes))
	}
	l.left -= n
	return admin.Purged{Logs: n, Bytes: uint64(n) * l.bytes}, nil
}

// TestTheArchiveNeedsTheBinaryLogs until it holds what is in them, or almost nothing is left of the disk: then so many go that there is
// room again.
func TestTheArchiveNeedsTheBinaryLogs(t *testing.T) {
	disk := func(free uint64) *topology.Disk { return &topology.Disk{SizeBytes: 1000, FreeBytes: free} }
	for name, row := range map[string]struct {
		purge
		logs
		want string
	}{
		"no archive":                         {purge{disk: disk(10)}, logs{9, 0, 20}, "9 0"},
		"an archive that is behind":          {purge{archives: true, disk: disk(100)}, logs{9, 0, 20}, "0 0"},
		"what it holds":                      {purge{archives: true, disk: disk(100)}, logs{9, 2, 20}, "2 0"},
		"what it holds, on a full disk":      {purge{archives: true, disk: disk(10)}, logs{9, 2, 20}, "2 0"},
		"what it holds is not enough":        {purge{archives: true, disk: disk(10)}, logs{9, 1, 20}, "1 4"},
		"the last resort":                    {purge{archives: true, disk: disk(10)}, logs{9, 0, 20}, "0 5"},
		"the last resort, with large logs":   {purge{archives: true, disk: disk(49)}, logs{9, 0, 60}, "0 1"},
		"the last resort has not so much":    {purge{archives: true, disk: disk(10)}, logs{3, 0, 20}, "0 3"},
		"a disk that nobody knows":           {purge{archives: true}, logs{9, 0, 20}, "0 0"},
		"not much is left, but enough of it": {purge{archives: true, disk: disk(50)}, logs{9, 0, 20}, "0 0"},
	} {
		t.Run(name, func(t *testing.T) {
			row.replicas = []string{"a", "b"}
			removed, unarchived, err := row.run(t.Context(), row.remove)
			if got := fmt.Sprint(removed, unarchived); got != row.want || err != nil {
				t.Errorf("removed and not archived are %s, not %s: %v", got, row.want, err)
			}
		})
	}
}

// TestAReportThatCannotBeReadFillsNoDisk: nothing counts as archived, the last resort remains, and what is wrong is said.
func TestAReportThatCannotBeReadFillsNoDisk(t *testing.T) {
	for name, report := range map[string]string{"no report": "{", "no GTID set": `{"archived": "nonsense"}`} {
		t.Run(name, func(t *testing.T) {
			c := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}, Spec: v1alpha1.MySQLClusterSpec{
				Backup: &v1alpha1.BackupSpec{Destination: &v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{Bucket: "b"}}}}}
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: resources.ArchiveName("orders")}, Data: map[string]string{task.ReportArchive: report}}
			recorder := events.NewFakeRecorder(10)
			ports := &pass.Ports{Client: fake.NewClientBuilder().WithObjects(cm).Build(), Clock: clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)), Events: recorder}
			member := func(name string) topology.View { return topology.View{Name: name} }
			s := &pass.Pass{Cluster: c, Log: logr.Discard(), Cache: pass.NewCache("uid"),
				Plan: topology.Plan{Primary: "orders-0", Members: []topology.View{member("orders-0"), member("orders-1"), member("orders-2")}}}
			s.Observed.Members = map[string]*topology.Member{}
			for _, v := range s.Plan.Members {
				s.Observed.Members[v.Name] = &topology.Member{SQL: topology.SQL{Access: topology.AccessVerified, Disk: &topology.Disk{SizeBytes: 1000, FreeBytes: 10}}}
			}
			l := logs{9, 0, 20}
			err := sqlMember{r: &Executor{Ports: ports, Archive: &backups.Archive{Ports: ports}}, s: s}.purge(t.Context(), l.remove)
			if err == nil || l.left != 4 || len(recorder.Events) != 1 {
				t.Errorf("%d logs are left of 9, with %d events: %v", l.left, len(recorder.Events), err)
			}
		})
	}
}
