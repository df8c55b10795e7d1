package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MySQLClusterStatus says what was observed. It is written for people and never read to decide.
type MySQLClusterStatus struct {
	// ObservedGeneration is the generation of the spec that this status belongs to; -1 until the operator has seen the cluster.
	// +kubebuilder:default=-1
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Phase is the least advanced of the members' phases until all of them are Ready: Provisioning, EC2Ready, Replicating, Ready. A cluster
	// that was Ready and has a member that is not is Updating, when a person asked for a change, or Repairing; conditions say whether it
	// takes writes. Hibernated and Deleting are what spec.hibernate and a deletion lead to.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// Conditions: Available, Ready, Progressing, Degraded, CloudReachable, BackupHealthy, ArchiveHealthy, Recovered; Reconciling and Stalled
	// are there only while they are True.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(c, string(c.lastTransitionTime).size() == 20)",message="lastTransitionTime must be a moment in UTC to the second; for example 2026-01-02T03:04:05Z"
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Primary is the name of the writable member; empty while there is none.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Primary string `json:"primary,omitempty"`

	// Version of MySQL that the primary runs; while there is none, that of the first member.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Version string `json:"version,omitempty"`

	ScaleStatus `json:",inline"`

	// Lag is the largest lag step among the replicas.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Lag string `json:"lag,omitempty"`

	// Endpoints are the addresses under which the cluster is reached from inside Kubernetes.
	// +optional
	Endpoints *Endpoints `json:"endpoints,omitempty"`

	// Voters is the membership row as the primary holds it.
	// +optional
	Voters *VotersStatus `json:"voters,omitempty"`

	// Rollout says how far a change of the spec that goes from member to member has got; empty when none is under way.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`

	// LastPromotion is how a member became primary last in place of another. Failed members and their times are in events.
	// +optional
	LastPromotion *PromotionStatus `json:"lastPromotion,omitempty"`

	StorageStatus `json:",inline"`

	// Backup is what backups there are.
	// +optional
	Backup *BackupSummary `json:"backup,omitempty"`

	// Cost is what the cluster costs for a month by list prices; absent until EC2 has shown what there is.
	// +optional
	Cost *CostStatus `json:"cost,omitempty"`

	// Members are the members, by name.
	// +kubebuilder:validation:MaxItems=64
	// +optional
	// +listType=map
	// +listMapKey=name
	Members []MemberStatus `json:"members,omitempty"`
}

// StorageStatus is what EC2 shows of volumes and snapshots.
type StorageStatus struct {
	// QuarantineSnapshots counts the snapshots of members that were rebuilt because they held transactions of their own
	// or could no longer replicate. Each is kept for 7 days.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	QuarantineSnapshots int32 `json:"quarantineSnapshots,omitempty"`

	// VolumeSize is the size of the largest data volume that EC2 shows, in whole GiB; 0Gi while there is none. A larger
	// spec.storage.size that EC2 refuses can be set back to it.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9]{1,10}Gi$`
	// +optional
	VolumeSize string `json:"volumeSize,omitempty"`
}

// ScaleStatus is how many members there are, and what the scale subresource reads.
type ScaleStatus struct {
	// Replicas is the number of members that exist.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// ReadyReplicas is the number of members in phase Ready.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// ReadyMembers is ReadyReplicas of spec.replicas as people read it, for example 2/3.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ReadyMembers string `json:"readyMembers,omitempty"`

	// Selector selects what belongs to this cluster, for the scale subresource.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Selector string `json:"selector,omitempty"`
}

// CostStatus is what a cluster costs for a month of 730 hours by list prices, without taxes, discounts, traffic and what lies in S3.
// Amounts are in Currency with two decimals, for example 512.40.
type CostStatus struct {
	// Monthly is the sum of Instances, Volumes and Snapshots.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Monthly string `json:"monthly,omitempty"`
	// Instances is for those that run, on demand.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Instances string `json:"instances,omitempty"`
	// Volumes is for data volumes and the root volumes of instances, stopped ones too.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Volumes string `json:"volumes,omitempty"`
	// Snapshots counts each volume of which there are snapshots once, by its size: EBS stores less of a volume that is not full, and of
	// each further snapshot only what has changed since.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Snapshots string `json:"snapshots,omitempty"`
	// Currency is that of the amounts, a code of ISO 4217.
	// +kubebuilder:validation:MaxLength=3
	// +optional
	Currency string `json:"currency,omitempty"`
	// PricesAsOf is the day of which the prices are, for example 2026-01-02.
	// +kubebuilder:validation:MaxLength=10
	// +optional
	PricesAsOf string `json:"pricesAsOf,omitempty"`
	// Source says whose prices they are.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Source string `json:"source,omitempty"`
	// Unknown names what the list has no price of, which is in none of the sums: instance types, volume types, or the region. Where the
	// list cannot be used at all there is no amount, and here stands why.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	// +optional
	// +listType=atomic
	Unknown []string `json:"unknown,omitempty"`
}

// RolloutKind is what is done to the members, one after the other: Machines (new instances, another version, members that leave),
// Restarts (of mysqld), or Volumes (a larger size, another type, IOPS or throughput).
// +kubebuilder:validation:Enum=Machines;Restarts;Volumes
type RolloutKind string

// The kinds, in the order in which they are told when several are under way.
const (
	RolloutMachines RolloutKind = "Machines"
	RolloutRestarts RolloutKind = "Restarts"
	RolloutVolumes  RolloutKind = "Volumes"
)

// RolloutStatus says how far a change that goes from member to member has got.
type RolloutStatus struct {
	// Kind is what is done to the members: Machines, Restarts or Volumes. Of several, the first of these
	// that has begun is told.
	// +optional
	Kind RolloutKind `json:"kind,omitempty"`
	// Done is how many members were changed.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	Done int32 `json:"done"`
	// Total is how many members the change is about.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	Total int32 `json:"total"`
	// Current is the member whose turn it is, empty between two turns.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Current string `json:"current,omitempty"`
	// Step is what the current member waits for, or what holds back the next.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Step string `json:"step,omitempty"`
	// Next are the members that wait for their turn, in their order. The primary comes last, after it has handed over.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	// +listType=atomic
	Next []string `json:"next,omitempty"`
	// Plan says of each member that is left, in their order, what is done to it.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=512
	// +optional
	// +listType=atomic
	Plan []string `json:"plan,omitempty"`
	// Since is when the first member's turn began; empty before.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$`
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// PreviousVersion is the version of MySQL that the primary still runs while the spec asks for a newer one. As long as it is
	// here, spec.version may be set back to it. Empty when there is no way back.
	// +kubebuilder:validation:MaxLength=10
	// +optional
	PreviousVersion string `json:"previousVersion,omitempty"`
}

// PromotionStatus is how a member became primary. Durations are in seconds, to the millisecond.
type PromotionStatus struct {
	// Kind is Failover (the old primary failed), Switchover (it was well) or Reopened (the primary was away, and takes writes again).
	// +kubebuilder:validation:Enum=Failover;Switchover;Reopened
	Kind string `json:"kind"`
	// From is the old primary, empty when there was none that was known.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	From string `json:"from,omitempty"`
	// To is the new primary. With Reopened it is the same as From.
	// +kubebuilder:validation:MaxLength=253
	To string `json:"to"`
	// At is when the new primary was published.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$`
	At metav1.Time `json:"at"`
	// Detect is the time from the last write that succeeded until the failure was noticed.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Detect string `json:"detect,omitempty"`
	// Fence is the time from then on until nobody could acknowledge a commit of the old primary any more.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Fence string `json:"fence,omitempty"`
	// Promote is the time from then on until the new primary was writable.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Promote string `json:"promote,omitempty"`
	// Publish is the time from then on until the primary Service led to it.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Publish string `json:"publish,omitempty"`
	// Total is all of it.
	// +kubebuilder:validation:MaxLength=16
	Total string `json:"total"`
	// LostTransactions counts acknowledged transactions that the new primary lacks. With Lossless durability a member is
	// promoted only when it is proven to be 0. Absent when it is not known: with durability Async, and when Uncovered is set.
	// +optional
	LostTransactions *int64 `json:"lostTransactions,omitempty"`
	// Uncovered says since when the old primary may have answered commits without the acknowledgements of voters, and why. "Or earlier"
	// stands there if nobody observed it until then. What it answered may be lost.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Uncovered string `json:"uncovered,omitempty"`
	// UncoveredMembers are the members that Uncovered is about: the old primary, and others that took writes.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	// +optional
	UncoveredMembers []UncoveredMember `json:"uncoveredMembers,omitempty"`
}

// UncoveredMember is a member that may have answered commits without the acknowledgements of voters.
type UncoveredMember struct {
	// Name is the member's name.
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Since is when that was found.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$`
	Since metav1.Time `json:"since"`
}

// Endpoints are the addresses under which a cluster is reached from inside Kubernetes.
type Endpoints struct {
	// Primary is host:port of the Service that leads to the writable member.
	// +kubebuilder:validation:MaxLength=320
	// +optional
	Primary string `json:"primary,omitempty"`

	// Replicas is host:port of the Service that leads to the replicas within replication.maxLag.
	// +kubebuilder:validation:MaxLength=320
	// +optional
	Replicas string `json:"replicas,omitempty"`
}

// VotersStatus is the membership row as the primary holds it.
type VotersStatus struct {
	// Epoch rises by one with each change of the voters.
	Epoch int64 `json:"epoch"`

	// Names of the members whose acknowledgement counts, the primary included.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	// +listType=set
	Names []string `json:"names,omitempty"`

	// WaitFor is W: how many replicas must acknowledge a commit before its client is answered.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	WaitFor int32 `json:"waitFor"`
}

// MemberStatus is what was observed of one member.
type MemberStatus struct {
	// Name of the member: the cluster's name and an ordinal, for example orders-0.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// Phase of the member.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// Role of the member in replication.
	// +optional
	Role Role `json:"role,omitempty"`

	// Voter is true when the member's acknowledgement counts.
	// +optional
	Voter bool `json:"voter,omitempty"`

	// InstanceID of the member's EC2 instance.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	InstanceID string `json:"instanceID,omitempty"`

	// VolumeID of the member's EBS volume.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	VolumeID string `json:"volumeID,omitempty"`

	// Zone is the availability zone of instance and volume.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Zone string `json:"zone,omitempty"`

	// Address is the instance's private IPv4 address.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Address string `json:"address,omitempty"`

	// Version of MySQL that the member runs.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Version string `json:"version,omitempty"`

	// Lag is a step, not a measurement: 0s, <1s, <5s, <10s, <30s, <1m, <5m, <15m, >=15m.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Lag string `json:"lag,omitempty"`

	// Message says what the member waits for, or what is wrong with it.
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	Message string `json:"message,omitempty"`
}
