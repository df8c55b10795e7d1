package awsapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Class says what to do about an error.
type Class int

const (
	// Transient: EC2 failed in a way that passes (an internal error, a 5xx, a code that we do not know). Back off.
	Transient Class = iota
	// Throttled: too many calls. Back off; never shown to the user as a failure.
	Throttled
	// Waiting: right, but not now: no capacity, a resource in another state, something still uses it, an id so new that
	// EC2 does not know it everywhere. Ask again later.
	Waiting
	// Denied: the credentials are missing, wrong or expired, or their policy does not allow the call. A person must act.
	Denied
	// Invalid: EC2 will never accept this request. The spec must change.
	Invalid
	// Quota: a limit of the account is reached. A person must raise it or ask for less.
	Quota
	// NotFound: the thing does not exist (any more).
	NotFound
	// Unreachable: no answer came (time-out, refused or broken connection). Whether the call took effect is unknown.
	Unreachable
)

// String is the class's name, for logs.
func (c Class) String() string {
	names := [...]string{"Transient", "Throttled", "Waiting", "Denied", "Invalid", "Quota", "NotFound", "Unreachable"}
	if c < 0 || int(c) >= len(names) {
		return fmt.Sprintf("Class(%d)", int(c))
	}
	return names[c]
}

var (
	// ErrForeign: the resource does not carry the tag of the cluster for which something was to be done with it, so the
	// operator will not touch it. Its class is Invalid.
	ErrForeign = errors.New("the resource is not this cluster's by its tag, and is left alone")

	// ErrUserDataTooLarge: user data above MaxUserData. Its class is Invalid.
	ErrUserDataTooLarge = errors.New("user data is larger than EC2 accepts")
)

// Error is an error whose class and text this package knows better than EC2's code does. Text is for people: stable,
// without request ids.
type Error struct {
	Class Class
	// Code replaces EC2's code where its text says more than that; empty keeps EC2's.
	Code string
	Text string
	// Err is the cause; nil when there is none.
	Err error
}

// Error is the text, followed by the cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Text
	}
	return e.Text + ": " + e.Err.Error()
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// NewWaiting returns an error of class Waiting.
func NewWaiting(format string, args ...any) error {
	return &Error{Class: Waiting, Text: fmt.Sprintf(format, args...)}
}

const (
	// CodeTokenMismatch: EC2 has served this client token before, for a request that differed from this one (the image's
	// alias moved on, a tag was added). What it was served with exists, unless TokenSpent.
	CodeTokenMismatch = "IdempotentParameterMismatch"
	// CodeTokenEnded: what this client token made has ended.
	CodeTokenEnded = "IdempotentInstanceTerminated"
	// CodeNoCapacity: the zone has none of the instance type left.
	CodeNoCapacity = "InsufficientInstanceCapacity"

	codeUnsupported = "Unsupported"
	codeOptIn       = "OptInRequired"
	codeNoImage     = "InvalidAMIID.NotFound"
	codeValue       = "InvalidParameterValue"
	codeClientValue = "ClientInvalidParameterValue"
)

// Wrap names the action that failed; nil stays nil.
func Wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Code is EC2's (or STS's, SSM's) error code, or "" when the error is not an answer of AWS.
func Code(err error) string {
	var own *Error
	if errors.As(err, &own) && own.Code != "" {
		return own.Code
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// Classify says what to do about err. A nil error is Transient, which means nothing; ask only about errors.
func Classify(err error) Class {
	var own *Error
	if errors.As(err, &own) {
		return own.Class
	}
	if errors.Is(err, ErrForeign) || errors.Is(err, ErrUserDataTooLarge) {
		return Invalid
	}
	if noCredentials(err) {
		return Denied
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		return classOfAnswer(api)
	}
	if unreachable(err) {
		return Unreachable
	}
	return Transient
}

// classOfAnswer goes by the code, and by the text where one code means two things.
func classOfAnswer(api smithy.APIError) Class {
	code := api.ErrorCode()
	if wantsSubscription(api) {
		return Invalid
	}
	if class, ok := classes[code]; ok {
		return class
	}
	switch {
	case strings.HasPrefix(code, "InvalidSecurity."):
		return Denied
	case strings.HasSuffix(code, ".NotFound"):
		return NotFound
	case strings.HasSuffix(code, "LimitExceeded"):
		return Quota
	case strings.HasPrefix(code, "Invalid"), strings.HasPrefix(code, "Missing"), strings.HasPrefix(code, "Unsupported"),
		strings.HasPrefix(code, "Unknown"), strings.HasPrefix(code, "Malformed"):
		return Invalid
	}
	return Transient
}

// codeKeyRevoked: the key with which a volume is encrypted is disabled, or its policy does not let EBS use it.
const codeKeyRevoked = "CustomerKeyHasBeenRevoked"

// Refused reports that AWS turned a call down for what it asks, with a code that this package does not know: an answer of 4xx.
func Refused(err error) bool {
	var answer *smithyhttp.ResponseError
	_, known := classes[Code(err)]
	return err != nil && Classify(err) == Transient && Code(err) != "" && !known && errors.As(err, &answer) &&
		answer.HTTPStatusCode() >= http.StatusBadRequest && answer.HTTPStatusCode() < http.StatusInternalServerError
}

// wantsSubscription says whether an image of AWS Marketplace waits for somebody of the account to accept its terms. It has the code
// of a region that is not enabled.
func wantsSubscription(api smithy.APIError) bool {
	return api.ErrorCode() == codeOptIn && strings.Contains(api.ErrorMessage(), "AWS Marketplace")
}

// classes holds the codes whose name alone does not tell their class. NotFound is only what ends in that: a code that EC2 also uses
// for a resource that exists would have it forgotten.
// Source: "Error codes for the Amazon EC2 API" and STS's and SSM's common errors.
var classes = codesOf(map[Class][]string{
	Throttled: {
		"RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled",
		"RequestThrottledException", "TooManyRequestsException", "SlowDown", "EC2ThrottledException", "BandwidthLimitExceeded",
	},
	Waiting: {
		CodeNoCapacity, "InsufficientHostCapacity", "InsufficientReservedInstanceCapacity",
		"InsufficientCapacity", "InsufficientVolumeCapacity", "InsufficientAddressCapacity", "InsufficientFreeAddressesInSubnet",
		"IncorrectState", "IncorrectInstanceState", "InvalidState", "VolumeInUse", "DependencyViolation", "InvalidGroup.InUse",
		"InvalidSnapshot.InUse", "InvalidAMIID.Unavailable", "ConcurrentTagAccess", "OperationNotPermitted", "PendingVerification",
		"PendingSnapshotLimitExceeded", "ConcurrentSnapshotLimitExceeded", "SnapshotCreationPerVolumeRateExceeded",
		CodeTokenMismatch, "ResourceNotReady", "IncorrectModificationState",
		"VolumeModificationRateExceeded", codeKeyRevoked,
	},
	Denied: {
		"UnauthorizedOperation", "AuthFailure", "AccessDenied", "AccessDeniedException", "InvalidClientTokenId", "ExpiredToken",
		"ExpiredTokenException", "RequestExpired", "SignatureDoesNotMatch", "UnrecognizedClientException", codeOptIn,
		"MissingAuthenticationToken", "IncompleteSignature", "InvalidAccessKeyId", "InvalidIdentityToken", "IDPRejectedClaim",
		"Blocked", "InvalidSecurity", "InvalidSignatureException", "RegionDisabledException",
	},
	// A spec that names what does not exist needs a person; nothing of ours is "gone".
	Invalid: {
		codeNoImage, "InvalidSubnetID.NotFound", "InvalidSubnetId.NotFound", "InvalidSubnet", "InvalidKeyPair.NotFound", "InvalidVpcID.NotFound",
		"ParameterNotFound", "ParameterVersionNotFound", "TagLimitExceeded", "ValidationError", "ValidationException",
		"VolumeTypeNotAvailableInZone", "EncryptedVolumesNotSupported", "BootForVolumeTypeUnsupported", "TagPolicyViolation",
		codeClientValue,
	},
	Quota: {
		"VcpuLimitExceeded", "InstanceLimitExceeded", "MaxSpotInstanceCountExceeded", "ResourceCountExceeded", "VolumeIOPSLimit",
	},
	// A token of a page that EC2 itself handed out: the next list begins with another.
	Transient: {"InvalidNextToken", "InvalidPaginationToken"},
})

func codesOf(byClass map[Class][]string) map[string]Class {
	out := map[string]Class{}
	for class, codes := range byClass {
		for _, code := range codes {
			out[code] = class
		}
	}
	return out
}

// noCredentials: the SDK's chain found none, or the Secret's are empty. The last link of the chain is the instance
// metadata service, so its failure is what "no credentials anywhere" looks like.
func noCredentials(err error) bool {
	var empty *credentials.StaticCredentialsEmptyError
	if errors.As(err, &empty) {
		return true
	}
	op := innermostOperation(err)
	return op != nil && op.ServiceID == "ec2imds"
}

func unreachable(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true
	}
	var canceled *smithy.CanceledError
	var send *smithyhttp.RequestSendError
	var garbled *smithy.DeserializationError
	var network net.Error
	return errors.As(err, &canceled) || errors.As(err, &send) || errors.As(err, &garbled) || errors.As(err, &network)
}

// innermostOperation is the call that failed: for a DescribeInstances that could not get credentials, the AssumeRole.
func innermostOperation(err error) *smithy.OperationError {
	var found *smithy.OperationError
	for {
		var op *smithy.OperationError
		if !errors.As(err, &op) {
			return found
		}
		found, err = op, op.Err
	}
}

// IsNotFound reports that EC2 does not know the thing, whatever it is.
func IsNotFound(err error) bool {
	if err == nil {
		return false
	}
	return Classify(err) == NotFound || strings.HasSuffix(Code(err), ".NotFound")
}

// IgnoreNotFound is err, or nil when err says that the thing does not exist.
func IgnoreNotFound(err error) error {
	if IsNotFound(err) {
		return nil
	}
	return err
}

// IsThrottled reports that AWS refused the call for coming too often.
func IsThrottled(err error) bool { return err != nil && Classify(err) == Throttled }

// IsWaiting reports that the same call may succeed later without anyone's doing.
func IsWaiting(err error) bool { return err != nil && Classify(err) == Waiting }

// IsDenied reports that credentials or permissions stand in the way.
func IsDenied(err error) bool { return err != nil && Classify(err) == Denied }

// IsUnreachable reports that no answer came, so that the call may or may not have taken effect.
func IsUnreachable(err error) bool { return err != nil && Classify(err) == Unreachable }

// StopError is the error that tells why an instance stopped by itself, from its StateReason ("Server.InsufficientInstanceCapacity:
// …"): its Code is the reason's without what stands before the dot.
func StopError(stateReason string) error {
	code, text, _ := strings.Cut(stateReason, ":")
	if _, after, found := strings.Cut(code, "."); found {
		code = after
	}
	return &smithy.GenericAPIError{Code: code, Message: strings.TrimSpace(text)}
}

// Mentions reports that EC2's text names a parameter. InvalidParameterValue says no more in its code, and the answer only
// chooses which field a message is filed under.
func Mentions(err error, parameter string) bool {
	var api smithy.APIError
	return errors.As(err, &api) &&
		strings.Contains(strings.ReplaceAll(strings.ToLower(api.ErrorMessage()), " ", ""), parameter)
}

// ZoneLacksType reports that EC2 does not launch the instance type in one zone, of those that it names. That may be for good, or as
// long as the zone is short of it.
func ZoneLacksType(err error) bool {
	return Code(err) == codeUnsupported && Mentions(err, "availabilityzone")
}

// TokenSpent reports that what a client token made is deleted, so that the token makes nothing any more.
func TokenSpent(err error) bool {
	return Code(err) == CodeTokenMismatch && Mentions(err, "alreadydeleted")
}

// LacksImage reports that EC2 does not know an image, or does not let the account use it.
func LacksImage(err error) bool { return Code(err) == codeNoImage }

// IsCapacity reports that a zone has none of the wanted instance or volume type left.
func IsCapacity(err error) bool { return strings.HasPrefix(Code(err), "Insufficient") }
