package awsapi

import (
	"errors"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// Problem is one thing that stands in the way of a cluster.
type Problem struct {
	// Field is the path of the spec's field to change, for example spec.aws.subnetIDs[1]; empty when no field is at fault.
	Field string
	// Message says what is wrong and what to change. It is stable from call to call.
	Message string
	// Reason is one of the Reason constants of api/v1alpha1.
	Reason string
	// Retry is true when the problem may go away without a change of the spec.
	Retry bool
	// Advisory is true for what the launch of a member that has its volume does without.
	Advisory bool
	// Lacks is the permission that is missing, for example ec2:AttachVolume; empty when none is at fault.
	Lacks string
}

// OfOnePlace says whether a problem keeps nothing but what would go into one subnet, or one group of clients, from being made.
func (p Problem) OfOnePlace() bool {
	return strings.HasPrefix(p.Field, FieldSubnets+"[") || strings.HasPrefix(p.Field, FieldClientGroups+"[")
}

// Paths of the spec's fields that EC2 can find fault with.
const (
	FieldInstanceType  = "spec.aws.instanceType"
	FieldImageID       = "spec.aws.imageID"
	FieldImageAlias    = "spec.aws.imageSSMParameter"
	FieldSubnets       = "spec.aws.subnetIDs"
	FieldGroups        = "spec.aws.securityGroupIDs"
	FieldClientGroups  = "spec.aws.clientSecurityGroupIDs"
	fieldClientCIDRs   = "spec.aws.clientCIDRs"
	FieldProfile       = "spec.aws.iamInstanceProfile"
	FieldKeyName       = "spec.aws.keyName"
	fieldTags          = "spec.aws.tags"
	FieldRole          = "spec.aws.roleARN"
	FieldStorage       = "spec.storage"
	fieldStorageSize   = "spec.storage.size"
	fieldStorageType   = "spec.storage.type"
	fieldStorageIOPS   = "spec.storage.iops"
	FieldEncrypted     = "spec.storage.encrypted"
	FieldKMSKey        = "spec.storage.kmsKeyID"
	actionPassRole     = "iam:PassRole"
	opRunInstances     = "RunInstances"
	opCreateVolume     = "CreateVolume"
	opAssumeRole       = "AssumeRole"
	opAuthorizeIngress = "AuthorizeSecurityGroupIngress"

	// An instance, or its network interface, would have too many security groups.
	codeGroupsPerInstance  = "SecurityGroupsPerInstanceLimitExceeded"
	codeGroupsPerInterface = "SecurityGroupsPerInterfaceLimitExceeded"
)

// Explain turns an error of this package into what a user is told. Errors that pass by themselves (throttling, internal
// errors) are explained too, with Retry set; whether they are worth showing is the caller's choice.
func Explain(err error) Problem {
	class := Classify(err)
	return Problem{
		Field:   fieldOf(err),
		Message: Message(err),
		Reason:  reasonOf(err, class),
		Retry:   class != Invalid && class != Denied && class != Quota,
	}
}

// RefusesInstance says whether EC2 will never launch what was asked for because of its image or its instance type.
func RefusesInstance(err error) bool {
	if err == nil || Classify(err) != Invalid {
		return false
	}
	switch fieldOf(err) {
	case FieldImageID, FieldImageAlias, FieldInstanceType:
		return true
	}
	return ofValue(err) && Mentions(err, "instancetype")
}

// ofValue says whether EC2 refuses the value of a parameter, which its text names.
func ofValue(err error) bool {
	code := Code(err)
	return code == codeValue || code == codeClientValue
}

// RefusesOrder says whether EC2 answered the call that makes an instance or a volume, and made none: an order that it took
// before under the same client token would have been answered again.
func RefusesOrder(err error) bool {
	if op := operationOf(err); op != opRunInstances && op != opCreateVolume {
		return false
	}
	switch Classify(err) {
	case Invalid, Quota, NotFound:
		return true
	case Waiting:
		return IsCapacity(err)
	case Denied, Throttled, Transient, Unreachable:
	}
	return false
}

func reasonOf(err error, class Class) string {
	switch class {
	case Denied:
		if noCredentials(err) {
			return v1alpha1.ReasonCredentialsMissing
		}
		var api smithy.APIError
		if LacksPermission(Code(err)) || errors.As(err, &api) && sharesNot(api) {
			return v1alpha1.ReasonNotPermitted
		}
		return v1alpha1.ReasonCredentialsInvalid
	case Quota:
		return v1alpha1.ReasonQuotaExceeded
	case Invalid:
		if errors.Is(err, ErrForeign) {
			return v1alpha1.ReasonForeignResource
		}
		return v1alpha1.ReasonInvalidSpec
	case Waiting:
		if IsCapacity(err) {
			return v1alpha1.ReasonInsufficientCapacity
		}
		return v1alpha1.ReasonWaitingForDependency
	case NotFound:
		return v1alpha1.ReasonWaitingForDependency
	case Unreachable:
		return v1alpha1.ReasonCloudSilent
	case Throttled, Transient:
		return v1alpha1.ReasonReconciling
	}
	return v1alpha1.ReasonReconciling
}

// fieldOfCode: codes that can only be about one field, whichever call they answer.
var fieldOfCode = map[string]string{
	"InvalidKeyPair.NotFound":            FieldKeyName,
	"InvalidKeyPair.Format":              FieldKeyName,
	"InvalidSubnetID.NotFound":           FieldSubnets,
	"InvalidSubnetId.NotFound":           FieldSubnets,
	"InvalidSubnet":                      FieldSubnets,
	"InvalidSubnetID.Malformed":          FieldSubnets,
	"InsufficientFreeAddressesInSubnet":  FieldSubnets,
	"InvalidGroup.NotFound":              FieldGroups,
	"InvalidGroupId.Malformed":           FieldGroups,
	"InvalidSecurityGroupID.NotFound":    FieldGroups,
	codeGroupsPerInstance:                FieldGroups,
	codeGroupsPerInterface:               FieldGroups,
	"InvalidInstanceType":                FieldInstanceType,
	codeUnsupported:                      FieldInstanceType,
	"VcpuLimitExceeded":                  FieldInstanceType,
	"InstanceLimitExceeded":              FieldInstanceType,
	CodeNoCapacity:                       FieldInstanceType,
	"TagLimitExceeded":                   fieldTags,
	"TagPolicyViolation":                 fieldTags,
	"InvalidTagKey.Malformed":            fieldTags,
	"UnknownVolumeType":                  fieldStorageType,
	"VolumeTypeNotAvailableInZone":       fieldStorageType,
	"VolumeLimitExceeded":                fieldStorageSize,
	"MaxIOPSLimitExceeded":               fieldStorageIOPS,
	"InvalidIamInstanceProfileName":      FieldProfile,
	"RulesPerSecurityGroupLimitExceeded": fieldClientCIDRs,
	"ParameterNotFound":                  FieldImageAlias,
	codeKeyRevoked:                       FieldKMSKey,
	"EncryptedVolumesNotSupported":       FieldInstanceType,
	"VolumeIOPSLimit":                    fieldStorageIOPS,
}

// fieldOfCall: what a call that EC2 will never accept is about, where its code says no more.
var fieldOfCall = map[string]string{opCreateVolume: FieldStorage, opAuthorizeIngress: fieldClientCIDRs}

// fieldOf guesses the field that an error is about: by its code, else by the call that it answers.
func fieldOf(err error) string {
	code, op, class := Code(err), operationOf(err), Classify(err)
	if field, ok := fieldOfCode[code]; ok {
		if field == FieldGroups && op == opAuthorizeIngress {
			return FieldClientGroups
		}
		return field
	}
	switch {
	case op == "":
		return ""
	case op == opAssumeRole:
		return FieldRole
	case RefusedAction(err) == actionPassRole:
		return FieldProfile
	case class == Denied:
		return ""
	case strings.HasPrefix(code, "InvalidAMI"), code == codeOptIn:
		return FieldImageID
	case strings.Contains(code, "KMS") || strings.Contains(code, "Kms"):
		return FieldKMSKey
	case ofValue(err) && op == opRunInstances && Mentions(err, "iaminstanceprofile"):
		return FieldProfile
	case class == Invalid:
		return fieldOfCall[op]
	}
	return ""
}

// operationOf is the name of the call that failed; empty when there was none.
func operationOf(err error) string {
	if op := innermostOperation(err); op != nil {
		return op.OperationName
	}
	return ""
}
