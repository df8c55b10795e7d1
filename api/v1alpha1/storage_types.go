package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// StorageSpec describes the EBS volume of each member. The limits are those of EC2's CreateVolume (API reference:
// gp3 1–65,536 GiB, 3,000–80,000 IOPS, 125–2,000 MiB/s; io2 4–65,536 GiB, 100–256,000 IOPS, IOPS required) and the ratios
// of the EBS user guide (gp3: 500 IOPS for each GiB, 0.25 MiB/s for each IOPS; io2: 1,000 IOPS for each GiB).
//
// +kubebuilder:validation:XValidation:rule="self.type != 'io2' || !isQuantity(string(self.size)) || quantity(string(self.size)).compareTo(quantity('4Gi')) >= 0",message="storage.size must be at least 4Gi with type io2"
// +kubebuilder:validation:XValidation:rule="self.type != 'io2' || has(self.iops)",message="storage.iops is required with type io2: set 100 to 256000, at most 1000 for each GiB"
// +kubebuilder:validation:XValidation:rule="self.type != 'gp3' || !has(self.iops) || (self.iops >= 3000 && self.iops <= 80000)",message="storage.iops must be 3000 to 80000 with type gp3; leave it out for 3000"
// +kubebuilder:validation:XValidation:rule="!has(self.iops) || !isQuantity(string(self.size)) || !quantity(string(self.size)).isInteger() || self.iops <= 3000 && self.type == 'gp3' || self.iops <= (self.type == 'io2' ? 1000 : 500) * (quantity(string(self.size)).asInteger() / 1073741824)",message="storage.iops is more than the volume's size allows, 500 for each GiB with gp3, 1000 with io2: lower iops or raise size"
// +kubebuilder:validation:XValidation:rule="self.type == 'gp3' || !has(self.throughput)",message="storage.throughput exists with type gp3 only: remove it (an io2 volume's follows from its iops)"
// +kubebuilder:validation:XValidation:rule="!has(self.throughput) || self.throughput * 4 <= (has(self.iops) ? self.iops : 3000)",message="storage.throughput may be at most a quarter of storage.iops (which is 3000 unless set), in MiB/s: lower throughput or raise iops"
// +kubebuilder:validation:XValidation:rule="self.encrypted == oldSelf.encrypted",message="storage.encrypted cannot be changed on existing volumes: put the old value back, or restore a backup into a new cluster"
// +kubebuilder:validation:XValidation:rule="has(self.kmsKeyID) == has(oldSelf.kmsKeyID) && (!has(self.kmsKeyID) || self.kmsKeyID == oldSelf.kmsKeyID)",message="storage.kmsKeyID cannot be changed on existing volumes: put the old value back, or restore a backup into a new cluster"
// +kubebuilder:validation:XValidation:rule="!has(self.kmsKeyID) || self.encrypted",message="storage.kmsKeyID needs storage.encrypted: true"
type StorageSpec struct {
	// Size of each member's volume, in whole GiB (20Gi unless set); gp3 1Gi to 64Ti, io2 4Gi to 64Ti.
	// It may grow, never shrink: EBS cannot shrink a volume. A size that EC2 refused can be set back to what the volumes have,
	// status.volumeSize. A change of size, type, iops or throughput is made on the volumes that there are, while they are in use;
	// EC2 takes four such changes of a volume within 24 hours.
	// +kubebuilder:default="20Gi"
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).isInteger() && quantity(string(self)).compareTo(quantity('1Gi')) >= 0 && quantity(string(self)).compareTo(quantity('64Ti')) <= 0 && quantity(string(self)).asInteger() % 1073741824 == 0",message="must be a whole number of GiB from 1Gi to 64Ti, written without a fraction; for example 100Gi, or 1536Gi for 1.5Ti"
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`

	// Type of the volumes, gp3 unless set.
	// +kubebuilder:default=gp3
	// +optional
	Type VolumeType `json:"type,omitempty"`

	// IOPS of each volume. gp3: 3000 (the default) to 80000, above 3000 at most 500 for each GiB.
	// io2: required, 100 to 256000, at most 1000 for each GiB.
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=256000
	// +optional
	IOPS *int32 `json:"iops,omitempty"`

	// Throughput of each gp3 volume in MiB/s: 125 (the default) to 2000, at most a quarter of its IOPS.
	// +kubebuilder:validation:Minimum=125
	// +kubebuilder:validation:Maximum=2000
	// +optional
	Throughput *int32 `json:"throughput,omitempty"`

	// Encrypted, true unless set, has EBS encrypt the volumes, and the instances' root volumes. It cannot be changed.
	// +kubebuilder:default=true
	// +optional
	Encrypted *bool `json:"encrypted,omitempty"`

	// KMSKeyID is the KMS key of the encryption: a key's id or ARN, an alias (alias/…) or an alias's ARN; the account's
	// default key for EBS unless set. It cannot be changed.
	// From the operator's own credentials it needs the administrator's leave (policy: kmsKeys).
	// +kubebuilder:validation:MaxLength=400
	// +kubebuilder:validation:Pattern=`^(arn:aws[a-z-]*:kms:[a-z0-9-]{1,25}:[0-9]{12}:(key|alias)/[A-Za-z0-9/_-]{1,256}|alias/[A-Za-z0-9/_-]{1,250}|(mrk-)?[0-9a-f-]{32,36})$`
	// +optional
	KMSKeyID string `json:"kmsKeyID,omitempty"`

	// DeletionPolicy says what becomes of the volumes when the cluster is deleted: Snapshot (the default) takes one final
	// snapshot of the primary's volume and deletes the volumes when it is completed; Retain keeps the volumes; Delete
	// keeps nothing. It may be changed at any time before the deletion.
	// +kubebuilder:default=Snapshot
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// VolumeType is a type of EBS volume.
// +kubebuilder:validation:Enum=gp3;io2
type VolumeType string

const (
	// VolumeTypeGP3 is General Purpose SSD.
	VolumeTypeGP3 VolumeType = "gp3"
	// VolumeTypeIO2 is Provisioned IOPS SSD (Block Express).
	VolumeTypeIO2 VolumeType = "io2"
)
