package ec2

import "github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"

// VolumeConfiguration is what EC2 can modify of a volume. EC2 judges it as a whole: how many IOPS a volume may have depends on its size and type.
type VolumeConfiguration struct {
	SizeGiB int32
	Type    string
	// IOPS, and Throughput in MiB/s, are 0 where they are left to EC2.
	IOPS, Throughput int32
}

// VolumeSpec describes the data volume of one incarnation of one member.
type VolumeSpec struct {
	Owner       awsapi.Ownership
	Member      string
	Incarnation int
	Zone        string
	VolumeConfiguration
	Encrypted bool
	KMSKeyID  string
	// SnapshotID fills the new volume from a snapshot; empty for an empty volume. Such a volume is tagged as one that a
	// cluster is yet to begin with.
	SnapshotID string
	// MySQLVersion is the version that is to open the volume, for a tag; empty for none.
	MySQLVersion string
}

// SnapshotSpec describes a snapshot of a data volume.
type SnapshotSpec struct {
	Owner awsapi.Ownership
	// Member is whose it is.
	Member, VolumeID string
	// Purpose is a short word, kept in the tag TagPurpose.
	Purpose string
	// MySQLVersion is the newest version that may have opened the volume, for a tag; empty for none.
	MySQLVersion string
}

// SecurityGroupSpec describes who may reach the members on MySQL's port, besides the members themselves.
type SecurityGroupSpec struct {
	Owner                               awsapi.Ownership
	VPCID                               string
	ClientCIDRs, ClientSecurityGroupIDs []string
}

// DataDevice is the device name under which the data volume is attached. Nitro instances rename it; the guest finds the
// volume by its id.
const DataDevice = "/dev/sdf"
