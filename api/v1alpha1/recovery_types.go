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

	// Path below the destination's prefix: <namespace>/<cluster>/<uid>, whose newest good backup is taken, or
	// <namespace>/<cluster>/<uid>/backups/<backup>.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[a-z0-9][a-z0-9.-]*/[a-z0-9-]+/[A-Za-z0-9-]+(/backups/[A-Za-z0-9.-]+)?$`
	Path string `json:"path"`
}
