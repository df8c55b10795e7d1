package v1alpha1

// BootstrapSpec says what a new cluster begins with.
type BootstrapSpec struct {
	// Recovery has the cluster begin with what another left behind. Nothing is ever restored into a cluster that has data.
	// +optional
	Recovery *RecoverySpec `json:"recovery,omitempty"`
}

// RecoverySpec names the dump that a cluster begins with. MySQL's version may be the same or newer (within the supported
// steps), never older. What is restored from is only read.
//
// +kubebuilder:validation:XValidation:rule="has(self.backupName) != has(self.objectStore)",message="set either backupName or objectStore"
type RecoverySpec struct {
	// BackupName is a MySQLBackup of the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +optional
	BackupName string `json:"backupName,omitempty"`

	// ObjectStore is a place that backups were written to, for a cluster whose objects are gone.
	// +optional
	ObjectStore *ObjectStoreSource `json:"objectStore,omitempty"`

	// PointInTime is how far the source's history is restored, from its backup and its archive of binary logs; as far as the
	// backup reaches unless it is set. What cannot be restored exactly is refused.
	// +optional
	PointInTime *PointInTimeSpec `json:"pointInTime,omitempty"`

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
	// +kubebuilder:validation:Pattern=`^[a-z0-9][a-z0-9.-]*/[a-z0-9-]+/[A-Za-z0-9-]+(/backups/[A-Za-z0-9.-]+)?$`
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
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})$`
	// +optional
	Time string `json:"time,omitempty"`

	// GTID is a transaction, <uuid>:<number> or <uuid>:<tag>:<number>; it and all before it are restored, and none after it.
	// +kubebuilder:validation:MaxLength=93
	// +kubebuilder:validation:Pattern=`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(:[A-Za-z_][A-Za-z0-9_]{0,31})?:[1-9][0-9]{0,18}$`
	// +optional
	GTID string `json:"gtid,omitempty"`
}
