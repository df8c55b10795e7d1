package v1alpha1

// AWSSpec says where and on what the members run.
// Everything that EC2 knows by an id is given as that id; whether it exists and may be used is found out before anything
// is launched and told in the condition Progressing.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.imageID) && has(self.imageSSMParameter))",message="aws.imageID and aws.imageSSMParameter exclude each other: remove one"
// +kubebuilder:validation:XValidation:rule="has(self.securityGroupIDs) || has(self.clientCIDRs) || has(self.clientSecurityGroupIDs)",message="nobody could reach the database: set aws.clientCIDRs (for example the pods' network) or aws.clientSecurityGroupIDs (the pods' or nodes' security group), or bring your own aws.securityGroupIDs"
// +kubebuilder:validation:XValidation:rule="!has(self.securityGroupIDs) || !(has(self.clientCIDRs) || has(self.clientSecurityGroupIDs))",message="with aws.securityGroupIDs the rules are yours and aws.clientCIDRs and aws.clientSecurityGroupIDs would have no effect: remove the one or the others"
// +kubebuilder:validation:XValidation:rule="(has(self.clientCIDRs) ? size(self.clientCIDRs) : 0) + (has(self.clientSecurityGroupIDs) ? size(self.clientSecurityGroupIDs) : 0) <= 50",message="aws.clientCIDRs and aws.clientSecurityGroupIDs together may have at most 50 entries (EC2 allows 60 inbound rules in a security group): use wider CIDRs or one group"
type AWSSpec struct {
	// Region is the AWS region, for example eu-central-1. It cannot be changed: volumes stay in their region.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=25
	// +kubebuilder:validation:Pattern=`^[a-z]{2,4}(-[a-z]+){1,3}-[0-9]{1,2}$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",messageExpression="'aws.region cannot be changed: volumes stay in their region. Put ' + oldSelf + ' back, or restore a backup into a new cluster'"
	Region string `json:"region"`

	// InstanceType of every member, for example r7g.large. Its architecture decides which image is right.
	// A change replaces the instances one by one; the volumes stay.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z][a-z0-9-]*[.][a-z0-9-]+$`
	InstanceType string `json:"instanceType"`

	// ImageID is the AMI of every member. Unless it or imageSSMParameter is set, it is the newest Amazon Linux 2023 for
	// the instance type's architecture at the time of an instance's launch. That has no MySQL: see download.
	// A change replaces the instances one by one. Needs the administrator's leave (policy: images), unless
	// credentialsSecretRef is set.
	// +kubebuilder:validation:MaxLength=21
	// +kubebuilder:validation:Pattern=`^ami-[0-9a-f]{8,17}$`
	// +optional
	ImageID string `json:"imageID,omitempty"`

	// ImageSSMParameter is the path of a public or own SSM parameter that holds an AMI's id, instead of imageID,
	// optionally with a version (…:3). It is resolved when an instance is launched; a new value of the parameter alone
	// replaces nothing. Needs the administrator's leave (policy: images), unless credentialsSecretRef is set.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^(/[A-Za-z0-9_.-]+){1,15}(:[0-9]{1,10})?$`
	// +optional
	ImageSSMParameter string `json:"imageSSMParameter,omitempty"`

	// SubnetIDs are the private subnets of the members, 1 to 16 of one VPC, best in different zones: new volumes go round
	// them in turn. Subnets may be added, not removed, because a member's volume stays in its zone.
	// Needs the administrator's leave (policy: subnets), unless credentialsSecretRef is set.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=24
	// +kubebuilder:validation:items:Pattern=`^subnet-[0-9a-f]{8,17}$`
	// +kubebuilder:validation:XValidation:rule="oldSelf.all(s, s in self)",message="subnets can be added, not removed, because a member's volume stays in its zone: put the removed ones back"
	// +listType=set
	SubnetIDs []string `json:"subnetIDs"`

	// SecurityGroupIDs are your own security groups for the members, at most 16, instead of the one that the operator makes.
	// The operator never edits them: they must allow TCP 3306 among the members and from the clients, the operator included.
	// Needs the administrator's leave (policy: securityGroups), unless credentialsSecretRef is set.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=20
	// +kubebuilder:validation:items:Pattern=`^sg-[0-9a-f]{8,17}$`
	// +listType=set
	// +optional
	SecurityGroupIDs []string `json:"securityGroupIDs,omitempty"`

	// ClientCIDRs are the IPv4 networks that may reach TCP 3306 of the members, for example that of the pods; at most 50.
	// The operator's own pod must be among the clients. A change is applied at once, additions first.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=18
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[0-9]{1,3}([.][0-9]{1,3}){3}/[0-9]{1,2}$') && isCIDR(self) && cidr(self) == cidr(self).masked()",message="must be an IPv4 network in CIDR form with no bits set beyond its prefix; for example 10.20.0.0/16"
	// +listType=set
	// +optional
	ClientCIDRs []string `json:"clientCIDRs,omitempty"`

	// ClientSecurityGroupIDs are the security groups whose members may reach TCP 3306, for example that of the EKS nodes
	// or pods; at most 50. Each must be of the cluster's AWS account and region, and of the members' VPC or one that is peered
	// with it: EC2 lets in no other, and Degraded names the one that it refuses while the others count. Clients of another
	// account, region or network are admitted by clientCIDRs. A change is applied at once, additions first.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=20
	// +kubebuilder:validation:items:Pattern=`^sg-[0-9a-f]{8,17}$`
	// +listType=set
	// +optional
	ClientSecurityGroupIDs []string `json:"clientSecurityGroupIDs,omitempty"`

	// IAMInstanceProfile is the name or the ARN of the instance profile of every member; none unless set.
	// A change replaces the instances one by one. Needs the administrator's leave (policy: instanceProfiles), unless
	// credentialsSecretRef is set.
	// +kubebuilder:validation:MaxLength=600
	// +kubebuilder:validation:Pattern=`^(arn:aws[a-z-]*:iam::[0-9]{12}:instance-profile/)?[A-Za-z0-9+=,.@_/-]{1,512}$`
	// +optional
	IAMInstanceProfile string `json:"iamInstanceProfile,omitempty"`

	// KeyName is the EC2 key pair that may log in by SSH; none unless set, and the operator needs none.
	// A change replaces the instances one by one. Needs the administrator's leave (policy: keyNames), unless
	// credentialsSecretRef is set.
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._@:/+=-]+$`
	// +optional
	KeyName string `json:"keyName,omitempty"`

	// Tags are put on every EC2 resource that the operator makes, at most 40 (EC2 allows 50, the operator needs the rest);
	// keys of at most 128 and values of at most 256 characters, of any script. A change counts for what is made from then on.
	// +kubebuilder:validation:MaxProperties=40
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) >= 1 && size(k) <= 128 && !k.matches(r'^ | $|[\\p{Cc}\\x{FFFE}\\x{FFFF}]'))",message="a tag's key must be 1 to 128 characters, without control characters and without spaces at its ends"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.lowerAscii().startsWith('aws:') && !k.lowerAscii().startsWith('mysql.alx.ke/') && k != 'Name')",message="a tag's key may not begin with aws: (reserved by AWS) or mysql.alx.ke/ (the operator's), nor be Name (set by the operator): use another key"
	// +optional
	Tags map[string]TagValue `json:"tags,omitempty"`

	// CredentialsSecretRef names a Secret of the cluster's namespace with the keys accessKeyID, secretAccessKey and,
	// optionally, sessionToken: the AWS credentials that are used for this cluster. Unless it is set, the operator's own
	// are used (IRSA, EKS Pod Identity, the SDK's default chain), which the administrator's policy must allow.
	// Whoever may create a MySQLCluster in a namespace can so use any such Secret in it, as whoever may create pods can.
	// The Secret is read again every minute, and kept by a finalizer while the cluster's deletion needs it.
	// +optional
	CredentialsSecretRef *LocalSecretReference `json:"credentialsSecretRef,omitempty"`

	// RoleARN is an IAM role that is assumed for this cluster, from the operator's own credentials or from those of
	// credentialsSecretRef, with the external id <namespace>/<name>.
	// From the operator's own it needs the administrator's leave (policy: roleARNs).
	// +kubebuilder:validation:MaxLength=600
	// +kubebuilder:validation:Pattern=`^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]{1,512}$`
	// +optional
	RoleARN string `json:"roleARN,omitempty"`

	// Download says where an instance gets MySQL from when its image has none of the wanted version. Without it, that is MySQL's
	// own site, https://cdn.mysql.com, and the tarball is verified by MySQL's signature. For subnets that do not reach that site,
	// name a mirror. Needs the administrator's leave (policy: downloads), unless credentialsSecretRef is set.
	// +optional
	Download *DownloadSpec `json:"download,omitempty"`
}

// LocalSecretReference names a Secret in the cluster's namespace.
type LocalSecretReference struct {
	// Name of the Secret. The operator waits for it when it is not there yet.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
}

// DownloadSpec names another place for MySQL's tarball than MySQL's own site.
//
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.mirror)",message="set either aws.download.url or aws.download.mirror; without aws.download MySQL's own site is used"
// +kubebuilder:validation:XValidation:rule="!has(self.sha256) || has(self.url)",message="aws.download.sha256 is that of the tarball at aws.download.url: set url too, or remove sha256 to verify by MySQL's signature"
type DownloadSpec struct {
	// URL of the generic Linux tarball of exactly spec.version, http or https, without query and without the path segments .
	// and .. in any spelling. The checksum or the signature is what is trusted, so a plain http server inside the VPC will do.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^https?://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[A-Za-z0-9._~%+@=-]+)+$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('(?i)%2e|(/|%2f|%5c)[.]{1,2}(/|%2f|%5c|$)')",message="the path may have no . or .. in it, nor %2e: write the path that is meant"
	// +optional
	URL string `json:"url,omitempty"`

	// SHA256 of the tarball at url: 64 lower-case hexadecimal digits. Without it the tarball is verified by MySQL's signature,
	// which has the same address with .asc behind it.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	// +optional
	SHA256 string `json:"sha256,omitempty"`

	// Mirror is the address of a copy of https://cdn.mysql.com with the same folders, http or https, for example that of an S3
	// bucket: hack/mirror-mysql.sh fills one. Each version and architecture is found in it by itself, and verified by MySQL's
	// signature.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^https?://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[A-Za-z0-9._~%+@=-]+)*$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('(?i)%2e|(/|%2f|%5c)[.]{1,2}(/|%2f|%5c|$)')",message="the path may have no . or .. in it, nor %2e: write the path that is meant"
	// +optional
	Mirror string `json:"mirror,omitempty"`
}

// TagValue is the value of a tag. EC2 takes any character; its XML holds no control characters.
// Source: "Tag restrictions" in the EC2 user guide.
// +kubebuilder:validation:MaxLength=256
// +kubebuilder:validation:XValidation:rule="!self.matches(r'^ | $|[\\p{Cc}\\x{FFFE}\\x{FFFF}]')",message="a tag's value may have no control characters, and no spaces at its ends"
type TagValue = string
