// Package pass has the state of one pass over one cluster, what the operator remembers of the cluster between passes, and what a pass
// reaches the world through. The packages beside it are the steps of a pass.
package pass

import (
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	corev1 "k8s.io/api/core/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// Pass is the state of one pass over one cluster. Each part is written by the steps that its comment names, which make structure checks,
// and only read by all others.
type Pass struct {
	// Cluster is the object as it was read.
	Cluster *v1alpha1.MySQLCluster
	Log     logr.Logger
	// Cache is what is kept in memory about this cluster between passes.
	Cache *Cache
	// Done ends the pass early without an error: nothing is left to do for this object. Written by records, release.
	Done bool

	// Stored are the records. Written by records, execute, observe.
	Stored engine.Recorder
	// Keys are whom the members know the operator as. Written by identity, pass.
	Keys Keys
	// Access is the way to EC2. Written by access.
	Access Access
	// Seen is what EC2 shows. Written by observe.
	Seen Sight
	// Backup is what is known of backups. Written by backups.
	Backup Backups
	// Unmet is what of the spec, the annotations and the records cannot be followed, while there is enough to go on with. Written by
	// records, access, observe, decide.
	Unmet []topology.Finding

	// Desired is what the spec asks for. Written by observe, decide.
	Desired topology.Desired
	// Observed is what was seen of the cluster. Written by observe, restore, decide.
	Observed topology.Observed
	// Plan is what was decided. Written by decide, records, execute, backups.
	Plan topology.Plan
	// Planned is true once there is one. Written by decide.
	Planned bool
	// Result is the outcome of the plan. Written by execute.
	Result Result
}

// Keys is whom the members know the operator as.
type Keys struct {
	// Root is the certificate of the cluster's CA, and Identity the operator's client certificate. Without them no member can be asked.
	Root     *pki.Root
	Identity mysql.Identity
	// Authority signs for the cluster's CA; nil while nothing can be signed, and Unsigned is why.
	Authority *pki.Authority
	Unsigned  *engine.Problem
	// Password is the application owner's; empty when there is no application database.
	Password string
	// PasswordSecret is the type of the Secret that holds it, which cannot be changed; empty while there is none.
	PasswordSecret corev1.SecretType
	// Leaving is true when the namespace is being deleted under a protected cluster.
	Leaving bool
}

// Sign has the pass sign with an authority.
func (k *Keys) Sign(a *pki.Authority) { k.Authority, k.Root = a, a.Root }

// Access is the way to the AWS account, and whether the administrator's policy allows it.
type Access struct {
	Policy policy.Policy
	// Violations are what the policy does not allow.
	Violations []topology.Finding
	// Refused is true when the policy does not let the cluster use its AWS account at all, Unread when it cannot be read and this
	// process never could.
	Refused, Unread bool
	// Cloud is nil when the cluster's account may not or cannot be used.
	Cloud *ec2.Cloud
	// Account is the AWS account that Cloud leads to, empty while STS does not say; AccountProblem is why.
	Account        string
	AccountProblem *engine.Problem
	// Problem says why EC2 was not reached or not usable. Written by access, observe, decide.
	Problem *engine.Problem
	// Unheld is the user's Secret with the credentials when the operator's finalizer is not on it yet.
	Unheld *corev1.Secret
}

// Sight is what EC2 shows, beyond what the planner is given.
type Sight struct {
	Inventory inventory.Inventory
	// Untagged are resources that lost a tag by which their member is known; Strangers tells of those that only a person can put right.
	Untagged  []engine.LostTags
	Strangers []string
	// OldTags are the instances whose tag of the template hashes what does not count any more, with the hash that does.
	OldTags map[string]string
	// LostGroup tells of the cluster's own security group when nothing but its name says any more whose it is, in a deletion.
	LostGroup string
	// Outdated are volumes whose tag does not name the newest version that opened them, with that version.
	Outdated map[string]string
	// VPC is the VPC of the subnets.
	VPC string
	// Previous is the cluster with the spec for instances that are not to have the present version yet, nil for none.
	Previous *v1alpha1.MySQLCluster
	// DependencyProblem is what the spec names and EC2 does not show.
	DependencyProblem *engine.Problem
	// PreflightProblem is what the preflight found. Written by decide.
	PreflightProblem *engine.Problem
}

// Backups is what is known of backups, the archive and the restore.
type Backups struct {
	// All are the cluster's MySQLBackups, the newest first, when they are known.
	All   []v1alpha1.MySQLBackup
	Known bool
	// Schedules are when the CronJobs of the cluster were made, by name.
	Schedules map[string]time.Time
	// Suspended is true when the schedules are now, and the status does not say since when.
	Suspended bool
	// Blocked is why backup pods cannot begin: something that the destination names is not there, or their account or certificate is
	// somebody else's. It is nil when they can.
	Blocked *engine.Problem
	// Verification is what the pod that verified a backup last reported, nil for none.
	Verification map[string]string
	// Archived is what the archive's pod reported, nil before it did; ArchiveSince is when its StatefulSet was made. ArchiveRead is true
	// when they were read in this pass: otherwise nothing new is known of the archive.
	Archived     *archive.Report
	ArchiveSince time.Time
	ArchiveRead  bool
	// ArchiveEnds is true while the archive of a cluster that goes is waited for. Written by execute.
	ArchiveEnds bool
	// Unsettled is true while snapshots of a cluster that goes are not as they should be.
	Unsettled bool
	// Recovery is what the restoring pod reported last. Written by restore.
	Recovery map[string]string
	// Unadoptable is why the copy of a volume cannot be what the cluster begins with, empty while it can. Written by restore.
	Unadoptable string
}

// Result is the outcome of a plan.
type Result struct {
	// Moved is true when the plan changed what is recorded of the cluster. Written by records.
	Moved bool
	// Problems are what the steps ran into. Written by access, identity, restore, decide, execute, backups, pass.
	Problems []*engine.Problem
	// Acted counts the actions of the plan that succeeded, but for upkeep.
	Acted int
	// Promoted is true once this pass made a member the primary.
	Promoted bool
	// Promotion is the failover or switchover that this pass completed, nil for none. Written by status.
	Promotion *v1alpha1.PromotionStatus
	// InTheWay are objects that could not be written, for which nothing waits. Written by records, objects, publish.
	InTheWay []*engine.Problem
	// Published is true once endpoints agree with the plan. Written by publish.
	Published bool
}

// UID returns the cluster's UID, by which everything in EC2 is owned.
func (s *Pass) UID() string { return string(s.Cluster.UID) }

// Deleting says whether the cluster is to go. A protected cluster with a deletion timestamp keeps running.
func (s *Pass) Deleting() bool {
	return !s.Cluster.DeletionTimestamp.IsZero() && !s.Cluster.IsProtected()
}

// Abandons says whether a person gave up on deleting what is in EC2.
func (s *Pass) Abandons() bool {
	return s.Deleting() && s.Cluster.AbandonsCloudResources()
}

// Owner returns the identity under which EC2 resources are made.
func (s *Pass) Owner() awsapi.Ownership {
	return awsapi.Ownership{
		ClusterUID: s.UID(), Namespace: s.Cluster.Namespace, Cluster: s.Cluster.Name, UserTags: s.Cluster.Spec.AWS.Tags, CountedSince: s.Records().RebuiltAt,
	}
}

// OpenedBy is the newest version of MySQL that may have opened a member's volume.
func (s *Pass) OpenedBy(member string) string {
	if opened := s.Record(member).Opened; opened != "" {
		return opened
	}
	return s.Cluster.Spec.Version
}

// SettingNames are the variables of the spec, in order.
func (s *Pass) SettingNames() []string { return slices.Sorted(maps.Keys(s.Desired.Settings)) }

// NeverBegun says that a cluster which is to go has nothing in EC2, by its records.
func (s *Pass) NeverBegun() bool { return s.Deleting() && Unbegun(s) }

// Unbegun says that nothing was ever made for a cluster, by its records.
func Unbegun(s *Pass) bool { return !s.Stored.Lost && s.Records().Unbegun() }

// CredentialsSecret is the name of the user's Secret with AWS credentials, empty when the spec names none.
func CredentialsSecret(c *v1alpha1.MySQLCluster) string {
	if ref := c.Spec.AWS.CredentialsSecretRef; ref != nil {
		return ref.Name
	}
	return ""
}

// ReportBackup is ReportAside of backups.
func (s *Pass) ReportBackup(what string, err error) { s.ReportAside("backup: "+what, err) }

// ReportAside reports an error of something that nothing else waits for, in the conditions, and has it tried again.
func (s *Pass) ReportAside(what string, err error) {
	if p := AsProblem(err); p != nil {
		s.Result.Problems = append(s.Result.Problems, &engine.Problem{Reason: p.Reason, Message: what + p.Message, After: p.After, Aside: true, Cause: p})
	}
}

// HasWritable says whether the primary takes writes.
func (s *Pass) HasWritable() bool {
	m := s.Observed.Members[s.Plan.Primary]
	return m != nil && m.SQL.Access == topology.AccessVerified && m.SQL.Writable
}

// UnlessLeaving returns err, unless it only says that nothing can be made any more in a namespace that is being deleted.
// A protected cluster goes on there with what it has.
func (s *Pass) UnlessLeaving(err error) error {
	if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || s.Deleting() {
		return err
	}
	s.Keys.Leaving = true
	return nil
}

// Shown says whether EC2 shows anything of the cluster's members.
func (s *Pass) Shown() bool { return len(s.Seen.Inventory.Instances)+len(s.Seen.Inventory.Volumes) > 0 }

// Recovering says whether the cluster has yet to be given what it begins with.
func (s *Pass) Recovering() bool {
	return s.Cluster.Recovery() != nil && !s.Records().Recovered && !s.Records().Established && s.Records().Bootstrapped == ""
}

// Restorer is what the restoring pod says: how far it is, or the reason for which it failed, by its name in the documentation, and
// what happened.
func (s *Pass) Restorer() string {
	message := s.Backup.Recovery[task.ReportMessage]
	if reason := s.Backup.Recovery[task.ReportReason]; reason != "" {
		return reason + ": " + message
	}
	return message
}

// What a restoring pod reports as its state once it has given up, or has restored everything.
const (
	RestoreFailed = "Failed"
	RestoreDone   = "Done"
)

// Restored says what a restore brought back, up to which transaction, and what it could not bring back, for a condition.
func (s *Pass) Restored() string {
	if message := s.Backup.Recovery[task.ReportMessage]; s.Backup.Recovery[task.ReportState] == RestoreDone && message != "" {
		return ": " + message
	}
	if skipped := s.Backup.Recovery[task.ReportSkipped]; skipped != "" {
		return "; " + skipped
	}
	return ""
}

// SnapshotQuery is what a snapshot must carry, and be, to be the one of a backup: a restore copies no other, and without it the backup has
// vanished. The tags are those that only the operator gives. What the status says, which the backup pods may write, has to agree with
// them: neither alone leads to a snapshot.
func SnapshotQuery(b *v1alpha1.MySQLBackup) inventory.SnapshotQuery {
	return inventory.SnapshotQuery{Namespace: b.Namespace, Purpose: PurposeOf(b), ClusterUID: b.Status.ClusterUID, ID: b.Status.SnapshotID}
}

// SnapshotOf is the snapshot of a backup as EC2 shows it.
func (s *Pass) SnapshotOf(b *v1alpha1.MySQLBackup) (inventory.Snapshot, bool) {
	i := slices.IndexFunc(s.Seen.Inventory.Snapshots, SnapshotQuery(b).Fits)
	if i < 0 {
		return inventory.Snapshot{}, false
	}
	return s.Seen.Inventory.Snapshots[i], true
}

// TakenFor is what EC2 shows of the snapshots that the cluster took for a backup, the one that the status names first. The operator may
// delete it; whether a restore may copy it, SnapshotOf says.
func (s *Pass) TakenFor(b *v1alpha1.MySQLBackup) (taken inventory.Snapshot, shown bool) {
	for _, x := range s.Seen.Inventory.Snapshots {
		if x.TakenBy(s.UID(), PurposeOf(b)) && (!shown || x.ID == b.Status.SnapshotID) {
			taken, shown = x, true
		}
	}
	return taken, shown
}

// SnapshotsListed says whether EC2 answers, and has listed its snapshots since a moment.
func (s *Pass) SnapshotsListed(since time.Time) bool {
	return s.Observed.CloudReachable && s.Seen.Inventory.SnapshotsTaken.After(since)
}

// Records returns the records as this pass knows them, and saved them last. They are shared: whoever changes them changes a clone.
func (s *Pass) Records() topology.ClusterRecord { return s.Stored.Now() }

// LargestVolume is the largest of the members' volumes; of equal ones, one that EC2 refuses to modify. Its size is 0 while there is none.
func (s *Pass) LargestVolume() (largest topology.Volume) {
	for _, name := range slices.Sorted(maps.Keys(s.Observed.Members)) {
		m := s.Observed.Members[name]
		for _, v := range m.Volumes {
			if v.SizeGiB > largest.SizeGiB || v.SizeGiB == largest.SizeGiB && m.ModificationRefused != "" {
				largest = v
			}
		}
	}
	return largest
}

// SetRecords has the pass go by records.
func (s *Pass) SetRecords(records topology.ClusterRecord) { s.Stored.Set(records) }

// Record returns what is remembered of a member at the moment.
func (s *Pass) Record(member string) topology.MemberRecord { return s.Records().Members[member] }

// KeyOf is the key under which everything in memory is kept for a cluster.
func KeyOf(uid types.UID) string { return string(uid) }

// WillHold adds the Secret with the cluster's credentials to the records. It is written down before the Secret gets the
// finalizer: the operator may not list the Secrets of others, and would not find it again by itself.
func WillHold(s *Pass, records *topology.ClusterRecord) {
	if name := CredentialsSecret(s.Cluster); name != "" && s.Access.Cloud != nil && !slices.Contains(records.Held, name) {
		records.Held = append(slices.Clone(records.Held), name)
	}
}

// BackupPurpose begins the purpose tag of a snapshot that is a backup; the MySQLBackup's UID follows.
const BackupPurpose = "backup-"

// PurposeOf is the purpose of a backup's snapshot. It is by the UID, because the name may come again; and by this and the
// cluster's UID a snapshot is found in EC2, never by what a status says, which the backup pods may write.
func PurposeOf(b *v1alpha1.MySQLBackup) string { return BackupPurpose + string(b.UID) }
