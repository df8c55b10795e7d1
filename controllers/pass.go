package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// pass is the state of one pass over one cluster. Each part is written by the stages that it names, and only read by those after them.
type pass struct {
	// cluster is the object as it was read; open sets it, claim may update its metadata.
	cluster *v1alpha1.MySQLCluster
	log     logr.Logger
	// cache is what is kept in memory about this cluster between passes; open.
	cache *clusterCache
	// done ends the pass early without an error: nothing is left to do for this object.
	done bool

	stored engine.Recorder // claim, remember; actions
	keys   passKeys        // identify
	access passAccess      // permit, connect
	seen   sight           // observeCloud
	backup passBackups     // backup, archive
	// unmet is what of the spec, the annotations and the records cannot be followed, while there is enough to go on with; claim and
	// observeCloud.
	unmet []topology.Finding

	desired  topology.Desired
	observed topology.Observed
	// plan is what was decided; decide. planned is true from then on.
	plan    topology.Plan
	planned bool
	// result is the outcome of the plan; remember, act and publish.
	result passResult
}

// passKeys is whom the members know the operator as.
type passKeys struct {
	// authority and identity are the cluster's CA and the operator's client certificate.
	authority *pki.Authority
	identity  mysql.Identity
	// password is the application owner's; empty when there is no application database.
	password string
	// leaving is true when the namespace is being deleted under a protected cluster; publish may find that, too.
	leaving bool
}

// passAccess is the way to the AWS account, and whether the administrator's policy allows it.
type passAccess struct {
	policy policy.Policy
	// violations are what the policy does not allow.
	violations []topology.Finding
	// refused is true when the policy does not let the cluster use its AWS account at all, unread when it cannot be read and this
	// process never could.
	refused, unread bool
	// cloud is nil when the cluster's account may not or cannot be used.
	cloud *ec2.Cloud
	// account is the AWS account that cloud leads to, empty while STS does not say; accountProblem is why.
	account        string
	accountProblem *engine.Problem
	// problem says why EC2 was not reached or not usable; observeCloud may find that, too.
	problem *engine.Problem
	// unheld is the user's Secret with the credentials when our finalizer is not on it yet.
	unheld *corev1.Secret
}

// sight is what EC2 shows, beyond what the brain is told of it.
type sight struct {
	inventory ec2.Inventory
	// untagged are resources that lost a tag by which their member is known; strangers tells of those that only a person can put right.
	untagged  []engine.LostTags
	strangers []string
	// lostGroup tells of the cluster's own security group when nothing but its name says any more whose it is, in a deletion.
	lostGroup string
	// outdated are volumes whose tag does not tell the newest version that opened them, with that version.
	outdated map[string]string
	// vpc is the VPC of the subnets.
	vpc string
	// before is cluster with the spec that machines are made from which are not to have the present version yet, nil for none.
	before *v1alpha1.MySQLCluster
	// dependencyProblem is what the spec names and EC2 does not show, preflightProblem what the preflight found; preflight sets that.
	dependencyProblem, preflightProblem *engine.Problem
}

// passBackups is what is known of backups, the archive and the restore.
type passBackups struct {
	// all are the cluster's MySQLBackups, the newest first, when they are known.
	all   []v1alpha1.MySQLBackup
	known bool
	// schedules are when the CronJobs of the cluster were made, by name.
	schedules map[string]time.Time
	// suspended is true when the schedules are now, and the status does not say since when.
	suspended bool
	// credentialsMissing says what the Secret of the backups' destination lacks, so that no pod can begin.
	credentialsMissing string
	// verification is what the pod that verified a backup last reported, nil for none.
	verification map[string]string
	// archived is what the archive's pod reported, nil before it did; archiveSince is when its StatefulSet was made.
	archived     *archiveReport
	archiveSince time.Time
	// archiveEnds is true while the archive of a cluster that goes is waited for.
	archiveEnds bool
	// unsettled is true while snapshots of a cluster that goes are not as they should be.
	unsettled bool
	// recovery is what the restoring pod reported last; act.
	recovery map[string]string
	// unadoptable is why the copy of a volume cannot be what the cluster begins with, empty while it can; act.
	unadoptable string
}

// passResult is the outcome of a plan.
type passResult struct {
	// moved is true when the plan changed what is remembered of the cluster; remember.
	moved bool
	// problems are what actions ran into; acted counts those of the plan that succeeded, but for upkeep.
	problems []*engine.Problem
	acted    int
	// promoted is true once this pass made a member the primary.
	promoted bool
	// promotion is the failover or switchover that this pass completed, nil for none; conclude.
	promotion *v1alpha1.PromotionStatus
	// inTheWay are objects that could not be written, for which nothing waits; identify, hold and publish.
	inTheWay []*engine.Problem
	// published is true once endpoints agree with the plan; publish.
	published bool
}

// open reads the cluster and begins a pass, or returns nil when there is nothing to do.
func (r *MySQLClusterReconciler) open(ctx context.Context, req ctrl.Request) (*pass, error) {
	var cluster v1alpha1.MySQLCluster
	if err := r.Client.Get(ctx, req.NamespacedName, &cluster); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
			return nil, r.objects.releaseLeftovers(ctx, req.NamespacedName)
		}
		return nil, fmt.Errorf("get cluster: %w", err)
	}
	s := &pass{
		cluster: &cluster,
		log:     ctrl.LoggerFrom(ctx),
		cache:   r.caches.of(req.NamespacedName, keyOf(cluster.UID)),
	}
	r.recordKeeper.openRecords(s)
	return s, nil
}

// uid returns the cluster's UID, by which everything in EC2 is owned.
func (s *pass) uid() string { return string(s.cluster.UID) }

// deleting says whether the cluster is to go. A protected cluster with a deletion timestamp keeps running.
func (s *pass) deleting() bool {
	return !s.cluster.DeletionTimestamp.IsZero() && !s.cluster.IsProtected()
}

// abandons says whether a person gave up on deleting what is in EC2.
func (s *pass) abandons() bool {
	return s.deleting() && s.cluster.AbandonsCloudResources()
}

// owner returns the identity under which EC2 resources are made.
func (s *pass) owner() ec2.Ownership {
	return ec2.Ownership{
		ClusterUID: s.uid(), Namespace: s.cluster.Namespace, Cluster: s.cluster.Name, UserTags: s.cluster.Spec.AWS.Tags, CountedSince: s.records().RebuiltAt,
	}
}

// openedBy is the newest version of MySQL that may have opened a member's volume.
func (s *pass) openedBy(member string) string {
	if opened := s.record(member).Opened; opened != "" {
		return opened
	}
	return s.cluster.Spec.Version
}

// settingNames are the variables of the spec, in order.
func (s *pass) settingNames() []string { return slices.Sorted(maps.Keys(s.desired.Settings)) }
