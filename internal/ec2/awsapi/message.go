package awsapi

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"

	"github.com/aws/smithy-go"
)

// policyPage is where a reader finds the whole IAM policy.
const policyPage = "docs/aws.md"

var (
	// encodedReason is the sealed explanation that EC2 appends to UnauthorizedOperation; it differs at every call.
	encodedReason = regexp.MustCompile(`(?s)\s*Encoded authorization failure message:.*$`)

	// refusedAction finds the action in "User: … is not authorized to perform: ec2:RunInstances on resource: …".
	refusedAction = regexp.MustCompile(`perform: ([a-z0-9-]+:[A-Za-z]+)`)

	// requestID is any form in which services put a request's id into their text.
	requestID = regexp.MustCompile(`(?i)[\s,;(]*request[ _-]?id:?\s*[0-9a-f-]{8,}\)?`)
)

// Message is err for a condition or an event: with the actions that our code wrapped around it, in stable words, without
// request ids or anything else that differs from call to call.
func Message(err error) string {
	if err == nil {
		return ""
	}
	whole, text := err.Error(), ""
	var own *Error
	var op *smithy.OperationError
	switch {
	case errors.As(err, &own):
		text = own.Text
		whole = strings.Replace(whole, own.Error(), text, 1)
	case errors.As(err, &op):
		text = operationText(innermostOperation(err), err)
		whole = strings.Replace(whole, op.Error(), text, 1)
	}
	return requestID.ReplaceAllString(whole, "")
}

// operationText says what AWS answered to a call, or that it did not.
func operationText(op *smithy.OperationError, err error) string {
	if noCredentials(err) {
		return "no AWS credentials: the Secret is empty, and neither IRSA, Pod Identity nor an instance role gives any (see " + policyPage + ")"
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		var name *net.DNSError
		if errors.As(err, &name) && name.IsNotFound {
			return fmt.Sprintf("no answer from AWS to %s: there is no host %s; check spec.aws.region, and DNS in the operator's pod",
				Action(op.ServiceID, op.OperationName), name.Name)
		}
		if unreachable(err) {
			return fmt.Sprintf("no answer from AWS to %s", Action(op.ServiceID, op.OperationName))
		}
		return fmt.Sprintf("%s failed: %v", Action(op.ServiceID, op.OperationName), op.Err)
	}
	said := strings.TrimSpace(encodedReason.ReplaceAllString(api.ErrorMessage(), ""))
	if classOfAnswer(api) != Denied || sharesNot(api) {
		return fmt.Sprintf("%s: %s: %s", op.OperationName, api.ErrorCode(), said)
	}
	if !LacksPermission(api.ErrorCode()) {
		return credentialsText(api.ErrorCode())
	}
	return fmt.Sprintf("the operator's AWS identity is not allowed to call %s (%s: %s); add it to the policy as %s shows",
		RefusedAction(err), api.ErrorCode(), said, policyPage)
}

// credentialsText says what is wrong with the credentials. AWS's own words are left out: they may hold the access key's id, and
// what was signed with it.
func credentialsText(code string) string {
	what := "the access key is wrong, deleted or disabled"
	family, _, _ := strings.Cut(code, ".")
	switch family {
	case "ExpiredToken", "ExpiredTokenException":
		what = "they have expired"
	case "RequestExpired", "InvalidSecurity":
		what = "the clock of the operator's node is minutes off"
	case "SignatureDoesNotMatch", "InvalidSignatureException", "IncompleteSignature":
		what = "the secret key is not that of the access key, or the clock of the operator's node is wrong"
	case "OptInRequired", "RegionDisabledException":
		what = "the account has not enabled this region or service"
	case "Blocked":
		what = "AWS has blocked the account"
	case "InvalidIdentityToken", "IDPRejectedClaim":
		what = "the token of the operator's service account is refused"
	}
	return fmt.Sprintf("AWS does not accept the credentials (%s): %s", code, what)
}

// sharesNot says whether AWS knows the credentials and their owner may not use an image or a snapshot that is another
// account's. It has the code of credentials that are not known.
func sharesNot(api smithy.APIError) bool {
	return api.ErrorCode() == "AuthFailure" && strings.HasPrefix(api.ErrorMessage(), "Not authorized for")
}

// LacksPermission tells a refused action from refused credentials.
func LacksPermission(code string) bool {
	switch code {
	case "UnauthorizedOperation", "AccessDenied", "AccessDeniedException":
		return true
	}
	return false
}

// RefusedAction is the IAM action that is missing, for an error of class Denied: the one that AWS names (a RunInstances
// may fail for iam:PassRole), else the one that belongs to the call.
func RefusedAction(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		if m := refusedAction.FindStringSubmatch(api.ErrorMessage()); m != nil {
			return m[1]
		}
	}
	op := innermostOperation(err)
	if op == nil {
		return ""
	}
	return Action(op.ServiceID, op.OperationName)
}

// Action is the IAM action that allows a call. For every call in API, SSMAPI and STSAPI it is the service's prefix and
// the call's own name.
func Action(serviceID, operation string) string {
	return strings.ToLower(strings.ReplaceAll(serviceID, " ", "")) + ":" + operation
}
