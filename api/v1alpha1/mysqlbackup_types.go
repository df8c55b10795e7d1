package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MySQLBackupSpec says what is to be backed up, and how. It cannot be changed, but for deletionPolicy.
//
// +kubebuilder:validation:XValidation:rule="self.clusterName == oldSelf.clusterName && self.method == oldSelf.method && has(self.schedule) == has(oldSelf.schedule) && (!has(self.schedule) || self.schedule == oldSelf.schedule)",message="a backup cannot be changed into another: only deletionPolicy can; make a new MySQLBackup"
type MySQLBackupSpec struct {
	// ClusterName is the MySQLCluster to back up, in the same namespace. It is never one of another namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	ClusterName string `json:"clusterName"`

	// Method of the backup, Dump unless set.
	// +kubebuilder:default=Dump
	// +optional
	Method BackupMethod `json:"method,omitempty"`

	// DeletionPolicy says what becomes of the backup's data when this object is deleted. Retain, unless set, keeps it: it
	// can be restored by its location as long as it is there. Delete deletes it first.
	// +kubebuilder:default=Retain
	// +optional
	DeletionPolicy BackupDeletionPolicy `json:"deletionPolicy,omitempty"`

	// Schedule is the schedule that made the backup, and whose retention keeps it; empty for one that a person made.
	// +kubebuilder:validation:MaxLength=10
	// +kubebuilder:validation:Pattern=`^[a-z]([a-z0-9-]*[a-z0-9])?$`
	// +optional
	Schedule string `json:"schedule,omitempty"`
}

// BackupDeletionPolicy says what becomes of a deleted MySQLBackup's data.
// +kubebuilder:validation:Enum=Retain;Delete
type BackupDeletionPolicy string

const (
	// BackupDeletionRetain keeps it.
	BackupDeletionRetain BackupDeletionPolicy = "Retain"
	// BackupDeletionDelete deletes it.
	BackupDeletionDelete BackupDeletionPolicy = "Delete"
)

// BackupPhase says how far a backup is.
// +kubebuilder:validation:Enum=Pending;Running;Completed;Failed
type BackupPhase string

const (
	// BackupPending: nobody works on it yet.
	BackupPending BackupPhase = "Pending"
	// BackupRunning: it is being taken.
	BackupRunning BackupPhase = "Running"
	// BackupCompleted: all of it is in its place, and what says so was written last.
	BackupCompleted BackupPhase = "Completed"
	// BackupFailed: it ended without a backup. What it had written is not taken for one.
	BackupFailed BackupPhase = "Failed"
)

// MySQLBackupStatus says how far the backup is and what came of it.
type MySQLBackupStatus struct {
	// ObservedGeneration is the generation of the spec that conditions belong to; -1 until the operator has seen the backup.
	// +kubebuilder:default=-1
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions follow from what is below: Ready is True while the backup can be restored, as far as is known; Stalled is there, and True,
	// once it has failed, its data have vanished or a verification refuted it.
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(c, string(c.lastTransitionTime).size() == 20)",message="lastTransitionTime must be a moment in UTC to the second; for example 2026-01-02T03:04:05Z"
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Phase: Pending, Running, Completed or Failed.
	// +optional
	Phase BackupPhase `json:"phase,omitempty"`

	// Reason is a word for why it failed, or why it has not begun, or LeftOut; Message says it in full, or what is being done.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Reason string `json:"reason,omitempty"`

	// Message says what is being done, or why the backup failed, or what a completed one does not carry.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`

	// Runner is the Job that works on the backup.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Runner string `json:"runner,omitempty"`

	// ClusterUID is the UID of the cluster that was backed up.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ClusterUID string `json:"clusterUID,omitempty"`

	// Version of MySQL on the member.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Version string `json:"version,omitempty"`

	// Member that was backed up.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Member string `json:"member,omitempty"`

	// StartedAt and CompletedAt are when it began and when it was in its place.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$`
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// CompletedAt is when it was in its place.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$`
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`

	// Duration from begin to end, for example 12m30s.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Duration string `json:"duration,omitempty"`

	// Progress of a running backup.
	// +optional
	Progress *BackupProgress `json:"progress,omitempty"`

	// DataBytes is how much was dumped, before compression; of a snapshot the size of the volume.
	// +optional
	DataBytes int64 `json:"dataBytes,omitempty"`

	// StoredBytes is how much is stored. EBS does not tell it of a snapshot.
	// +optional
	StoredBytes int64 `json:"storedBytes,omitempty"`

	// Size is storedBytes as people read it, for example 1.2 GiB.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Size string `json:"size,omitempty"`

	// Throughput is dataBytes over the duration, for example 84 MiB/s.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Throughput string `json:"throughput,omitempty"`

	// GTIDSet is every transaction that is in the backup. It is empty when it is longer than 16384 characters: the manifest
	// has all of it.
	// +kubebuilder:validation:MaxLength=16384
	// +optional
	GTIDSet string `json:"gtidSet,omitempty"`

	BinlogCoordinates `json:",inline"`

	// Checksum of what is stored: sha256:<64 hexadecimal digits>.
	// +kubebuilder:validation:MaxLength=80
	// +optional
	Checksum string `json:"checksum,omitempty"`

	// Location is where the backup is: s3://bucket/folder, pvc://claim/folder or ebs://snapshot.
	// +kubebuilder:validation:MaxLength=1200
	// +optional
	Location string `json:"location,omitempty"`

	// Path is the folder below the destination's prefix, as spec.bootstrap.recovery.objectStore.path takes it.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Path string `json:"path,omitempty"`

	// Destination is where it was written, so that it can be found when the cluster is gone.
	// +optional
	Destination *BackupDestination `json:"destination,omitempty"`

	BackupSnapshot `json:",inline"`

	BackupFindings `json:",inline"`

	// Pruned are the names of the backups that the retention of this one's schedule deleted after it; the operator deletes
	// their objects.
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Pruned []string `json:"pruned,omitempty"`
}

// BackupFindings is what later looks at a completed backup found: what Standing goes by.
type BackupFindings struct {
	// VerifiedAt is when it was last restored to try it and found whole.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$`
	// +optional
	VerifiedAt *metav1.Time `json:"verifiedAt,omitempty"`

	// Verification says what the last attempt to restore it found.
	// +optional
	Verification *VerificationStatus `json:"verification,omitempty"`

	// VanishedAt is since when what was backed up is known not to be whole any more where it was written: EC2 shows no snapshot of a completed
	// backup, which was deleted or lost its tags, or the destination lacks objects of a dump. It is unset once all of it is seen again, and
	// stays as it is after the cluster is gone. Whether a dump is there is looked up with each later dump and verification of the cluster.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$`
	// +optional
	VanishedAt *metav1.Time `json:"vanishedAt,omitempty"`
}

// BinlogCoordinates are a place in a member's own binary log.
type BinlogCoordinates struct {
	// BinlogFile and BinlogPosition are where the member's own binary log was.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	BinlogFile string `json:"binlogFile,omitempty"`

	// BinlogPosition is the offset in that file.
	// +optional
	BinlogPosition int64 `json:"binlogPosition,omitempty"`
}

// BackupSnapshot is what is known of the EBS snapshot of a backup whose method is Snapshot.
type BackupSnapshot struct {
	// SnapshotID of the EBS snapshot.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	SnapshotID string `json:"snapshotID,omitempty"`

	// Archive of a snapshot is where the cluster's binary logs were archived when it was taken: from there a restore of the snapshot
	// goes on to a point in time.
	// +optional
	Archive *ArchiveSource `json:"archive,omitempty"`
}

// BackupProgress is how far a running backup is.
type BackupProgress struct {
	// Bytes that were read until then.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`

	// Table that is being read.
	// +kubebuilder:validation:MaxLength=260
	// +optional
	Table string `json:"table,omitempty"`

	// Percent is an estimate, from InnoDB's own of the tables' sizes.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Percent int32 `json:"percent,omitempty"`

	// At is when progress was last made.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$`
	At metav1.Time `json:"at"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=nmybackup
// +kubebuilder:printcolumn:name=Cluster,type=string,JSONPath=`.spec.clusterName`,description="What is backed up"
// +kubebuilder:printcolumn:name=Method,type=string,JSONPath=`.spec.method`,description="Dump or Snapshot"
// +kubebuilder:printcolumn:name=Phase,type=string,JSONPath=`.status.phase`,description="How far it is"
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether it is complete, its data are there and no verification has refuted it"
// +kubebuilder:printcolumn:name=Size,type=string,JSONPath=`.status.size`,description="How much is stored"
// +kubebuilder:printcolumn:name=Duration,type=string,JSONPath=`.status.duration`,description="How long it took"
// +kubebuilder:printcolumn:name=Verified,type=date,JSONPath=`.status.verifiedAt`,description="When it was last restored and found whole"
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name=Member,type=string,JSONPath=`.status.member`,priority=1,description="The member that was backed up"
// +kubebuilder:printcolumn:name=Location,type=string,JSONPath=`.status.location`,priority=1,description="Where it is"
// +kubebuilder:printcolumn:name=Reason,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why it is Ready or not"
// +kubebuilder:printcolumn:name=Message,type=string,JSONPath=`.status.message`,priority=1,description="What is being done, or why it failed"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name must be at most 63 characters: a Job's labels and a folder carry it"

// MySQLBackup is one backup of a MySQLCluster. A schedule makes them; make one yourself to have a backup taken now.
type MySQLBackup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what is backed up.
	Spec MySQLBackupSpec `json:"spec"`

	// Status says how far it is and what came of it.
	// +kubebuilder:default={}
	// +optional
	Status MySQLBackupStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// MySQLBackupList is a list of MySQLBackups.
type MySQLBackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the backups.
	Items []MySQLBackup `json:"items"`
}

// Done says whether the backup has ended, one way or the other.
func (b *MySQLBackup) Done() bool {
	return b.Status.Phase == BackupCompleted || b.Status.Phase == BackupFailed
}

// BackupStanding is what a MySQLBackup is worth.
type BackupStanding int

const (
	// StandingUnfinished: it has not ended yet.
	StandingUnfinished BackupStanding = iota
	// StandingFailed: it ended without a backup.
	StandingFailed
	// StandingVanished: it was completed, and its data are gone.
	StandingVanished
	// StandingRefuted: it is complete, and the last verification found that it does not restore, or is not what was backed up.
	StandingRefuted
	// StandingGood: it is complete, and nothing is known against it.
	StandingGood
)

// Standing says what the backup is worth, as its status has it. Whatever counts on backups goes by it.
func (b *MySQLBackup) Standing() BackupStanding {
	switch {
	case b.Status.Phase == BackupFailed:
		return StandingFailed
	case b.Status.Phase != BackupCompleted:
		return StandingUnfinished
	case b.Status.VanishedAt != nil:
		return StandingVanished
	case b.Refuted():
		return StandingRefuted
	}
	return StandingGood
}

// Good says whether to count on the backup.
func (b *MySQLBackup) Good() bool { return b.Standing() == StandingGood }

// refuting are the reasons of a failed verification that show that the backup does not restore.
var refuting = []string{BackupReasonDamaged, BackupReasonDiffers, BackupReasonLoadRejected, BackupReasonNotFound}

// Refuted says whether the last verification found that the backup does not restore, or is not what was backed up.
func (b *MySQLBackup) Refuted() bool {
	v := b.Status.Verification
	return v != nil && v.Result == VerificationFailed && slices.Contains(refuting, v.Reason)
}

// BackupSummary is what backups there are of a cluster.
type BackupSummary struct {
	// LastGood is the newest completed MySQLBackup whose data are there and that no verification found damaged.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	LastGood string `json:"lastGood,omitempty"`
	// LastGoodAt is when it was taken.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$`
	// +optional
	LastGoodAt *metav1.Time `json:"lastGoodAt,omitempty"`
	// LastFailed is the newest MySQLBackup that failed.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	LastFailed string `json:"lastFailed,omitempty"`
	// LastFailedAt is when it failed.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$`
	// +optional
	LastFailedAt *metav1.Time `json:"lastFailedAt,omitempty"`
	// LastVerified is the backup that was last restored to try it and found whole.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	LastVerified string `json:"lastVerified,omitempty"`
	// LastVerifiedAt is when that was.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$`
	// +optional
	LastVerifiedAt *metav1.Time `json:"lastVerifiedAt,omitempty"`
	// PausedSince is since when no backup and no verification is due, unset while they are: from when the cluster hibernates until it
	// has a primary again, and while spec.backup.suspend is set.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$`
	// +optional
	PausedSince *metav1.Time `json:"pausedSince,omitempty"`
	// ResumedAt is when the last such pause ended. What each schedule missed meanwhile is made up once: backups at once, the
	// verification when the dumps among them are there, or a day later.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$`
	// +optional
	ResumedAt *metav1.Time `json:"resumedAt,omitempty"`
	// FirstRecoverablePoint is the earliest moment that can be restored: from there on the archive of binary logs has no gap.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$`
	// +optional
	FirstRecoverablePoint *metav1.Time `json:"firstRecoverablePoint,omitempty"`
}

// AnnotationRunner names the Job that works on a MySQLBackup, on those that a schedule's pod made for itself.
const AnnotationRunner = Prefix + "runner"

// AnnotationGivenUp says why the operator gave a snapshot up: a reason of this file, or Pruned when the retention no longer keeps a
// good one. With it the snapshot of a failed backup is deleted, also when EC2 completes it all the same. It is no part of the status,
// because the backup pods may write that.
const AnnotationGivenUp = Prefix + "given-up"

// AnnotationPlace is the operator's own. It says where the operator had a dump written, or where it had the binary logs archived that lead on
// from a snapshot: an ObjectStoreSource in JSON, whose path is the folder of the cluster, behind an HMAC of it and of the MySQLBackup's UID with
// the key in ServedKeySecret. A restore reads from there, and not from where the status says: the backup pods may write that.
const AnnotationPlace = Prefix + "place"

// BackupReasonQueued is the reason of a MySQLBackup that is Pending: other snapshots of its cluster are under way.
const BackupReasonQueued = "Queued"

// BackupReasonLeftOut is the reason of a MySQLBackup that is Completed while the server held what a dump does not carry, or what a
// restore may not be able to make; the message names it and says what to do.
const BackupReasonLeftOut = "LeftOut"

// Reasons of a MySQLBackup that failed, and of a recovery.
const (
	// BackupReasonStalled: nothing moved for longer than spec.backup.stallTimeout.
	BackupReasonStalled = "Stalled"
	// BackupReasonAccessDenied: the store refuses the credentials, or what they try.
	BackupReasonAccessDenied = "AccessDenied"
	// BackupReasonNoBucket: the bucket does not exist.
	BackupReasonNoBucket = "NoBucket"
	// BackupReasonStoreFull: there is no room left.
	BackupReasonStoreFull = "StoreFull"
	// BackupReasonStoreUnavailable: the store gave no answer, or throttled, for minutes.
	BackupReasonStoreUnavailable = "StoreUnavailable"
	// BackupReasonNoMember: no replica follows the primary, and the primary does not answer.
	BackupReasonNoMember = "NoMember"
	// BackupReasonMemberLost: the connection to the member was lost.
	BackupReasonMemberLost = "MemberLost"
	// BackupReasonDumpFailed: mysqldump is missing, of another series, or ended with an error.
	BackupReasonDumpFailed = "DumpFailed"
	// BackupReasonDumpIncomplete: mysqldump claimed success without having said everything.
	BackupReasonDumpIncomplete = "DumpIncomplete"
	// BackupReasonBlocked: long statements on the member left no moment for a consistent view.
	BackupReasonBlocked = "Blocked"
	// BackupReasonDamaged: what is stored is not what was stored.
	BackupReasonDamaged = "Damaged"
	// BackupReasonWrongVersion: the backup is of a version that the cluster's cannot take.
	BackupReasonWrongVersion = "WrongVersion"
	// BackupReasonNotEmpty: the target holds something.
	BackupReasonNotEmpty = "NotEmpty"
	// BackupReasonDiffers: what was restored is not what was backed up.
	BackupReasonDiffers = "Differs"
	// BackupReasonWrongSettings: the target's lower_case_table_names or partial_revokes gives the backup another meaning.
	BackupReasonWrongSettings = "WrongSettings"
	// BackupReasonLoadRejected: a server rejects a statement of the backup, and will do so again.
	BackupReasonLoadRejected = "LoadRejected"
	// BackupReasonLoadFailed: the load ended otherwise: the mysql client failed, or the server lacked room. It says nothing of the backup. Operators
	// that did not know LoadRejected reported every load that ended early so, as MySQLBackups may still say.
	BackupReasonLoadFailed = "LoadFailed"
	// BackupReasonNotFound: there is no such backup.
	BackupReasonNotFound = "NotFound"
	// BackupReasonNoCluster: there is no such cluster in the namespace.
	BackupReasonNoCluster = "NoCluster"
	// BackupReasonNoDestination: the cluster has no spec.backup.destination.
	BackupReasonNoDestination = "NoDestination"
	// BackupReasonRunnerLost: the Job ended, or was deleted, before it had reported anything.
	BackupReasonRunnerLost = "RunnerLost"
	// BackupReasonNotStarted: its pod did not run, for an image that is not there or no node with room.
	BackupReasonNotStarted = "NotStarted"
	// BackupReasonSnapshotFailed: EC2 says that the snapshot failed.
	BackupReasonSnapshotFailed = "SnapshotFailed"
	// BackupReasonTooOld: the newest backup shows what was longer ago than spec.backup.verification.maxAge.
	BackupReasonTooOld = "TooOld"
	// BackupReasonServerFailed: the throw-away mysqld of a verification did not start or did not answer.
	BackupReasonServerFailed = "ServerFailed"
	// BackupReasonArchiveGap: transactions that are needed for the point in time are not in the archive.
	BackupReasonArchiveGap = "ArchiveGap"
	// BackupReasonOutOfReach: the archive does not reach the point in time, or the backup holds what came after it.
	BackupReasonOutOfReach = "OutOfReach"
	// BackupReasonTransactionTooLarge: a transaction of the archive holds a row that no statement can bring to a server.
	BackupReasonTransactionTooLarge = "TransactionTooLarge"
	// BackupReasonReplayFailed: the server refused a transaction of the archive.
	BackupReasonReplayFailed = "ReplayFailed"
	// BackupReasonError: something else; the message says what.
	BackupReasonError = "Error"
)
