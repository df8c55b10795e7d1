package v1alpha1

// Names that the operator puts on objects in Kubernetes and in EC2.
const (
	// Prefix begins every label, annotation and EC2 tag of the operator.
	Prefix = "mysql.alx.ke/"

	// Finalizer keeps a MySQLCluster, and the Secrets that its deletion needs, until EC2 says that its resources are gone.
	Finalizer = Prefix + "finalizer"

	// FieldManager owns the fields that the operator writes by server-side apply.
	FieldManager = "nairobi-mysql-operator"

	// SystemNamespace is where the operator and the administrator's policy live by default.
	SystemNamespace = "nairobi-mysql-system"

	// PolicyConfigMap names the administrator's tenancy policy in the operator's namespace.
	PolicyConfigMap = "nairobi-mysql-policy"

	// AnnotationAbandonCloudResources lets a cluster's finalizer go although its EC2 resources could not be deleted.
	// Its only effective value is "true". What is left behind is listed in an event and in the log.
	AnnotationAbandonCloudResources = Prefix + "abandon-cloud-resources"

	// AnnotationSwitchover names the member that is to become the primary, for example orders-1. It is removed when that
	// is so, or when it cannot be; an event says which.
	AnnotationSwitchover = Prefix + "switchover"
	// AnnotationRebuild names the replica whose data is to be replaced by a copy of the primary's, for example orders-1. A snapshot of
	// its volume is taken before. It is removed when that is done, or when it cannot be; an event says which.
	AnnotationRebuild = Prefix + "rebuild"
	// AnnotationAcceptLoss gives up voters that do not come back, where nobody is promoted without them (PromotionNotProven): the best
	// of the members that are reached takes over, and commits that only the others held are lost. It names the epoch of the membership
	// row, as status.voters shows it. It is removed once that is recorded, or when it cannot be; an event says which.
	AnnotationAcceptLoss = Prefix + "accept-loss"
	// AnnotationRestartedAt asks for a restart of every mysqld that started before the time that it names (RFC 3339), one
	// after the other, the primary last and after a switchover.
	AnnotationRestartedAt = Prefix + "restartedAt"
	// AnnotationCertificatesRenewedAt asks for a new certificate in place of every member's that was signed before the time that
	// it names (RFC 3339). It is put into use without a restart.
	AnnotationCertificatesRenewedAt = Prefix + "certificatesRenewedAt"
	// AnnotationClusterUID is on each of the cluster's objects and names the cluster by UID: one that lost its owner is known by it.
	AnnotationClusterUID = Prefix + "cluster-uid"
	// AnnotationHandOverTo names, on a Secret that a person made under the name <cluster>-app, the cluster that is to have it: its
	// password becomes that of the application's owner, and it goes with the cluster.
	AnnotationHandOverTo = Prefix + "hand-over-to"
	// AnnotationTakeOverAccount names, on a cluster, the account of spec.database.owner that somebody else made: the operator may give it
	// the password of Secret <cluster>-app, unlock it and grant it the database.
	AnnotationTakeOverAccount = Prefix + "take-over-account"
	// AnnotationReleased is set by the operator on a cluster that is being deleted and has nothing left in EC2, before it lets go of
	// the Secret with the credentials: the cluster's UID. It counts only when that Secret is gone.
	AnnotationReleased = Prefix + "released"
	// AnnotationServiceAccount is set by the operator on its lease and names the ServiceAccount that it runs as, in the lease's namespace.
	AnnotationServiceAccount = Prefix + "service-account"
)

// Labels of the Kubernetes objects that the operator creates.
const (
	LabelCluster   = Prefix + "cluster"
	LabelComponent = Prefix + "component"
	LabelManagedBy = "app.kubernetes.io/managed-by"
	LabelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance"
)

// Tags of the EC2 resources that the operator creates. Ownership is TagClusterUID, never a name.
const (
	TagClusterUID   = Prefix + "cluster-uid"
	TagNamespace    = Prefix + "namespace"
	TagCluster      = Prefix + "cluster"
	TagMember       = Prefix + "member"
	TagIncarnation  = Prefix + "incarnation"
	TagTemplateHash = Prefix + "template-hash"
	TagImage        = Prefix + "image"
	TagRetired      = Prefix + "retired"
	// TagMySQLVersion is, on a volume, the newest version of MySQL that may have opened it, and on a snapshot that of its volume.
	TagMySQLVersion = Prefix + "mysql-version"
	// TagRecovery is on a volume that was made to begin a cluster with: RecoveryPending while it holds another cluster's
	// identity, RecoveryDone afterwards.
	TagRecovery = Prefix + "recovery"
	TagName     = "Name"
)

// Values of TagRecovery.
const (
	RecoveryPending = "pending"
	RecoveryDone    = "done"
)

// MySQLPort is the TCP port of every member and of every Service that leads to them.
const MySQLPort = 3306

// Phase says how far a member or a cluster has come. Until all members were Ready once, since the cluster was made or last hibernated,
// its phase is the least advanced of theirs. After that it is Ready, or says why it is not: Repairing or Updating.
// +kubebuilder:validation:Enum=Provisioning;EC2Ready;Replicating;Ready;Repairing;Updating;Hibernated;Deleting
type Phase string

const (
	// PhaseProvisioning: the volume or the instance is missing or pending.
	PhaseProvisioning Phase = "Provisioning"
	// PhaseEC2Ready: the instance is up; MySQL is being installed, initialised, given its certificate.
	PhaseEC2Ready Phase = "EC2Ready"
	// PhaseReplicating: MySQL answers; it is being cloned, pointed at its source, or is behind.
	PhaseReplicating Phase = "Replicating"
	// PhaseReady: nothing is left to do.
	PhaseReady Phase = "Ready"
	// PhaseRepairing: of a cluster that was Ready; a member is away, being replaced, or catching up. Available says whether it takes writes.
	PhaseRepairing Phase = "Repairing"
	// PhaseUpdating: of a cluster that was Ready; a change that a person asked for is carried out, and no member is away for another reason.
	PhaseUpdating Phase = "Updating"
	// PhaseHibernated: spec.hibernate is set; there are no instances, the volumes are kept.
	PhaseHibernated Phase = "Hibernated"
	// PhaseDeleting: the cluster is on its way out.
	PhaseDeleting Phase = "Deleting"
)

// Role is what a member does in replication.
// +kubebuilder:validation:Enum=Primary;Replica;None
type Role string

const (
	RolePrimary Role = "Primary"
	RoleReplica Role = "Replica"
	// RoleNone: the member has not been given a role yet.
	RoleNone Role = "None"
)

// Durability says what an acknowledged commit is worth.
// +kubebuilder:validation:Enum=Lossless;Async
type Durability string

const (
	// DurabilityLossless: a commit is acknowledged only when a majority of the voters holds it.
	DurabilityLossless Durability = "Lossless"
	// DurabilityAsync: a commit is acknowledged when the primary holds it on disk. A failover may lose the newest commits.
	DurabilityAsync Durability = "Async"
)

// Acknowledge says where a replica holds a commit when it acknowledges it.
// +kubebuilder:validation:Enum=Memory;Disk
type Acknowledge string

const (
	// AcknowledgeMemory: in memory. The rows of the cluster say in which run of mysqld, so that nothing rests on a memory that is gone.
	AcknowledgeMemory Acknowledge = "Memory"
	// AcknowledgeDisk: on its disk.
	AcknowledgeDisk Acknowledge = "Disk"
)

// DeletionPolicy says what becomes of the volumes of a deleted cluster or member.
// +kubebuilder:validation:Enum=Snapshot;Retain;Delete
type DeletionPolicy string

const (
	// DeletionPolicySnapshot: take one final snapshot, then delete the volumes.
	DeletionPolicySnapshot DeletionPolicy = "Snapshot"
	// DeletionPolicyRetain: keep the volumes.
	DeletionPolicyRetain DeletionPolicy = "Retain"
	// DeletionPolicyDelete: delete the volumes, keep nothing.
	DeletionPolicyDelete DeletionPolicy = "Delete"
)

// Condition types of a MySQLCluster.
const (
	// ConditionAvailable: a real write through the primary Service succeeded in the last 5 seconds.
	ConditionAvailable = "Available"
	// ConditionReady: the phase is Ready and the cluster is Available. It is not there while the cluster hibernates: nothing is Ready then,
	// and nothing is waited for. Of a MySQLBackup: it is completed, and no verification has refuted it.
	ConditionReady = "Ready"
	// ConditionReconciling: what the spec asks for is not all done yet. It is there only while it is True, for tools that know kstatus.
	ConditionReconciling = "Reconciling"
	// ConditionStalled: what the spec asks for is not done until a person changes the spec, or what the message names. It is there only
	// while it is True, for tools that know kstatus. Of a MySQLBackup: it failed, or a verification refuted it.
	ConditionStalled = "Stalled"
	// ConditionProgressing: the operator is working towards the spec; the message says on what, or what it waits for.
	ConditionProgressing = "Progressing"
	// ConditionDegraded: something needs a person's attention, or a member is missing.
	ConditionDegraded = "Degraded"
	// ConditionArchiveHealthy: the archive of binary logs follows the primary, and a backup is its base. It is there with
	// spec.backup.destination.s3, unless spec.backup.binlogArchive is switched off.
	ConditionArchiveHealthy = "ArchiveHealthy"
	// ConditionBackupHealthy: the newest backup is good, and no schedule is overdue. It is there with spec.backup.
	ConditionBackupHealthy = "BackupHealthy"
	// ConditionRecovered: the cluster began with what spec.bootstrap.recovery names. It is there with that.
	ConditionRecovered = "Recovered"
	// ConditionCloudReachable: EC2's API answers for this cluster's account and region.
	ConditionCloudReachable = "CloudReachable"
)

var (
	// ClusterConditions are the types of the conditions of a MySQLCluster. The operator removes conditions of other types: they would
	// take the room of its own, because a status holds a limited number of conditions.
	ClusterConditions = []string{
		ConditionAvailable, ConditionReady, ConditionReconciling, ConditionStalled, ConditionProgressing, ConditionDegraded,
		ConditionArchiveHealthy, ConditionBackupHealthy, ConditionRecovered, ConditionCloudReachable,
	}
	// BackupConditions are the same of a MySQLBackup.
	BackupConditions = []string{ConditionReady, ConditionStalled}
)

// Reasons of conditions and events.
const (
	ReasonReconciling       = "Reconciling"
	ReasonProvisioning      = "Provisioning"
	ReasonBootstrapping     = "Bootstrapping"
	ReasonReplicating       = "Replicating"
	ReasonStable            = "Stable"
	ReasonAllMembersReady   = "AllMembersReady"
	ReasonMembersNotReady   = "MembersNotReady"
	ReasonWriteSucceeded    = "WriteSucceeded"
	ReasonWriteFailed       = "WriteFailed"
	ReasonNoPrimary         = "NoPrimary"
	ReasonNotProbed         = "NotProbed"
	ReasonHealthy           = "Healthy"
	ReasonMemberMissing     = "MemberMissing"
	ReasonMemberUnreachable = "MemberUnreachable"
	ReasonMemberUntrusted   = "MemberUntrusted"
	ReasonCloudAnswered     = "CloudAnswered"
	ReasonCloudSilent       = "CloudSilent"
	// ReasonSnapshotsUnknown: EC2 does not answer the list of snapshots; what it said last is used, and none is taken for gone.
	ReasonSnapshotsUnknown = "SnapshotsUnknown"
	// ReasonInstanceStatusUnknown: EC2 does not answer the list of instance status; no instance counts as impaired.
	ReasonInstanceStatusUnknown = "InstanceStatusUnknown"
	ReasonCredentialsMissing    = "CredentialsMissing"
	ReasonCredentialsInvalid    = "CredentialsInvalid"
	ReasonNotPermitted          = "NotPermitted"
	ReasonInvalidSpec           = "InvalidSpec"
	// ReasonReleaseKeysExpire: the keys by which instances verify MySQL's tarball expire soon.
	ReasonReleaseKeysExpire = "ReleaseKeysExpire"
	// ReasonDownloadMissing: MySQL's tarball is not where new instances look for it.
	ReasonDownloadMissing      = "DownloadMissing"
	ReasonInsufficientCapacity = "InsufficientCapacity"
	ReasonQuotaExceeded        = "QuotaExceeded"
	ReasonWaitingForDependency = "WaitingForDependency"
	ReasonSettingRefused       = "SettingRefused"
	ReasonPasswordRefused      = "PasswordRefused"
	ReasonPromotionNotProven   = "PromotionNotProven"
	ReasonDeletionProtected    = "DeletionProtected"
	ReasonDeleting             = "Deleting"
	ReasonAbandoned            = "CloudResourcesAbandoned"
	ReasonForeignResource      = "ForeignResource"
	// ReasonNewerRecords: a newer operator recorded the state of the cluster in a way that this one does not know.
	ReasonNewerRecords = "NewerRecords"
	// ReasonRecordsTooLarge: what the operator is to record of the cluster is larger than what it reads again.
	ReasonRecordsTooLarge = "RecordsTooLarge"
	// ReasonTagMissing: an instance has lost the tag that says what it was made from.
	ReasonTagMissing = "TagMissing"
	ReasonBootFailed = "BootFailed"
	// ReasonActionFailing: a step of the operator's has failed for more than a minute, each time that it was tried.
	ReasonActionFailing = "ActionFailing"
	// ReasonRecovering: what the cluster is to begin with is being restored into its first member.
	ReasonRecovering = "Recovering"
	// ReasonRecoveryFailed: that failed; the message says why, and the operator tries again where that can help.
	ReasonRecoveryFailed = "RecoveryFailed"
	// ReasonRecoveryStuck: the restoring pod is to end and does not, and no other may be started beside it.
	ReasonRecoveryStuck = "RecoveryStuck"
	// ReasonRecovered: the cluster began with what was restored.
	ReasonRecovered = "Recovered"
	// ReasonArchiving: everything but what was written in the last moments is in the archive.
	ReasonArchiving = "Archiving"
	// ReasonArchiveStarting: the archive's pod has not reported yet.
	ReasonArchiveStarting = "ArchiveStarting"
	// ReasonArchiveBehind: what was written some time ago is not in the archive yet.
	ReasonArchiveBehind = "ArchiveBehind"
	// ReasonArchiveGap: the archive has a break, and no backup bridges it yet.
	ReasonArchiveGap = "ArchiveGap"
	// ReasonArchiveBaseNeeded: the archive has no backup to begin with yet.
	ReasonArchiveBaseNeeded = "ArchiveBaseNeeded"
	// ReasonArchiveUnread: the archive could not be looked through for some time, so that segments may be missing.
	ReasonArchiveUnread = "ArchiveUnread"
	// ReasonArchiveTimeAhead: a transaction says that it was committed after it was archived, so that a clock is wrong.
	ReasonArchiveTimeAhead = "ArchiveTimeAhead"
	// ReasonBackupSucceeded: the newest backup is good, and none is overdue.
	ReasonBackupSucceeded = "BackupSucceeded"
	// ReasonBackupFailed: the newest backup failed.
	ReasonBackupFailed = "BackupFailed"
	// ReasonBackupVanished: a MySQLBackup was completed, and its snapshot or objects of its dump are gone; of a cluster, the newest of a schedule is one.
	ReasonBackupVanished = "BackupVanished"
	// ReasonBackupOverdue: a schedule has had no good backup for longer than it promises.
	ReasonBackupOverdue = "BackupOverdue"
	// ReasonVerificationFailed: the newest dump could not be restored, or was not what had been backed up.
	ReasonVerificationFailed = "VerificationFailed"
	// ReasonVerificationOverdue: the newest dump was not restored for longer than spec.backup.verification promises.
	ReasonVerificationOverdue = "VerificationOverdue"
	// ReasonNoBackupYet: no backup has been taken so far, and none is due.
	ReasonNoBackupYet = "NoBackupYet"
	// ReasonBackupDue: what was missed during a pause is made up now.
	ReasonBackupDue = "BackupDue"
	// ReasonBackupsPaused: spec.backup.suspend is set, or the cluster woke and has no primary yet.
	ReasonBackupsPaused = "BackupsPaused"
	// ReasonHibernated: spec.hibernate is set.
	ReasonHibernated = "Hibernated"
	// ReasonWaking: no member has taken writes since the cluster hibernated.
	ReasonWaking = "Waking"
	// ReasonCoolDown: the primary does not answer, but another was replaced moments ago; it is given longer to return.
	ReasonCoolDown = "CoolDown"
	// ReasonCommitsUncovered: the primary may have answered commits that no voter holds, because somebody changed a setting or a
	// replica acknowledged that is no member.
	ReasonCommitsUncovered = "CommitsUncovered"
	// ReasonForeignReplica: a replica that is no member acknowledges commits; the primary waits for one acknowledgement more.
	ReasonForeignReplica = "ForeignReplicaAcknowledges"
	// ReasonAcknowledgementsMissing: fewer replicas acknowledge than a commit needs; writes wait.
	ReasonAcknowledgementsMissing = "AcknowledgementsMissing"
	// ReasonApplierBehind: a replica applies more slowly than it receives, so that a failover to it would wait.
	ReasonApplierBehind = "ApplierBehind"
	// ReasonReplicationBroken: a member's replication stopped with an error; it is rebuilt.
	ReasonReplicationBroken = "ReplicationBroken"
	// ReasonDiskNearlyFull: a data volume has less than 15 % left.
	ReasonDiskNearlyFull = "DiskNearlyFull"
	// ReasonClockSkew: a member's clock is more than 5 seconds away from the operator's.
	ReasonClockSkew = "ClockSkew"
	// ReasonMaintenance: EC2 announced a disruption of an instance.
	ReasonMaintenance = "MaintenanceAnnounced"
	// ReasonSwitchoverRefused: the member that the switchover annotation names cannot become the primary, or another was promoted instead.
	ReasonSwitchoverRefused = "SwitchoverRefused"
	// ReasonMemberCrashing: mysqld of a member crashed several times within minutes.
	ReasonMemberCrashing = "MemberCrashing"
	// ReasonInstanceRestarting: the instance of a member restarted several times within minutes, which the operator did not ask for.
	ReasonInstanceRestarting = "InstanceRestarting"
	// ReasonMemberRebuilt: the member that the rebuild annotation names was rebuilt.
	ReasonMemberRebuilt = "MemberRebuilt"
	// ReasonLossAccepted: a person gave up voters that do not come back, and what only they held.
	ReasonLossAccepted = "LossAccepted"
	// ReasonLossRefused: the accept-loss annotation cannot be followed.
	ReasonLossRefused = "LossRefused"
	// ReasonRebuildRefused: the member that the rebuild annotation names cannot be rebuilt.
	ReasonRebuildRefused = "RebuildRefused"
	// ReasonWrongAccount: the cluster's AWS credentials lead to another account than the one that its resources are in.
	ReasonWrongAccount = "WrongAccount"
	// ReasonCALost: the Secret with the certificate authority is gone while members exist that trust it.
	ReasonCALost = "CertificateAuthorityLost"
	// ReasonVolumeModificationLimited: EC2 does not modify a volume again so soon after its last modifications.
	ReasonVolumeModificationLimited = "VolumeModificationLimited"
	// ReasonSnapshotFailed: EC2 could not complete a snapshot that is taken before a member is changed, rebuilt or taken away.
	ReasonSnapshotFailed = "SnapshotFailed"
	// ReasonVolumeNotMade: EC2 accepted the order for a volume and did not make it, as with a KMS key that may not be used.
	ReasonVolumeNotMade = "VolumeNotMade"
	// ReasonTooManyConnections: a server is full and refuses its replicas.
	ReasonTooManyConnections = "TooManyConnections"
	// ReasonRolling: members are being replaced or taken away, one at a time, because the spec was changed.
	ReasonRolling = "RollingChange"
	// ReasonRollingStopped: the member whose turn it was does not come up again, or does not catch up; nobody else is changed.
	ReasonRollingStopped = "RollingChangeStopped"
	// ReasonObjectRefused: the API server of Kubernetes refuses an object that the operator writes.
	ReasonObjectRefused = "ObjectRefused"
	// ReasonExporterUnavailable: the Deployment that exports the metrics and logs of the members has had no pod for some time.
	ReasonExporterUnavailable = "ExporterUnavailable"
	// ReasonCAInvalid: the Secret with the certificate authority does not hold one.
	ReasonCAInvalid = "CertificateAuthorityInvalid"
)
