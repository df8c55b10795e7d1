package v1alpha1

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// What a field means when it is not set: the defaults of the CRD, for objects that no API server has filled in.
// A test holds the two together.
const (
	DefaultReplicas          int32          = 3
	DefaultStorageGiB        int32          = 20
	DefaultVolumeType        VolumeType     = VolumeTypeGP3
	DefaultDeletionPolicy    DeletionPolicy = DeletionPolicySnapshot
	DefaultDurability        Durability     = DurabilityLossless
	DefaultAcknowledge       Acknowledge    = AcknowledgeMemory
	DefaultMaxLag                           = 30 * time.Second
	DefaultDatabaseOwner                    = "app"
	DefaultPasswordRetention                = 24 * time.Hour
)

// What a gp3 volume has unless the spec says otherwise, in operations a second and MiB/s: EC2's own defaults.
const (
	DefaultGP3IOPS       int32 = 3000
	DefaultGP3Throughput int32 = 125
)

const bytesPerGiB = 1 << 30

// MaxReplicas is the most members that a cluster can have.
const MaxReplicas = 9

// climbing is a path segment . or .., also when it or a slash beside it is spelt in percent: whoever resolves it is elsewhere
// then. The CRD has the same expression for the addresses in spec.aws.download.
var climbing = regexp.MustCompile(`(?i)%2e|(/|%2f|%5c)[.]{1,2}(/|%2f|%5c|$)`)

// ClimbingURL tells whether a URL does not lead to where it seems to: curl, or the server, takes the segments . and .. out of
// it, and what a pattern of the administrator's policy has allowed is then another address.
func ClimbingURL(url string) bool { return climbing.MatchString(url) }

// Settings are the variables of mysqld that the spec asks for, with their values, whichever field asks. What applies, counts or
// compares settings reads them here. Callers must not change the map.
func (s *MySQLClusterSpec) Settings() map[string]PlainValue {
	if s == nil {
		return nil
	}
	return s.MySQLD
}

// SettingFields are the fields of the spec in which people change variables of mysqld, for messages.
func SettingFields(variables ...string) string {
	fields := make([]string, 0, len(variables))
	for _, name := range variables {
		fields = append(fields, "spec.mysqld."+name)
	}
	return strings.Join(fields, " or ")
}

// ReplicaCount is the number of members wanted.
func (s *MySQLClusterSpec) ReplicaCount() int32 {
	if s == nil || s.Replicas == nil {
		return DefaultReplicas
	}
	return *s.Replicas
}

// Lossless tells whether a commit is acknowledged only when a majority of the voters holds it.
func (s *MySQLClusterSpec) Lossless() bool {
	return s == nil || s.Replication.Durability == "" || s.Replication.Durability == DurabilityLossless
}

// AcknowledgesFromMemory tells whether a replica acknowledges a commit that it holds in memory.
func (s *MySQLClusterSpec) AcknowledgesFromMemory() bool {
	return s == nil || s.Replication.Acknowledge == "" || s.Replication.Acknowledge == AcknowledgeMemory
}

// EffectiveMaxApplyLag is how long a failover may have to wait for an applier until writes are slowed; 0: for as long as it takes.
func (s *MySQLClusterSpec) EffectiveMaxApplyLag() time.Duration {
	if s.Replication.MaxApplyLag == nil {
		return 0
	}
	return s.Replication.MaxApplyLag.Duration
}

// EffectiveMaxLag is how far a replica may be behind and still count as Ready.
func (s *MySQLClusterSpec) EffectiveMaxLag() time.Duration {
	if s == nil || s.Replication.MaxLag == nil {
		return DefaultMaxLag
	}
	return s.Replication.MaxLag.Duration
}

// IsProtected tells whether the cluster must not be deleted.
func (s *MySQLClusterSpec) IsProtected() bool {
	return s == nil || s.DeletionProtection == nil || *s.DeletionProtection
}

// SizeGiB is the size of each volume in GiB.
func (s *StorageSpec) SizeGiB() int32 {
	if s == nil || s.Size == nil {
		return DefaultStorageGiB
	}
	return int32(s.Size.Value() / bytesPerGiB)
}

// VolumeType is the type of each volume.
func (s *StorageSpec) VolumeType() VolumeType {
	if s == nil || s.Type == "" {
		return DefaultVolumeType
	}
	return s.Type
}

// EffectiveIOPS are the operations a second of each volume; 0 where the type has no default and none are set.
func (s *StorageSpec) EffectiveIOPS() int32 {
	return s.performance(func(s *StorageSpec) *int32 { return s.IOPS }, DefaultGP3IOPS)
}

// EffectiveThroughput is the throughput of each volume in MiB/s; 0 where the type has none.
func (s *StorageSpec) EffectiveThroughput() int32 {
	return s.performance(func(s *StorageSpec) *int32 { return s.Throughput }, DefaultGP3Throughput)
}

// performance returns what is set, or of gp3 the default.
func (s *StorageSpec) performance(of func(*StorageSpec) *int32, ofGP3 int32) int32 {
	switch {
	case s != nil && of(s) != nil:
		return *of(s)
	case s.VolumeType() == VolumeTypeGP3:
		return ofGP3
	}
	return 0
}

// IsEncrypted tells whether the volumes are encrypted.
func (s *StorageSpec) IsEncrypted() bool {
	return s == nil || s.Encrypted == nil || *s.Encrypted
}

// EffectiveDeletionPolicy says what becomes of the volumes of a deleted cluster.
func (s *StorageSpec) EffectiveDeletionPolicy() DeletionPolicy {
	if s == nil || s.DeletionPolicy == "" {
		return DefaultDeletionPolicy
	}
	return s.DeletionPolicy
}

// OwnerName is the account that owns the database.
func (d *DatabaseSpec) OwnerName() string {
	if d == nil || d.Owner == "" {
		return DefaultDatabaseOwner
	}
	return d.Owner
}

// PasswordRetention is how long the owner's password of before still logs in.
func (d *DatabaseSpec) PasswordRetention() time.Duration {
	if d == nil || d.RetainPassword == nil {
		return DefaultPasswordRetention
	}
	return d.RetainPassword.Duration
}

// ReplicaCount is the number of members wanted.
func (c *MySQLCluster) ReplicaCount() int32 { return c.spec().ReplicaCount() }

// StorageGiB is the size of each member's volume in GiB.
func (c *MySQLCluster) StorageGiB() int32 {
	if c == nil {
		return DefaultStorageGiB
	}
	return c.Spec.Storage.SizeGiB()
}

// Soak is how long a member has to run on its new instance before the next is replaced.
func (c *MySQLCluster) Soak() time.Duration {
	if c == nil || c.Spec.Upgrade == nil || c.Spec.Upgrade.Soak == nil {
		return 0
	}
	return c.Spec.Upgrade.Soak.Duration
}

// EffectiveMaxLag is how far a replica may be behind and still count as Ready.
func (c *MySQLCluster) EffectiveMaxLag() time.Duration { return c.spec().EffectiveMaxLag() }

// IsProtected tells whether the cluster must not be deleted.
func (c *MySQLCluster) IsProtected() bool { return c.spec().IsProtected() }

// AbandonsCloudResources tells whether the cluster may go although its EC2 resources could not be deleted.
func (c *MySQLCluster) AbandonsCloudResources() bool {
	return c != nil && c.Annotations[AnnotationAbandonCloudResources] == "true"
}

// MemberName is the name of the member with an ordinal.
func (c *MySQLCluster) MemberName(ordinal int32) string {
	return c.derived("-" + strconv.Itoa(int(ordinal)))
}

func (c *MySQLCluster) derived(suffix string) string {
	if c == nil {
		return ""
	}
	return c.Name + suffix
}

func (c *MySQLCluster) spec() *MySQLClusterSpec {
	if c == nil {
		return nil
	}
	return &c.Spec
}

// DefaultFailedHistory is how many MySQLBackups that failed are kept of each schedule.
const DefaultFailedHistory = 3

// DefaultStallTimeout is how long a backup may make no progress.
const DefaultStallTimeout = 10 * time.Minute

// DefaultArchiveStorage is the size of the archive's claim. The CRD has it as a default, which is not filled in where
// spec.backup.binlogArchive is absent, and in the rules of BackupSpec for that case.
const DefaultArchiveStorage = "5Gi"

// EffectiveArchive is the archive of binary logs that the cluster is to have, with the defaults filled in; nil for none.
// A bucket has one unless it is switched off. The CRD does not fill that in: it does not know there whether the destination is
// a bucket.
func (c *MySQLCluster) EffectiveArchive() *BinlogArchiveSpec {
	if c == nil || c.Spec.Backup == nil || c.Spec.Backup.Destination == nil || c.Spec.Backup.Destination.S3 == nil {
		return nil
	}
	archive := &BinlogArchiveSpec{Enabled: true}
	if asked := c.Spec.Backup.BinlogArchive; asked != nil {
		archive = asked.DeepCopy()
	}
	if !archive.Enabled {
		return nil
	}
	if archive.Storage == nil {
		storage := resource.MustParse(DefaultArchiveStorage)
		archive.Storage = &storage
	}
	return archive
}

// Archives says whether the cluster is to have an archive of binary logs.
func (c *MySQLCluster) Archives() bool { return c.EffectiveArchive() != nil }

// EffectiveFailedHistory is how many MySQLBackups that failed are kept of each schedule, at least 1.
func (b *BackupSpec) EffectiveFailedHistory() int {
	if b == nil || b.FailedHistoryLimit == nil {
		return DefaultFailedHistory
	}
	return int(*b.FailedHistoryLimit)
}

// Prunes says whether a schedule of the spec applies its retention to backups that a schedule of this name and method made.
func (b *BackupSpec) Prunes(schedule string, method BackupMethod) bool {
	return b != nil && slices.ContainsFunc(b.Schedules, func(s BackupSchedule) bool { return s.Name == schedule && s.Method == method })
}

// EffectiveStallTimeout is how long a backup may make no progress before it is failed.
func (b *BackupSpec) EffectiveStallTimeout() time.Duration {
	if b == nil || b.StallTimeout == nil {
		return DefaultStallTimeout
	}
	return b.StallTimeout.Duration
}

// Recovery is what the cluster begins with, nil for an empty database.
func (c *MySQLCluster) Recovery() *RecoverySpec {
	if c == nil || c.Spec.Bootstrap == nil {
		return nil
	}
	return c.Spec.Bootstrap.Recovery
}
