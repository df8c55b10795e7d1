package v1alpha1

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultVerificationMaxAge is how old what the newest dump shows may be unless spec.backup.verification.maxAge is set.
const DefaultVerificationMaxAge = 26 * time.Hour

// VerificationSpec says when the newest dump is restored to see whether it can be. The CronJob is called <cluster>-verify.
type VerificationSpec struct {
	// Cron says when, as in schedules.
	Cron CronExpression `json:"cron"`

	// TimeZone is the time zone of cron by its IANA name; Etc/UTC unless set.
	// +kubebuilder:default="Etc/UTC"
	// +optional
	TimeZone TimeZoneName `json:"timeZone,omitempty"`

	// MaxAge is how old the newest row that the operator wrote by itself every second (the heartbeat) may be in the newest
	// dump, from 1m to 8760h; 26h unless set, which suits a daily schedule. Older, the verification fails: the schedule
	// does not keep what it promises.
	// +kubebuilder:default="26h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,3})?(ms|s|m|h))+$') && duration(self) >= duration('1m') && duration(self) <= duration('8760h')",message="must be a duration from 1m to 8760h; for example 26h"
	// +optional
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`

	// Storage is the size of the volume into which the dump is restored, 1Gi to 64Ti. The node's own disk is used unless
	// it is set.
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Gi')) >= 0 && quantity(string(self)).compareTo(quantity('64Ti')) <= 0",message="must be 1Gi to 64Ti; for example 100Gi"
	// +optional
	Storage *resource.Quantity `json:"storage,omitempty"`

	// StorageClassName of that volume; the cluster's default unless set.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +optional
	StorageClassName string `json:"storageClassName,omitempty"`
}

// EffectiveMaxAge is how old what the newest dump shows may be.
func (v *VerificationSpec) EffectiveMaxAge() time.Duration {
	if v.MaxAge == nil {
		return DefaultVerificationMaxAge
	}
	return v.MaxAge.Duration
}

// VerificationResult says what an attempt to restore a backup found.
// +kubebuilder:validation:Enum=Passed;Failed
type VerificationResult string

const (
	// VerificationPassed: it was restored, and was what had been backed up.
	VerificationPassed VerificationResult = "Passed"
	// VerificationFailed: it could not be restored, or was something else.
	VerificationFailed VerificationResult = "Failed"
)

// VerificationStatus is what an attempt to restore a backup found.
type VerificationStatus struct {
	// At is when.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$`
	At metav1.Time `json:"at"`

	// Result is Passed or Failed.
	Result VerificationResult `json:"result"`

	// Reason is a word for why it failed.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Reason string `json:"reason,omitempty"`

	// Tables is how many tables' rows were counted.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Tables int32 `json:"tables,omitempty"`

	// Checksums is how many tables' contents were compared.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Checksums int32 `json:"checksums,omitempty"`

	// Message says what was wrong.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
}
