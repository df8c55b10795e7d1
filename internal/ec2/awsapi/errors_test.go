package awsapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// answered is an error as the SDK builds it from an answer.
func answered(service, operation, code, message, requestID string) error {
	return &smithy.OperationError{ServiceID: service, OperationName: operation, Err: &awshttp.ResponseError{
		RequestID: requestID,
		ResponseError: &smithyhttp.ResponseError{
			Response: &smithyhttp.Response{Response: &http.Response{StatusCode: http.StatusBadRequest}},
			Err:      &smithy.GenericAPIError{Code: code, Message: message},
		},
	}}
}

func ofEC2(operation, code, message string) error {
	return answered("EC2", operation, code, message, "5d1f3c9e-0000-4000-8000-123456789abc")
}

func silent(operation string, cause error) error {
	return &smithy.OperationError{ServiceID: "EC2", OperationName: operation, Err: cause}
}

// subscribe is EC2's text for an image of AWS Marketplace whose terms the account has not accepted.
const subscribe = "In order to use this AWS Marketplace product you need to accept terms and subscribe. To do so please visit https://aws.amazon.com/marketplace/pp?sku=abc"

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Class
	}{
		{ofEC2("RunInstances", "RequestLimitExceeded", ""), Throttled},
		{ofEC2("RunInstances", "Throttling", ""), Throttled},
		{ofEC2("RunInstances", "InsufficientInstanceCapacity", ""), Waiting},
		{ofEC2("AttachVolume", "IncorrectState", ""), Waiting},
		{ofEC2("AttachVolume", "VolumeInUse", ""), Waiting},
		{ofEC2("DeleteSecurityGroup", "DependencyViolation", ""), Waiting},
		{ofEC2("RunInstances", "IdempotentParameterMismatch", ""), Waiting},
		{ofEC2("RunInstances", "UnauthorizedOperation", ""), Denied},
		{ofEC2("RunInstances", "AuthFailure", ""), Denied},
		{ofEC2("RunInstances", "ExpiredToken", ""), Denied},
		{ofEC2("RunInstances", "RequestExpired", ""), Denied},
		{ofEC2("RunInstances", "InvalidClientTokenId", ""), Denied},
		{ofEC2("RunInstances", "InvalidParameterValue", ""), Invalid},
		{ofEC2("AttachVolume", "CustomerKeyHasBeenRevoked", ""), Waiting},
		{ofEC2("RunInstances", "EncryptedVolumesNotSupported", ""), Invalid},
		{ofEC2("CreateVolume", "VolumeIOPSLimit", ""), Quota},
		{ofEC2("RunInstances", "InvalidAMIID.Malformed", ""), Invalid},
		{ofEC2("RunInstances", "InvalidAMIID.NotFound", ""), Invalid},
		{ofEC2("RunInstances", "InvalidSubnetID.NotFound", ""), Invalid},
		{ofEC2("RunInstances", "Unsupported", ""), Invalid},
		{ofEC2("RunInstances", "OptInRequired", "You are not subscribed to this service."), Denied},
		{ofEC2("RunInstances", "OptInRequired", subscribe), Invalid},
		{ofEC2("RunInstances", "InvalidSecurity.RequestHasExpired", ""), Denied},
		{ofEC2("RunInstances", "InvalidSecurity", ""), Denied},
		{ofEC2("RunInstances", "InvalidSecurityGroupID.NotFound", ""), NotFound},
		{ofEC2("RunInstances", "InvalidSubnetId.NotFound", ""), Invalid},
		{ofEC2("RunInstances", "TagPolicyViolation", ""), Invalid},
		{ofEC2("RunInstances", "ClientInvalidParameterValue", ""), Invalid},
		{ofEC2("ModifyInstanceAttribute", "InvalidInstanceID", "There are multiple interfaces attached to instance 'i-1'."), Invalid},
		{ofEC2("AttachVolume", "InvalidVolumeID", ""), Invalid},
		{ofEC2("DescribeInstances", "InvalidNextToken", ""), Transient},
		{ofEC2("DescribeSnapshots", "InvalidPaginationToken", ""), Transient},
		{ofEC2("RunInstances", "MissingParameter", ""), Invalid},
		{ofEC2("RunInstances", "VcpuLimitExceeded", ""), Quota},
		{ofEC2("CreateVolume", "VolumeLimitExceeded", ""), Quota},
		{ofEC2("CreateVolume", "MaxIOPSLimitExceeded", ""), Quota},
		{ofEC2("AuthorizeSecurityGroupIngress", "RulesPerSecurityGroupLimitExceeded", ""), Quota},
		{ofEC2("StopInstances", "InvalidInstanceID.NotFound", ""), NotFound},
		{ofEC2("DeleteVolume", "InvalidVolume.NotFound", ""), NotFound},
		{ofEC2("DeleteSecurityGroup", "InvalidGroup.NotFound", ""), NotFound},
		{ofEC2("RunInstances", "InternalError", ""), Transient},
		{ofEC2("RunInstances", "Unavailable", ""), Transient},
		{ofEC2("RunInstances", "SomethingNew", ""), Transient},
		{silent("RunInstances", context.DeadlineExceeded), Unreachable},
		{silent("RunInstances", &aws.RequestCanceledError{Err: context.Canceled}), Unreachable},
		{silent("RunInstances", &smithyhttp.RequestSendError{Err: errors.New("EOF")}), Unreachable},
		{silent("RunInstances", &net.OpError{Op: "dial", Err: errors.New("connection refused")}), Unreachable},
		{silent("RunInstances", &smithy.DeserializationError{Err: errors.New("EOF")}), Unreachable},
		{silent("RunInstances", fmt.Errorf("get identity: %w", &credentials.StaticCredentialsEmptyError{})), Denied},
		{silent("RunInstances", fmt.Errorf("get identity: %w", &smithy.OperationError{ServiceID: "ec2imds", OperationName: "GetMetadata",
			Err: context.DeadlineExceeded})), Denied},
		{silent("RunInstances", fmt.Errorf("get identity: %w", answered("STS", "AssumeRole", "AccessDenied", "", ""))), Denied},
		{fmt.Errorf("stop instance i-1: %w", ErrForeign), Invalid},
		{fmt.Errorf("launch: %w", ErrUserDataTooLarge), Invalid},
		{NewWaiting("not yet"), Waiting},
		{&Error{Class: Quota, Text: "too many", Err: ofEC2("RunInstances", "InternalError", "")}, Quota},
		{errors.New("anything else"), Transient},
	} {
		if got := Classify(fmt.Errorf("some action: %w", c.err)); got != c.want {
			t.Errorf("%v is %s, want %s", c.err, got, c.want)
		}
	}
}

// TestRefused: what AWS turns down with a code that nobody here knows is no trouble of AWS's own.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{ofEC2("AttachVolume", "SomethingNew", ""), true},
		{ofEC2("AttachVolume", "IncorrectState", ""), false},
		{ofEC2("AttachVolume", "RequestLimitExceeded", ""), false},
		{silent("AttachVolume", context.DeadlineExceeded), false},
		{ofEC2("DescribeInstances", "InvalidNextToken", ""), false},
		{&smithy.GenericAPIError{Code: "InternalError"}, false},
		{nil, false},
	} {
		if got := Refused(c.err); got != c.want {
			t.Errorf("%v: %t", c.err, got)
		}
	}
}

// One code, two meanings: the text decides.
func TestWhatOnlyTheTextSays(t *testing.T) {
	for _, c := range []struct {
		err         error
		zone, ended bool
	}{
		{err: ofEC2("RunInstances", "Unsupported", "Your requested instance type (m6i.large) is not supported in your requested Availability Zone (us-east-1e)."), zone: true},
		{err: ofEC2("RunInstances", "Unsupported", "The requested configuration is currently not supported.")},
		{err: ofEC2("RunInstances", "InvalidParameterValue", "Availability Zone")},
		{err: ofEC2("CreateVolume", CodeTokenMismatch, "The client token you have provided is associated with a resource that is already deleted. Please use a different client token."), ended: true},
		{err: ofEC2("CreateVolume", CodeTokenMismatch, "Parameters on this idempotent request are inconsistent with parameters used in previous request(s)")},
	} {
		if zone, ended := ZoneLacksType(c.err), TokenSpent(c.err); zone != c.zone || ended != c.ended {
			t.Errorf("%v: the zone %t, the token %t", c.err, zone, ended)
		}
	}
	own := &Error{Class: Waiting, Code: CodeNoCapacity, Text: "none", Err: ofEC2("RunInstances", "Unsupported", "")}
	if got := Explain(own); !IsCapacity(own) || !RefusesOrder(own) || got.Reason != v1alpha1.ReasonInsufficientCapacity || got.Field != FieldInstanceType || !got.Retry {
		t.Errorf("an error that replaces its code is %+v", got)
	}
}

func TestNotFound(t *testing.T) {
	missing := ofEC2("DeleteVolume", "InvalidVolume.NotFound", "")
	if !IsNotFound(missing) || IgnoreNotFound(missing) != nil || IsNotFound(nil) || IgnoreNotFound(nil) != nil {
		t.Error("a missing volume is not NotFound")
	}
	denied := ofEC2("DeleteVolume", "UnauthorizedOperation", "")
	if IsNotFound(denied) || IgnoreNotFound(denied) == nil || !IsDenied(denied) || IsThrottled(denied) || IsWaiting(denied) || IsUnreachable(denied) {
		t.Error("a denial is taken for something else")
	}
}

func TestStopError(t *testing.T) {
	for reason, want := range map[string]string{
		"Server.InsufficientInstanceCapacity: Insufficient capacity to satisfy instance request": "InsufficientInstanceCapacity",
		"Client.VolumeLimitExceeded: Volume limit exceeded":                                      "VolumeLimitExceeded",
		"odd": "odd",
		"":    "",
	} {
		if got := Code(StopError(reason)); got != want {
			t.Errorf("%q: code %q, want %q", reason, got, want)
		}
	}
}

func TestMessage(t *testing.T) {
	const sealed = " Encoded authorization failure message: 4GIOHlTkIaWHQD0Q0m6X"
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{fmt.Errorf("launch instance orders-1: %w", ofEC2("RunInstances", "InvalidParameterValue", "Bad type")),
			"launch instance orders-1: RunInstances: InvalidParameterValue: Bad type"},
		{fmt.Errorf("stop instance i-1: %w", ofEC2("StopInstances", "UnauthorizedOperation", "You are not authorized to perform this operation."+sealed)),
			"stop instance i-1: the operator's AWS identity is not allowed to call ec2:StopInstances (UnauthorizedOperation: You are not authorized to perform this operation.); add it to the policy as docs/aws.md shows"},
		{ofEC2("RunInstances", "UnauthorizedOperation", "User: x is not authorized to perform: iam:PassRole on resource: r"),
			"the operator's AWS identity is not allowed to call iam:PassRole (UnauthorizedOperation: User: x is not authorized to perform: iam:PassRole on resource: r); add it to the policy as docs/aws.md shows"},
		{silent("DescribeInstances", fmt.Errorf("get identity: %w", answered("STS", "AssumeRole", "AccessDenied", "no", "a1b2c3d4-e5f6"))),
			"the operator's AWS identity is not allowed to call sts:AssumeRole (AccessDenied: no); add it to the policy as docs/aws.md shows"},
		{silent("DescribeInstances", fmt.Errorf("get identity: %w", answered("STS", "AssumeRole", "AccessDenied", "User: x is not authorized to perform: sts:TagSession on resource: r", "a1b2c3d4-e5f6"))),
			"the operator's AWS identity is not allowed to call sts:TagSession (AccessDenied: User: x is not authorized to perform: sts:TagSession on resource: r); add it to the policy as docs/aws.md shows"},
		{ofEC2("DescribeInstances", "AuthFailure", "The key AKIAEXAMPLE is not known"),
			"AWS does not accept the credentials (AuthFailure): the access key is wrong, deleted or disabled"},
		{ofEC2("RunInstances", "AuthFailure", "Not authorized for images: [ami-1]"), "RunInstances: AuthFailure: Not authorized for images: [ami-1]"},
		{ofEC2("RunInstances", "OptInRequired", subscribe), "RunInstances: OptInRequired: " + subscribe},
		{ofEC2("RunInstances", "OptInRequired", "You are not subscribed"), "AWS does not accept the credentials (OptInRequired): the account has not enabled this region or service"},
		{ofEC2("RunInstances", "InvalidSecurity.RequestHasExpired", "x"),
			"AWS does not accept the credentials (InvalidSecurity.RequestHasExpired): the clock of the operator's node is minutes off"},
		{ofEC2("DescribeInstances", "SignatureDoesNotMatch", "The canonical string for this request should have been GET / secret"),
			"AWS does not accept the credentials (SignatureDoesNotMatch): the secret key is not that of the access key, or the clock of the operator's node is wrong"},
		{fmt.Errorf("list volumes: %w", silent("DescribeVolumes", context.DeadlineExceeded)), "list volumes: no answer from AWS to ec2:DescribeVolumes"},
		{silent("DescribeVolumes", &net.DNSError{Err: "no such host", Name: "ec2.eu-centrl-1.amazonaws.com", Server: "10.0.0.10:53", IsNotFound: true}),
			"no answer from AWS to ec2:DescribeVolumes: there is no host ec2.eu-centrl-1.amazonaws.com; check spec.aws.region, and DNS in the operator's pod"},
		{silent("DescribeVolumes", &net.DNSError{Err: "server misbehaving", Name: "ec2.eu-central-1.amazonaws.com", IsTemporary: true}), "no answer from AWS to ec2:DescribeVolumes"},
		{ofEC2("CreateVolume", "InternalError", "Failed (Request ID: 5d1f3c9e-aaaa-bbbb-cccc-123456789abc)"), "CreateVolume: InternalError: Failed"},
		{fmt.Errorf("attach: %w", NewWaiting("still attached to i-2")), "attach: still attached to i-2"},
		{errors.New("plain"), "plain"},
	} {
		if got := Message(c.err); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	none := Message(silent("DescribeVolumes", fmt.Errorf("get identity: %w", &credentials.StaticCredentialsEmptyError{})))
	if !strings.HasPrefix(none, "no AWS credentials") {
		t.Errorf("without credentials: %s", none)
	}
}

// A condition's message that differs at every pass would make the API server write at every pass.
func TestMessageIsStable(t *testing.T) {
	one := fmt.Errorf("launch: %w", answered("EC2", "RunInstances", "InternalError", "An internal error", "11111111-1111-1111-1111-111111111111"))
	two := fmt.Errorf("launch: %w", answered("EC2", "RunInstances", "InternalError", "An internal error", "22222222-2222-2222-2222-222222222222"))
	if Message(one) != Message(two) || strings.Contains(Message(one), "1111") {
		t.Errorf("%s\n%s", Message(one), Message(two))
	}
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		err           error
		field, reason string
		retry         bool
	}{
		{ofEC2("RunInstances", "InvalidKeyPair.NotFound", ""), FieldKeyName, v1alpha1.ReasonInvalidSpec, false},
		{ofEC2("RunInstances", "InvalidParameterValue", "Value (x) for parameter iamInstanceProfile.name is invalid"), FieldProfile, v1alpha1.ReasonInvalidSpec, false},
		{ofEC2("CreateVolume", "InvalidParameterCombination", ""), FieldStorage, v1alpha1.ReasonInvalidSpec, false},
		{ofEC2("CreateVolume", "InvalidKMSKey.InvalidState", ""), FieldKMSKey, v1alpha1.ReasonInvalidSpec, false},
		{ofEC2("AuthorizeSecurityGroupIngress", "InvalidParameterValue", ""), fieldClientCIDRs, v1alpha1.ReasonInvalidSpec, false},
		{ofEC2("AuthorizeSecurityGroupIngress", "InvalidGroup.NotFound", ""), FieldClientGroups, v1alpha1.ReasonWaitingForDependency, true},
		{ofEC2("RunInstances", "InvalidGroup.NotFound", ""), FieldGroups, v1alpha1.ReasonWaitingForDependency, true},
		{ofEC2("RunInstances", "OptInRequired", subscribe), FieldImageID, v1alpha1.ReasonInvalidSpec, false},
		{ofEC2("RunInstances", "OptInRequired", ""), "", v1alpha1.ReasonCredentialsInvalid, false},
		{ofEC2("RunInstances", "InvalidSecurity.RequestHasExpired", ""), "", v1alpha1.ReasonCredentialsInvalid, false},
		{ofEC2("RunInstances", "InvalidSubnetId.NotFound", ""), FieldSubnets, v1alpha1.ReasonInvalidSpec, false},
		{ofEC2("CreateVolume", "TagPolicyViolation", ""), fieldTags, v1alpha1.ReasonInvalidSpec, false},
		{ofEC2("RunInstances", "ClientInvalidParameterValue", "Value (x) for parameter iamInstanceProfile.name is invalid"), FieldProfile, v1alpha1.ReasonInvalidSpec, false},
		{ofEC2("DescribeInstances", "InvalidNextToken", ""), "", v1alpha1.ReasonReconciling, true},
		{ofEC2("RunInstances", "VcpuLimitExceeded", ""), FieldInstanceType, v1alpha1.ReasonQuotaExceeded, false},
		{ofEC2("RunInstances", "InsufficientInstanceCapacity", ""), FieldInstanceType, v1alpha1.ReasonInsufficientCapacity, true},
		{ofEC2("DeleteVolume", "VolumeInUse", ""), "", v1alpha1.ReasonWaitingForDependency, true},
		{ofEC2("StopInstances", "UnauthorizedOperation", ""), "", v1alpha1.ReasonNotPermitted, false},
		{ofEC2("RunInstances", "AuthFailure", "Not authorized for images: [ami-1]"), "", v1alpha1.ReasonNotPermitted, false},
		{ofEC2("RunInstances", "AuthFailure", "AWS was not able to validate the provided access credentials"), "", v1alpha1.ReasonCredentialsInvalid, false},
		{ofEC2("StopInstances", "ExpiredToken", ""), "", v1alpha1.ReasonCredentialsInvalid, false},
		{answered("STS", "AssumeRole", "AccessDenied", "", ""), FieldRole, v1alpha1.ReasonNotPermitted, false},
		{silent("StopInstances", &credentials.StaticCredentialsEmptyError{}), "", v1alpha1.ReasonCredentialsMissing, false},
		{silent("StopInstances", context.DeadlineExceeded), "", v1alpha1.ReasonCloudSilent, true},
		{ofEC2("StopInstances", "RequestLimitExceeded", ""), "", v1alpha1.ReasonReconciling, true},
		{ofEC2("StopInstances", "InternalError", ""), "", v1alpha1.ReasonReconciling, true},
		{ofEC2("StopInstances", "InvalidInstanceID.NotFound", ""), "", v1alpha1.ReasonWaitingForDependency, true},
		{ErrForeign, "", v1alpha1.ReasonForeignResource, false},
	} {
		got := Explain(c.err)
		if got.Field != c.field || got.Reason != c.reason || got.Retry != c.retry {
			t.Errorf("%v: %+v, want field %q, reason %s, retry %v", c.err, got, c.field, c.reason, c.retry)
		}
	}
}
