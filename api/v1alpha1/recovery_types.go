package v1alpha1

// BootstrapSpec says what a new cluster begins with.
type BootstrapSpec struct {
	// Recovery has the cluster begin with what another left behind. Nothing is ever restored into a cluster that has data.
	// +optional
	Recovery *RecoverySpec `json:"recovery,omitempty"`
}

// RecoverySpec names what a cluster begins with: a dump, or a copy of a data volume. MySQL's version may be the same or newer
// (within the supported steps), never older. What is restored from is only read, but for a mark beside a
// dump that it is in use.
//
// +kubebuilder:validation:XValidation:rule="[has(self.backupName), has(self.objectStore), has(self.snapshotID), has(self.volumeID)].filter(x, x).size() == 1",message="set exactly one of backupName, objectStore, snapshotID and volumeID"
// +kubebuilder:validation:XValidation:rule="!has(self.pointInTime) || !(has(self.snapshotID) || has(self.volumeID)) || has(self.archive)",message="a copy of a volume holds one moment only: for pointInTime, name with archive the binary logs that lead on from it"
// +kubebuilder:validation:XValidation:rule="!has(self.archive) || has(self.pointInTime)",message="archive is read up to pointInTime: set that, or remove archive"
// +kubebuilder:validation:XValidation:rule="!has(self.archive) || !has(self.objectStore)",message="the archive of a dump is beside it: remove archive"
// +kubebuilder:validation:XValidation:rule="!has(self.image) || !(has(self.snapshotID) || has(self.volumeID)) || has(self.pointInTime)",message="no pod restores a copy of a volume: remove image"
type RecoverySpec struct {
	// BackupName is a MySQLBackup of the same namespace, a dump or a snapshot.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +optional
	BackupName string `json:"backupName,omitempty"`

	// ObjectStore is a place that backups were written to, for a cluster whose objects are gone.
	// +optional
	ObjectStore *ObjectStoreSource `json:"objectStore,omitempty"`

	// SnapshotID is an EBS snapshot of a data volume, in the cluster's account and region. It must carry the tag of the cluster's
	// namespace that the operator gives its snapshots, or be allowed by the administrator's policy. The members' volumes must
	// not be smaller than the volume that it was taken of.
	// +kubebuilder:validation:Pattern=`^snap-([0-9a-f]{8}|[0-9a-f]{17})$`
	// +kubebuilder:validation:MaxLength=22
	// +optional
	SnapshotID string `json:"snapshotID,omitempty"`

	// VolumeID is a data volume that a cluster left behind, such as one that storage.deletionPolicy Retain kept. It must not be
	// attached to an instance; what holds of snapshotID holds of its tags and its size. A snapshot of it is taken, and deleted
	// once the cluster has begun; the volume itself is neither attached nor changed.
	// +kubebuilder:validation:Pattern=`^vol-([0-9a-f]{8}|[0-9a-f]{17})$`
	// +kubebuilder:validation:MaxLength=21
	// +optional
	VolumeID string `json:"volumeID,omitempty"`

	// PointInTime is how far the source's history is restored, from its backup and its archive of binary logs; as far as the
	// backup reaches unless it is set. What cannot be restored exactly is refused.
	// +optional
	PointInTime *PointInTimeSpec `json:"pointInTime,omitempty"`

	// Archive is where the binary logs are that lead from a copy of a volume to pointInTime. It is needed with snapshotID and
	// volumeID; the MySQLBackup of a snapshot names its own unless it is set. The archive of a dump is beside the dump.
	// +optional
	Archive *ArchiveSource `json:"archive,omitempty"`

	// Image holds the mysql client that the restoring pod runs; that of spec.backup.image unless set.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,511}$`
	// +optional
	Image string `json:"image,omitempty"`
}

// ObjectStoreSource is a folder that backups were written to.
type ObjectStoreSource struct {
	// Destination is the bucket or the claim.
	Destination BackupDestination `json:"destination"`

	// Path below the destination's prefix: <namespace>/<cluster>/<uid>, whose newest good backup is taken (with
	// pointInTime the newest before that), or <namespace>/<cluster>/<uid>/backups/<backup>.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[a-z0-9][a-z0-9.-]*/[a-z0-9-]+/[A-Za-z0-9-]+(/backups/[A-Za-z0-9][A-Za-z0-9.-]*)?$`
	Path string `json:"path"`
}

// ArchiveSource is a cluster's archive of binary logs.
//
// +kubebuilder:validation:XValidation:rule="has(self.destination.s3)",message="binary logs are archived in buckets only: set destination.s3"
type ArchiveSource struct {
	// Destination is the bucket.
	Destination BackupDestination `json:"destination"`

	// Path of the cluster's folder below the destination's prefix: <namespace>/<cluster>/<uid>.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[a-z0-9][a-z0-9.-]*/[a-z0-9-]+/[A-Za-z0-9-]+$`
	Path string `json:"path"`
}

// PointInTimeSpec is a point in the source's history.
//
// +kubebuilder:validation:XValidation:rule="has(self.time) != has(self.gtid)",message="set either pointInTime.time or pointInTime.gtid"
type PointInTimeSpec struct {
	// Time is a moment, to the microsecond; for example 2026-01-02T03:04:05.678901Z. Every transaction that was committed
	// until then is restored, and none from the first on that was committed later. It is a string because Kubernetes' own
	// type of a time loses what is below a second as soon as a client writes back what it has read.
	// +kubebuilder:validation:MaxLength=35
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	// +optional
	Time string `json:"time,omitempty"`

	// GTID is a transaction, <uuid>:<number> or <uuid>:<tag>:<number>; it and all before it are restored, and none after it.
	// +kubebuilder:validation:MaxLength=93
	// +kubebuilder:validation:Pattern=`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(:[A-Za-z_][A-Za-z0-9_]{0,31})?:[1-9][0-9]{0,18}$`
	// +optional
	GTID string `json:"gtid,omitempty"`
}
