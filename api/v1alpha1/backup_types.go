package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BackupSpec says when, how and to where a cluster is backed up. It needs no AWS rights of the operator, but for
// snapshots: pods of the cluster's own service account <name>-backup talk to the bucket.
//
// +kubebuilder:validation:XValidation:rule="has(self.destination) || !has(self.schedules) || self.schedules.all(s, s.method == 'Snapshot')",message="backup.destination is required for schedules with method Dump: set destination.s3 or destination.persistentVolumeClaim"
// +kubebuilder:validation:XValidation:rule="!has(self.verification) || has(self.destination)",message="backup.verification needs backup.destination: it restores the newest dump from there"
// +kubebuilder:validation:XValidation:rule="!has(self.binlogArchive) || !self.binlogArchive.enabled || has(self.destination) && has(self.destination.s3)",message="backup.binlogArchive needs backup.destination.s3: binary logs are archived to a bucket only"
// +kubebuilder:validation:XValidation:rule="has(oldSelf.binlogArchive) || !has(oldSelf.destination) || !has(oldSelf.destination.s3) || !has(self.binlogArchive) || !self.binlogArchive.enabled || !isQuantity(string(self.binlogArchive.storage)) || quantity(string(self.binlogArchive.storage)).compareTo(quantity('5Gi')) >= 0",message="backup.binlogArchive.storage can only grow: without backup.binlogArchive the archive is on with 5Gi; for less, apply enabled: false first"
// +kubebuilder:validation:XValidation:rule="has(self.binlogArchive) || !has(self.destination) || !has(self.destination.s3) || !has(oldSelf.binlogArchive) || !oldSelf.binlogArchive.enabled || !isQuantity(string(oldSelf.binlogArchive.storage)) || quantity(string(oldSelf.binlogArchive.storage)).compareTo(quantity('5Gi')) <= 0",message="backup.binlogArchive.storage can only grow: without backup.binlogArchive the archive is on with 5Gi; keep binlogArchive.storage, or set enabled: false"
type BackupSpec struct {
	// Schedules are when backups are taken, each with its own method; at most 8. Each is a CronJob <name>-<schedule>.
	// Two that fall on the same minute run side by side, from the same or from different members.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	// +optional
	Schedules []BackupSchedule `json:"schedules,omitempty"`

	// Destination is where dumps and binary logs are kept. Snapshots stay in EBS.
	// +optional
	Destination *BackupDestination `json:"destination,omitempty"`

	// Image holds the programs of MySQL that the backup pods run: mysqldump and mysql, and mysqld for verification, all of
	// the cluster's series; docker.io/library/mysql:<spec.version> unless set.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,511}$`
	// +optional
	Image string `json:"image,omitempty"`

	// Suspend, false unless set, lets no schedule start a backup or a verification. What runs goes on, and so does the
	// archive of binary logs.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// FailedHistoryLimit is how many MySQLBackups that failed are kept of each schedule, the newest ones, 1 to 100; 3 unless
	// set. One whose data could not be removed yet, and those that a person made, stay until somebody deletes them.
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	FailedHistoryLimit *int32 `json:"failedHistoryLimit,omitempty"`

	// StallTimeout is how long a backup may make no progress before it is failed, from 1m to 24h; 10m unless set.
	// How long a backup takes as a whole does not matter.
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,3})?(ms|s|m|h))+$') && duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="must be a duration from 1m to 24h; for example 10m"
	// +optional
	StallTimeout *metav1.Duration `json:"stallTimeout,omitempty"`

	// Verification restores the newest dump into a throw-away mysqld, on a schedule of its own, and compares it with what
	// was noted when it was taken. Without it nothing is restored by itself.
	// +optional
	Verification *VerificationSpec `json:"verification,omitempty"`

	// BinlogArchive copies the binary logs to the bucket as they are written, for point-in-time recovery. With
	// destination.s3 it is on unless it says enabled: false, also when it is left out; without a bucket nothing is archived.
	// +optional
	BinlogArchive *BinlogArchiveSpec `json:"binlogArchive,omitempty"`
}

// BackupSchedule is one schedule of backups.
type BackupSchedule struct {
	// Name of the schedule, 1 to 10 lower-case letters and digits, beginning with a letter; for example daily. The CronJob
	// is called <cluster>-<schedule>: with a hyphen in it, it could be that of another cluster.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=10
	// +kubebuilder:validation:Pattern=`^[a-z][a-z0-9]*$`
	// +kubebuilder:validation:XValidation:rule="!(self in ['verify', 'archive', 'backup', 'restore'])",message="is a name that the operator uses itself (verify, archive, backup, restore): choose another, for example daily"
	Name string `json:"name"`

	// Cron says when: minute, hour, day of the month, month and day of the week, as crontab(5) has it; for example
	// "30 3 * * *".
	Cron CronExpression `json:"cron"`

	// TimeZone is the time zone of cron by its IANA name, for example Europe/Berlin; Etc/UTC unless set.
	// +kubebuilder:default="Etc/UTC"
	// +optional
	TimeZone TimeZoneName `json:"timeZone,omitempty"`

	// Method of the backups, Dump unless set.
	// +kubebuilder:default=Dump
	// +optional
	Method BackupMethod `json:"method,omitempty"`

	// Retention says how many backups of this schedule are kept, and how long. The last good one is never deleted.
	// Backups that a person made are not counted and never deleted by a schedule.
	// +kubebuilder:default={count: 14}
	// +optional
	Retention RetentionSpec `json:"retention,omitzero"`
}

// CronExpression is a schedule in the five fields of crontab(5).
// +kubebuilder:validation:MinLength=9
// +kubebuilder:validation:MaxLength=100
// +kubebuilder:validation:XValidation:rule="self.matches('^((\\\\*|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]?)?)(,(\\\\*|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]?)?)* ((\\\\*|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]?)?)(,(\\\\*|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]?)?)* ((\\\\*|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]?)?)(,(\\\\*|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]?)?)* ((\\\\*|(0?[1-9]|1[0-2])(-(0?[1-9]|1[0-2]))?)(/[1-9][0-9]?)?)(,(\\\\*|(0?[1-9]|1[0-2])(-(0?[1-9]|1[0-2]))?)(/[1-9][0-9]?)?)* ((\\\\*|[0-6](-[0-6])?)(/[1-6])?)(,(\\\\*|[0-6](-[0-6])?)(/[1-6])?)*$')",message="must be five fields of numbers as in crontab(5), apart by one space: minute (0-59), hour (0-23), day of the month (1-31), month (1-12), day of the week (0-6, 0 is Sunday), each *, a number, a range, a step or a list; for example 30 3 * * *"
// +kubebuilder:validation:XValidation:rule="self.findAll('[0-9]+-[0-9]+').all(r, int(r.split('-')[0]) <= int(r.split('-')[1]))",message="has a range that ends before it begins; write a list of two ranges, for example 22-23,0-5"
type CronExpression string

// TimeZoneName is a time zone by its name in the IANA database.
// +kubebuilder:validation:MinLength=3
// +kubebuilder:validation:MaxLength=50
// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9_+/-]*$`
// +kubebuilder:validation:XValidation:rule="self != 'Local' && timestamp('2026-01-01T00:00:00Z').getHours(self) >= 0",message="must be a time zone of the IANA database; for example Europe/Berlin"
type TimeZoneName string

// BackupMethod is how a backup is taken.
// +kubebuilder:validation:Enum=Dump;Snapshot
type BackupMethod string

const (
	// BackupMethodDump: mysqldump of a replica, compressed, to the bucket or the claim.
	BackupMethodDump BackupMethod = "Dump"
	// BackupMethodSnapshot: an EBS snapshot of a replica's volume.
	BackupMethodSnapshot BackupMethod = "Snapshot"
)

// RetentionSpec says what is kept. With both limits a backup is deleted when it is past either. The newest good backup of
// a cluster is never deleted, and nothing is deleted unless a newer backup of the same schedule has just succeeded.
//
// +kubebuilder:validation:XValidation:rule="has(self.count) || has(self.maxAge)",message="set retention.count, retention.maxAge or both"
type RetentionSpec struct {
	// Count is how many good backups of the schedule are kept, 1 to 1000.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Count *int32 `json:"count,omitempty"`

	// MaxAge is how old they may become, from 1h to 87600h (ten years); no limit unless set.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,3})?(ms|s|m|h))+$') && duration(self) >= duration('1h') && duration(self) <= duration('87600h')",message="must be a duration from 1h to 87600h; for example 720h for thirty days"
	// +optional
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`
}

// BackupDestination is where backups are kept.
//
// +kubebuilder:validation:XValidation:rule="has(self.s3) != has(self.persistentVolumeClaim)",message="set either s3 or persistentVolumeClaim"
type BackupDestination struct {
	// S3 is a bucket.
	// +optional
	S3 *S3Destination `json:"s3,omitempty"`

	// PersistentVolumeClaim is a claim of the cluster's namespace.
	// +optional
	PersistentVolumeClaim *ClaimDestination `json:"persistentVolumeClaim,omitempty"`
}

// SamePlace says whether two destinations are one place, whoever reads and writes there. None is no place.
func (d *BackupDestination) SamePlace(other *BackupDestination) bool {
	switch {
	case d == nil || other == nil:
		return false
	case d.PersistentVolumeClaim != nil && other.PersistentVolumeClaim != nil:
		return *d.PersistentVolumeClaim == *other.PersistentVolumeClaim
	case d.S3 != nil && other.S3 != nil:
		return d.S3.Endpoint == other.S3.Endpoint && d.S3.Bucket == other.S3.Bucket && d.S3.Prefix == other.S3.Prefix
	}
	return false
}

// S3Destination is a bucket, and who may write to it. The policy that this needs is in docs/aws.md.
//
// +kubebuilder:validation:XValidation:rule="!has(self.roleARN) || !has(self.credentialsSecretRef)",message="s3.roleARN and s3.credentialsSecretRef exclude each other: remove one"
// +kubebuilder:validation:XValidation:rule="!has(self.caBundle) || has(self.endpoint) && self.endpoint.startsWith('https://')",message="s3.caBundle needs s3.endpoint, with https://"
type S3Destination struct {
	// Bucket is the bucket's name (S3 user guide, "Bucket naming rules").
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9]+[.][0-9]+[.][0-9]+[.][0-9]+$')",message="must not look like an IP address"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^(xn--|sthree-|amzn-s3-demo-)') && !self.matches('(-s3alias|--ol-s3|--x-s3|--table-s3|[.]mrap)$')",message="must not begin with xn--, sthree- or amzn-s3-demo-, or end with -s3alias, --ol-s3, --x-s3, --table-s3 or .mrap: no general purpose bucket can have such a name, S3 reserves them"
	Bucket string `json:"bucket"`

	// Prefix is put before every object's key; <prefix>/<namespace>/<cluster>/<uid>/… Empty unless set.
	// +kubebuilder:validation:MaxLength=400
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9!_.*'()=+@:,-]+(/[A-Za-z0-9!_.*'()=+@:,-]+)*$`
	// +kubebuilder:validation:XValidation:rule="!self.split('/').exists(p, p == '.' || p == '..')",message="must not have a part that is . or .."
	// +optional
	Prefix string `json:"prefix,omitempty"`

	// Region of the bucket; that of the cluster unless set.
	// +kubebuilder:validation:MaxLength=25
	// +kubebuilder:validation:Pattern=`^[a-z]{2,4}(-[a-z]+){1,3}-[0-9]{1,2}$`
	// +optional
	Region string `json:"region,omitempty"`

	// Endpoint of a store that speaks S3's protocol, instead of AWS; buckets are then addressed by path.
	// +kubebuilder:validation:MaxLength=300
	// +kubebuilder:validation:Pattern=`^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?$`
	// +optional
	Endpoint string `json:"endpoint,omitempty"`

	// CABundle holds the certificates, in PEM, of the authorities that sign the certificate of the endpoint. Only they are trusted then.
	// Unless it is set, those that are widely known are.
	// Text between the certificates is not allowed.
	// +kubebuilder:validation:MaxLength=65536
	// +kubebuilder:validation:Pattern=`^(-----BEGIN CERTIFICATE-----\r?\n([A-Za-z0-9+/=]+\r?\n)+-----END CERTIFICATE-----[\r\n]*)+$`
	// +optional
	CABundle string `json:"caBundle,omitempty"`

	// KMSKeyID is the KMS key with which S3 encrypts the objects (SSE-KMS): a key's id or ARN, an alias or its ARN. The
	// bucket's own default encryption applies unless it is set.
	// +kubebuilder:validation:MaxLength=400
	// +kubebuilder:validation:Pattern=`^(arn:aws[a-z-]*:kms:[a-z0-9-]{1,25}:[0-9]{12}:(key|alias)/[A-Za-z0-9/_-]{1,256}|alias/[A-Za-z0-9/_-]{1,250}|(mrk-)?[0-9a-f-]{32,36})$`
	// +optional
	KMSKeyID string `json:"kmsKeyID,omitempty"`

	// RoleARN is the IAM role of the backup pods: it is put on the service account <name>-backup for IRSA (annotation
	// eks.amazonaws.com/role-arn). With EKS Pod Identity leave it out and associate the role with that service account.
	// +kubebuilder:validation:MaxLength=600
	// +kubebuilder:validation:Pattern=`^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]{1,512}$`
	// +optional
	RoleARN string `json:"roleARN,omitempty"`

	// CredentialsSecretRef names a Secret of the cluster's namespace with the keys accessKeyID, secretAccessKey and,
	// optionally, sessionToken, which the backup pods use. It is never read by the operator.
	// +optional
	CredentialsSecretRef *LocalSecretReference `json:"credentialsSecretRef,omitempty"`
}

// ClaimDestination is a folder on a PersistentVolumeClaim of the cluster's namespace. For backups that run side by side,
// and for a restore into another cluster, its volume must allow several pods (ReadWriteMany), or they wait for each other.
type ClaimDestination struct {
	// ClaimName is the claim's name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	ClaimName string `json:"claimName"`
}

// BinlogArchiveSpec describes the archive of binary logs: a StatefulSet <name>-archive of one pod, which follows the
// primary as a replica does and uploads what it receives every 10 seconds.
//
// +kubebuilder:validation:XValidation:rule="!self.enabled || !oldSelf.enabled || !isQuantity(string(self.storage)) || !isQuantity(string(oldSelf.storage)) || quantity(string(self.storage)).compareTo(quantity(string(oldSelf.storage))) >= 0",message="binlogArchive.storage can only grow: claims cannot shrink; for less, apply enabled: false first"
// +kubebuilder:validation:XValidation:rule="!self.enabled || !oldSelf.enabled || !has(self.storageClassName) || !has(oldSelf.storageClassName) || self.storageClassName == oldSelf.storageClassName",message="binlogArchive.storageClassName cannot be changed: a StatefulSet's claims stay as they are; for another, apply enabled: false first"
type BinlogArchiveSpec struct {
	// Enabled, true unless set, switches the archive on; it is on as well where binlogArchive is left out and
	// destination.s3 is set. Only false switches it off.
	// +kubebuilder:default=true
	// +optional
	Enabled bool `json:"enabled"`

	// Storage is the size of the claim on which binary logs wait for their upload, 1Gi to 16Ti; 5Gi unless set.
	// While the archive is on it can only grow: the claim is expanded where its StorageClass allows that, and made anew where
	// not. One transaction must fit on it.
	// +kubebuilder:default="5Gi"
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Gi')) >= 0 && quantity(string(self)).compareTo(quantity('16Ti')) <= 0",message="must be 1Gi to 16Ti; for example 5Gi"
	// +optional
	Storage *resource.Quantity `json:"storage,omitempty"`

	// StorageClassName of the claim; the cluster's default unless set. While the archive is on it cannot be changed into
	// another; where none was named the claim is made anew.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +optional
	StorageClassName string `json:"storageClassName,omitempty"`
}
