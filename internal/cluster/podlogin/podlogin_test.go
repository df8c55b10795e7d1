package podlogin

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
)

// TestAccountsAreCheckedAgain every ten minutes.
func TestAccountsAreCheckedAgain(t *testing.T) {
	began := time.Now().Truncate(time.Second)
	clock := clocktesting.NewFakePassiveClock(began)
	l := &Logins{Ports: &pass.Ports{Clock: clock}}
	s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(began)}}}
	last := l.period(s)
	for _, row := range []struct {
		after  time.Duration
		checks bool
	}{{accountCheck - time.Second, false}, {time.Second, true}, {time.Minute, false}, {accountCheck, true}} {
		clock.SetTime(clock.Now().Add(row.after))
		now := l.period(s)
		if (now != last) != row.checks {
			t.Errorf("%s later: it is checked again: %t, want %t", row.after, now != last, row.checks)
		}
		last = now
	}
}
