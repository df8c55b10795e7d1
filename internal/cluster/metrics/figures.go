package metrics

import (
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/prices"
)

// The phases of a member, and those that only a cluster has.
var (
	memberPhases = [...]v1alpha1.Phase{v1alpha1.PhaseProvisioning, v1alpha1.PhaseEC2Ready, v1alpha1.PhaseReplicating, v1alpha1.PhaseReady, v1alpha1.PhaseHibernated, v1alpha1.PhaseDeleting}
	onlyClusters = [...]v1alpha1.Phase{v1alpha1.PhaseRepairing, v1alpha1.PhaseUpdating}
)

// promotionKinds are the values of the label kind of mysqlcluster_promotions_total.
var promotionKinds = [...]string{v1alpha1.EventFailover, v1alpha1.EventSwitchover, v1alpha1.EventReopened}

// clusterFigures are those of one cluster. Whoever holds them may read them without a lock.
type clusterFigures struct {
	phase      v1alpha1.Phase
	count      [len(memberPhases)]int // of members, by phase
	members    []memberFigures
	promotions [len(promotionKinds)]int // since the process started, by kind
	// headroom is how many more voters may fail; meaningless unless headroomKnown.
	headroom      int
	headroomKnown bool
	verdict       Verdict
	bill          Bill
}

// Bill is what a cluster costs for a month, by list prices in a currency. Without a currency it is not known.
type Bill struct {
	prices.Cost
	Currency string
}

// Verdict is what a pass says of a cluster.
type Verdict struct {
	// Due is true when the cluster should take writes, Available when it does.
	Due, Available bool
	// Managed is true when the cluster has instances to look after, Reconciled when the pass observed them and came to a plan.
	Managed, Reconciled bool
	// Problems are the reasons of what is wrong, each once, sorted. Undecided is true when the pass found out nothing about that, and what
	// an earlier one said stays.
	Problems  []string
	Undecided bool
}

type memberFigures struct {
	name     string
	instance string
	lag      time.Duration
	lagKnown bool
	// size and free are bytes; both are 0 while they are unknown.
	size, free uint64
	// expires is when the certificate of the member's instance ends, as a Unix time; 0 while it is unknown. It is kept while the member does
	// not answer: that is when nobody can renew it.
	expires int64
}

// keepExpiry takes over when the certificate of the same instance ends where it is unknown now.
func (m *memberFigures) keepExpiry(before []memberFigures) {
	for _, known := range before {
		if m.expires == 0 && m.instance != "" && known.name == m.name && known.instance == m.instance {
			m.expires = known.expires
		}
	}
}
