package inventory

import (
	"strings"
	"time"
)

// Inventory is what EC2 holds for one cluster, ordered by id. It is a copy; its slices and maps must not be changed.
type Inventory struct {
	// Taken is when the sweep began that this inventory rests on. Single things may be newer.
	Taken time.Time
	// InstancesTaken and VolumesTaken are when EC2 was asked for the list of instances, and of volumes, that it answered last. While one
	// is zero EC2 has not answered that list, and that it shows nothing says nothing.
	InstancesTaken, VolumesTaken time.Time

	Instances      []Instance
	Volumes        []Volume
	SecurityGroups []SecurityGroup
	// Snapshots are those that EC2 listed when the list was read last, which began at SnapshotsTaken, and those that this process has
	// made or looked at since. While SnapshotsTaken is zero EC2 has not answered the list, and others may exist.
	Snapshots      []Snapshot
	SnapshotsTaken time.Time
	// Answered is when EC2 was asked what it last answered about each instance, by id: in a sweep, or in a look at it alone. It is zero
	// for one that no reading has shown yet.
	Answered map[string]time.Time
}

// Health is what EC2's status checks say of an instance.
type Health struct {
	// Impaired is true when the check of the system, of the instance or of its attached volumes said impaired within AdvisoryFor.
	// "Initialising" and "insufficient data" do not count. False is no word of EC2's that the instance is sound. VolumesImpaired is
	// true when it is the check of the volumes.
	Impaired, VolumesImpaired bool
	// Events are what EC2 has announced for the instance and neither completed nor called off, the earliest first, as it said last.
	Events []Event
}

// Instance is one EC2 instance of a cluster, in whatever state: terminated ones stay visible for as long as EC2 shows
// them (about an hour), because they prove that their incarnation's client token is used up.
type Instance struct {
	ID, Member string
	// Incarnation is 0 when the tag is missing or unreadable; the operator's own incarnations begin at 1.
	Incarnation  int
	TemplateHash string
	// State is pending, running, stopping, stopped, shutting-down or terminated.
	State string
	// StateReason says why, in EC2's words, when EC2 gives a reason.
	StateReason                                  string
	PrivateIP, Zone, ImageID, Type, Architecture string
	LaunchTime                                   time.Time
	Health
	Interface
	Attachments []Attachment
	Tags        map[string]string
	// Token is the client token that it was launched with.
	Token string
}

// BareMetal says whether the instance is a whole server. EC2 names the size of such a type metal, or metal- with its vCPUs (EC2 instance types,
// "Instance type naming conventions").
func (i Instance) BareMetal() bool { return strings.Contains(i.Type, ".metal") }

// Interface is what EC2 says of an instance's first network interface.
type Interface struct {
	SubnetID, VPCID string
	// SecurityGroupIDs are sorted. EC2 shows none of an instance that is gone.
	SecurityGroupIDs []string
}

// Event is a disruption that EC2 announces for an instance.
type Event struct {
	// Code is instance-stop, instance-reboot, system-reboot, system-maintenance or instance-retirement.
	Code string
	// Description is EC2's own sentence.
	Description string
	// NotBefore is the earliest time at which it begins; zero when EC2 names none.
	NotBefore time.Time
}

// Attachment is a volume of an instance, the root volume included. State is attaching, attached, detaching or busy.
type Attachment struct{ VolumeID, Device, State string }

// Volume is one EBS data volume of a cluster. Root volumes belong to their instance and are not listed.
type Volume struct {
	ID, Member  string
	Incarnation int
	// State is creating, available, in-use, deleting, deleted or error.
	State, Zone, Type string
	// SizeGiB is in GiB, IOPS in operations a second, Throughput in MiB/s; the latter two are 0 where the type has none.
	SizeGiB, IOPS, Throughput int32
	Encrypted, Retired        bool
	// AttachedTo is the instance, AttachState attaching, attached, detaching or busy; both empty when not attached.
	AttachedTo, AttachState string
	CreateTime              time.Time
	Tags                    map[string]string
}

// Snapshot is one EBS snapshot. State is pending, completed, error or recoverable; Progress is text such as "42%". SizeGiB
// is that of the volume that it was taken of; no smaller volume can be made from it.
type Snapshot struct {
	ID, VolumeID, Member, State, Progress string
	SizeGiB                               int32
	StartTime                             time.Time
	Tags                                  map[string]string
}

// SecurityGroup is the cluster's own group.
type SecurityGroup struct {
	ID, Name, VPCID string
	Tags            map[string]string
}

// States of an instance, as EC2 spells them.
const (
	StatePending      = "pending"
	StateRunning      = "running"
	StateStopping     = "stopping"
	StateStopped      = "stopped"
	StateShuttingDown = "shutting-down"
	StateTerminated   = "terminated"
)

// States of a volume, of its attachment, and of a snapshot, as EC2 spells them.
const (
	VolumeCreating  = "creating"
	VolumeAvailable = "available"
	VolumeInUse     = "in-use"
	VolumeDeleting  = "deleting"
	VolumeDeleted   = "deleted"

	AttachAttaching = "attaching"
	AttachAttached  = "attached"
	AttachDetaching = "detaching"
	AttachBusy      = "busy"

	SnapshotPending   = "pending"
	SnapshotCompleted = "completed"
	SnapshotError     = "error"
)

// Subnet is one subnet. State is pending or available.
type Subnet struct {
	ID, VPCID, Zone, CIDR, State string
	AvailableIPs                 int32
	IPv6Only                     bool
}

// List names one of EC2's lists.
type List string

// The lists of a sweep.
const (
	listInstances List = "instances"
	listVolumes   List = "volumes"
	listGroups    List = "security groups"
)

// sweptList is a list of a sweep, and the call that reads it.
type sweptList struct {
	list List
	call string
}

// sweptLists are the lists of a sweep. Of several that fail the first is reported.
var sweptLists = []sweptList{{listInstances, "DescribeInstances"}, {listVolumes, "DescribeVolumes"}, {listGroups, "DescribeSecurityGroups"}}

// The lists beside the sweep.
const (
	ListSnapshots List = "snapshots"
	ListHealth    List = "instance status"
)

// Unanswered is a list that EC2 does not answer, so that what is known of it is old.
type Unanswered struct {
	List List
	// Reason is one of the Reason constants of api/v1alpha1.
	Reason string
	// Taken is when EC2 began to give its last answer; zero when it has given none.
	Taken time.Time
	// Err is why EC2 does not answer.
	Err error
}
