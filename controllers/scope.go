package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// scope is the state of one pass over one cluster. Every field says which step sets it.
type scope struct {
	// cluster is the object as it was read; open sets it, claim may update its metadata.
	cluster *v1alpha1.MySQLCluster
	log     logr.Logger
	// cache is what is kept in memory about this cluster between passes; open.
	cache *clusterCache
	// done ends the pass early without an error: nothing is left to do for this object.
	done bool

	// knownRecords and recordsVersion are the members ConfigMap and its resourceVersion; claim. An action may save records while
	// those of other members read them. recordsLost is true when it is gone although the cluster was claimed before.
	knownRecords   atomic.Pointer[topology.Records]
	recordsVersion string
	recordsLost    bool
	// recordsOrphaned: somebody took the cluster off as their owner. recordsEdited: somebody else changed what they say, which is put back.
	recordsOrphaned, recordsEdited bool

	// authority and identity are the cluster's CA and the operator's client certificate; identify.
	authority *pki.Authority
	identity  mysql.Identity
	// password is the application owner's; empty when there is no application database; identify.
	password string
	// leaving is true when the namespace is being deleted under a protected cluster; identify and publish.
	leaving bool

	// policy is the administrator's; permit.
	policy policy.Policy
	// violations are what the administrator's policy does not allow; permit.
	violations []topology.Finding
	// accountRefused is true when the policy does not let the cluster use its AWS account at all; permit.
	accountRefused bool
	// policyUnread is true when the policy cannot be read and this process never could; permit.
	policyUnread bool
	// before is cluster with the spec that machines are made from which are not to have the present version yet, nil for none;
	// observeCloud.
	before *v1alpha1.MySQLCluster
	// cloud is nil when the cluster's account may not or cannot be used; connect.
	cloud *ec2.Cloud
	// account is the AWS account that cloud leads to, empty while STS does not say; accountProblem is why; connect.
	account        string
	accountProblem *problem
	// unheld is the user's Secret with the credentials when our finalizer is not on it yet; connect.
	unheld *corev1.Secret
	// cloudProblem says why EC2 was not reached or not usable; connect and observeCloud.
	cloudProblem *problem
	// inventory is what EC2 shows of this cluster; observeCloud.
	inventory ec2.Inventory
	// untagged are resources that lost a tag by which their member is known; strangers tells of those that only a person can put right; observeCloud.
	untagged  []untagged
	strangers []string
	// lostGroup tells of the cluster's own security group when nothing but its name says any more whose it is, in a deletion; observeCloud.
	lostGroup string
	// outdated are volumes whose tag does not tell the newest version that opened them, with that version; observeCloud.
	outdated map[string]string
	// vpc is the VPC of the subnets; observeCloud.
	vpc string
	// unmet is what of the spec, the annotations and the records cannot be followed, while there is enough to go on with;
	// claim and observeCloud.
	unmet []topology.Finding
	// dependencyProblem is what the spec names and EC2 does not show; observeCloud.
	dependencyProblem *problem
	// preflightProblem is what the preflight found; preflight.
	preflightProblem *problem

	desired  topology.Desired
	observed topology.Observed
	// plan is what was decided; decide. planned is true from then on.
	plan    topology.Plan
	planned bool
	// moved is true when the plan changed what is remembered of the cluster; remember.
	moved bool
	// promoted is true once this pass made a member the primary; act.
	promoted bool
	// outcome are the problems that actions ran into; act.
	outcome []*problem
	// inTheWay are objects that could not be written, for which nothing waits; identify, hold and publish.
	inTheWay []*problem
	// acted counts the actions of the plan that succeeded, but for upkeep; act.
	acted int
	// published is true once endpoints agree with the plan; publish.
	published bool
	// archived is what the archive's pod reported, nil before it did; archive.
	archived *archiveReport
	// archiveSince is when its StatefulSet was made; archive.
	archiveSince time.Time
	// backups are the cluster's MySQLBackups, the newest first; backup.
	backups      []v1alpha1.MySQLBackup
	backupsKnown bool
	// unsettled is true while snapshots of a cluster that goes are not as they should be; backup.
	unsettled bool
	// archiveEnds is true while the archive of a cluster that goes is waited for.
	archiveEnds bool
	// credentialsMissing says what the Secret of the backups' destination lacks, so that no pod can begin; backup.
	credentialsMissing string
	// schedules are when the CronJobs of the cluster were made, by name; backup.
	schedules map[string]time.Time
	// verification is what the pod that verified a backup last reported, nil for none; backup.
	verification map[string]string
	// answered are the requests to EC2 of an earlier pass that this one took the answers of, of which the inventory may not tell yet; act.
	answered map[attempt]bool
	// suspended is true when the schedules are now, and the status does not say since when; backup.
	suspended bool
	// recovery is what the restoring pod reported last; act.
	recovery map[string]string
	// unadoptable is why the copy of a volume cannot be what the cluster begins with, empty while it can; act.
	unadoptable string
	// promotion is the failover or switchover that this pass completed, nil for none; conclude.
	promotion *v1alpha1.PromotionStatus
}

// untagged is a resource with the tags that it should have.
type untagged struct {
	id   string
	tags map[string]string
}

// open reads the cluster and begins a pass, or returns nil when there is nothing to do.
func (r *MySQLClusterReconciler) open(ctx context.Context, req ctrl.Request) (*scope, error) {
	var cluster v1alpha1.MySQLCluster
	if err := r.Client.Get(ctx, req.NamespacedName, &cluster); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
			return nil, r.objects.releaseLeftovers(ctx, req.NamespacedName)
		}
		return nil, fmt.Errorf("get cluster: %w", err)
	}
	return &scope{
		cluster: &cluster,
		log:     ctrl.LoggerFrom(ctx),
		cache:   r.caches.of(req.NamespacedName, keyOf(cluster.UID)),
	}, nil
}

// uid returns the cluster's UID, by which everything in EC2 is owned.
func (s *scope) uid() string { return string(s.cluster.UID) }

// deleting says whether the cluster is to go. A protected cluster with a deletion timestamp keeps running.
func (s *scope) deleting() bool {
	return !s.cluster.DeletionTimestamp.IsZero() && !s.cluster.IsProtected()
}

// abandons says whether a person gave up on deleting what is in EC2.
func (s *scope) abandons() bool {
	return s.deleting() && s.cluster.AbandonsCloudResources()
}

// owner returns the identity under which EC2 resources are made.
func (s *scope) owner() ec2.Ownership {
	return ec2.Ownership{
		ClusterUID: s.uid(), Namespace: s.cluster.Namespace, Cluster: s.cluster.Name, UserTags: s.cluster.Spec.AWS.Tags, CountedSince: s.records().RebuiltAt,
	}
}

// openedBy is the newest version of MySQL that may have opened a member's volume.
func (s *scope) openedBy(member string) string {
	if opened := s.record(member).Opened; opened != "" {
		return opened
	}
	return s.cluster.Spec.Version
}

// settingNames are the variables of the spec, in order.
func (s *scope) settingNames() []string { return slices.Sorted(maps.Keys(s.desired.Settings)) }
