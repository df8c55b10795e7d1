package announce

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
)

// TestConditionsThatChangeAreReported once, with the reason by which alerts select.
func TestConditionsThatChangeAreReported(t *testing.T) {
	const degraded, recovered = v1alpha1.ConditionDegraded, v1alpha1.ConditionRecovered
	is := func(kind string, status metav1.ConditionStatus, reason string) *metav1.Condition {
		return &metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "orders-1 is full"}
	}
	full, gone, well := is(degraded, metav1.ConditionTrue, "DiskNearlyFull"), is(degraded, metav1.ConditionTrue, "MemberMissing"), is(degraded, metav1.ConditionFalse, "Healthy")
	for name, test := range map[string]struct {
		was, is *metav1.Condition
		want    []string
	}{
		"a new cluster is well":            {nil, well, nil},
		"the first that is known is bad":   {nil, full, []string{"Warning DiskNearlyFull orders-1 is full"}},
		"it becomes bad":                   {well, full, []string{"Warning DiskNearlyFull orders-1 is full"}},
		"it stays bad":                     {full, full, nil},
		"it is bad for another reason":     {full, gone, []string{"Warning MemberMissing orders-1 is full"}},
		"it is well again":                 {full, well, []string{"Normal Healthy Nothing needs attention any more"}},
		"it stays well":                    {well, well, nil},
		"it is not known any more":         {full, nil, nil},
		"a restore goes on":                {is(recovered, metav1.ConditionFalse, "Recovering"), is(recovered, metav1.ConditionFalse, "RecoveryFailed"), nil},
		"a restore is complete":            {is(recovered, metav1.ConditionFalse, "Recovering"), is(recovered, metav1.ConditionTrue, "Recovered"), []string{"Normal Recovered The cluster begins with what spec.bootstrap.recovery names"}},
		"a restore was complete long ago":  {is(recovered, metav1.ConditionTrue, "Recovered"), is(recovered, metav1.ConditionTrue, "Recovered"), nil},
		"a condition that is not reported": {is("Progressing", metav1.ConditionTrue, "Rolling"), is("Progressing", metav1.ConditionFalse, "Stable"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(10)
			r := &Announcer{Ports: &pass.Ports{Events: recorder}}
			var was, is v1alpha1.MySQLCluster
			if test.was != nil {
				was.Status.Conditions = append(was.Status.Conditions, *test.was)
			}
			if test.is != nil {
				is.Status.Conditions = append(is.Status.Conditions, *test.is)
			}
			r.StatusChanges(&pass.Pass{Cluster: &is, Cache: pass.NewCache("")}, &was)
			close(recorder.Events)
			var got []string
			for event := range recorder.Events {
				got = append(got, event)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestTurnsAreReportedOnce: a Warning when a condition turns False, a Normal event when it turns True after that, and nothing else,
// whatever is Unknown in between and whoever writes the status.
func TestTurnsAreReportedOnce(t *testing.T) {
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	type turn struct {
		status metav1.ConditionStatus
		reason string
		want   string // the event's type and reason; "" for none
		leader bool   // another process leads from here on
	}
	for condition, turns := range map[string][]turn{
		v1alpha1.ConditionAvailable: {
			{status: no, reason: "NotProbed"}, {status: no, reason: "NoPrimary"}, {status: yes, reason: "WriteSucceeded", want: "Normal WriteSucceeded"},
			{status: no, reason: "NoPrimary", want: "Warning NoPrimary"}, {status: no, reason: "WriteFailed"}, {status: no, reason: "WriteFailed", leader: true},
			{status: unknown, reason: "NotProbed"}, {status: yes, reason: "WriteSucceeded", want: "Normal WriteSucceeded"},
			{status: unknown, reason: "NotProbed"}, {status: yes, reason: "WriteSucceeded"}, {status: yes, reason: "WriteSucceeded", leader: true},
			{status: no, reason: "Hibernated"}, {status: yes, reason: "WriteSucceeded", want: "Normal WriteSucceeded"}, {status: no, reason: "Deleting"},
		},
		v1alpha1.ConditionBackupHealthy: {
			{status: unknown, reason: "NoBackupYet"}, {status: yes, reason: "BackupSucceeded"}, {status: no, reason: "BackupFailed", want: "Warning BackupFailed"},
			{status: no, reason: "BackupOverdue"}, {status: unknown, reason: "Hibernated"}, {status: no, reason: "BackupOverdue"},
			{status: yes, reason: "BackupSucceeded", want: "Normal BackupSucceeded"},
		},
		v1alpha1.ConditionArchiveHealthy: {
			{status: unknown, reason: "ArchiveStarting"}, {status: no, reason: "ArchiveGap", want: "Warning ArchiveGap"}, {status: no, reason: "ArchiveGap", leader: true},
			{status: yes, reason: "Archiving", want: "Normal Archiving"},
		},
	} {
		recorder := events.NewFakeRecorder(10)
		r := &Announcer{Ports: &pass.Ports{Events: recorder}}
		s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}, Cache: pass.NewCache("")}
		for i, turn := range turns {
			if turn.leader {
				s.Cache = pass.NewCache("")
			}
			before := s.Cluster.DeepCopy()
			s.Cluster.Status.Conditions = []metav1.Condition{{Type: condition, Status: turn.status, Reason: turn.reason, Message: "why"}}
			r.StatusChanges(s, before)
			got := ""
			select {
			case event := <-recorder.Events:
				got = event
			default:
			}
			if (got == "") != (turn.want == "") || !strings.HasPrefix(got, turn.want) || len(recorder.Events) != 0 {
				t.Errorf("%s, turn %d: got %q and %d more, want %q", condition, i, got, len(recorder.Events), turn.want)
			}
		}
	}
}
