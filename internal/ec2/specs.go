package ec2

import (
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// LaunchSpec describes the instance of one incarnation of one member.
type LaunchSpec struct {
	Owner            awsapi.Ownership
	Member           string
	Incarnation      int
	TemplateHash     string
	ImageID          string
	InstanceType     string
	SubnetID         string
	SecurityGroupIDs []string
	// IAMInstanceProfile is a name or an ARN; empty for none.
	IAMInstanceProfile string
	// KeyName is an EC2 key pair for SSH; empty for none.
	KeyName string
	// UserData is what the instance runs at its first boot, at most MaxUserData bytes before encoding.
	UserData      []byte
	RootEncrypted bool
	// KMSKeyID encrypts the root volume; empty for the account's default EBS key.
	KMSKeyID string
}

// alike is the same for launches that EC2 and the IAM policy judge alike: all of the spec but what names the cluster and the member. A
// policy may tell namespaces apart, and an organisation may bind tags.
func (s LaunchSpec) alike() string {
	s.Owner = awsapi.Ownership{Namespace: s.Owner.Namespace, UserTags: s.Owner.UserTags}
	s.Member, s.Incarnation, s.TemplateHash, s.UserData = "", 0, "", nil
	return fmt.Sprintf("%+v", s)
}

// VolumeSpec describes the data volume of one incarnation of one member.
type VolumeSpec struct {
	Owner            awsapi.Ownership
	Member           string
	Incarnation      int
	Zone             string
	SizeGiB          int32
	Type             string
	IOPS, Throughput *int32
	Encrypted        bool
	KMSKeyID         string
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
