package controllers

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
)

// How long to wait after a problem, by who can mend it.
const (
	// afterWaiting is for what others are about to bring: a Secret, capacity, a subnet.
	afterWaiting = 15 * time.Second
	// afterRepair is for what the operator itself has just put right.
	afterRepair = 100 * time.Millisecond
	// afterProgress is for what the pass has just brought about: voters that are to be pointed at a new primary, a step that
	// the next one follows on.
	afterProgress = 50 * time.Millisecond
	// afterFailing is for what fails while a cluster has no primary.
	afterFailing = 250 * time.Millisecond
	// afterModification is for a volume that EC2 does not modify again so soon.
	afterModification = 10 * time.Minute
	// afterRefusal is for a pass that the API server of Kubernetes ended by refusing an object.
	afterRefusal = 15 * time.Second
	// afterPerson is for what a person must change. Watches usually tell sooner.
	afterPerson = 2 * time.Minute
)

// problem is an error that carries its policy: what a user is told, and when to try again.
type problem struct {
	// reason is one of the Reason constants of api/v1alpha1; message is stable from pass to pass.
	reason, message string
	// after is when to try again; 0 leaves it to the work queue's back-off.
	after time.Duration
	// pause is for how long at the most the action that met the problem is not tried again, however soon the next pass comes;
	// 0 for not at all. pauseFrom is for how long after the first time, each further one doubling it; 0 leaves that to fail.
	pause, pauseFrom time.Duration
	// aside is true for what holds no deletion up.
	aside bool
	cause error
}

// Error implements error.
func (p *problem) Error() string { return p.reason + ": " + p.message }

// Unwrap returns the cause, nil when the problem was found and not suffered.
func (p *problem) Unwrap() error { return p.cause }

// text is what a person is told; empty without a problem.
func (p *problem) text() string {
	if p == nil {
		return ""
	}
	return p.message
}

// quiet says whether the problem is nobody's business: it goes away by trying again.
func (p *problem) quiet() bool { return p.reason == "" }

// inTheWay says whether the problem is with one object in Kubernetes: the API server refuses it, or it is somebody else's.
func (p *problem) inTheWay() bool {
	return p.reason == v1alpha1.ReasonObjectRefused || p.reason == v1alpha1.ReasonForeignResource
}

// cloudError turns an error of the cloud plane into a problem.
func cloudError(err error) *problem {
	told := ec2.Explain(err)
	p := &problem{message: told.Message, cause: err, after: afterWaiting}
	if told.Field != "" {
		p.message = told.Field + ": " + told.Message
	}
	switch ec2.Classify(err) {
	case ec2.Throttled, ec2.Waiting, ec2.NotFound:
		switch ec2.Code(err) {
		case codeNoCapacity, codeNoVolumeCapacity, "InsufficientFreeAddressesInSubnet":
			p.reason = v1alpha1.ReasonInsufficientCapacity
		case "DependencyViolation", "OperationNotPermitted", "PendingVerification", "CustomerKeyHasBeenRevoked":
			p.reason = v1alpha1.ReasonWaitingForDependency // may take long, and a person can often help
		case "IncorrectModificationState", "VolumeModificationRateExceeded":
			p.reason, p.pause = v1alpha1.ReasonVolumeModificationLimited, afterModification
			p.message += "; EC2 takes four changes of a volume within 24 hours, and none while one is under way. It is tried again every ten minutes"
		default:
			if told.Field != "" && ec2.Classify(err) == ec2.NotFound {
				p.reason = told.Reason // what the spec names was deleted; nobody but a person brings it back
			}
		}
		p.after = 5 * time.Second
	case ec2.Unreachable:
		p.reason = v1alpha1.ReasonCloudSilent
	case ec2.Denied:
		p.reason, p.after = told.Reason, afterPerson
	case ec2.Quota:
		p.reason, p.after = v1alpha1.ReasonQuotaExceeded, afterPerson
	case ec2.Invalid:
		p.reason, p.after = told.Reason, afterPerson
	default:
		if p.after = 0; ec2.Refused(err) {
			p.reason, p.after = v1alpha1.ReasonWaitingForDependency, afterWaiting // it is for people to see what of
		}
	}
	return p
}

// readingError turns an error of reading EC2 into a problem. An answer that is none, such as an internal error, is as good
// as no answer.
func readingError(err error) *problem {
	p := cloudError(err)
	if ec2.Classify(err) == ec2.Transient {
		p.reason = v1alpha1.ReasonCloudSilent
	}
	return p
}

// dependency turns an error about something that the spec names into a problem: what EC2 does not know yet may still
// be on its way, so it is waited for, by name.
func dependency(field string, err error) *problem {
	p := cloudError(err)
	switch ec2.Classify(err) {
	case ec2.Invalid, ec2.NotFound, ec2.Waiting:
		p.reason, p.after = v1alpha1.ReasonWaitingForDependency, afterWaiting
		p.message = field + ": " + p.message
	case ec2.Transient, ec2.Throttled, ec2.Denied, ec2.Quota, ec2.Unreachable:
	}
	return p
}

// asProblem finds the problem in an error. Conflicts and cancellations are quiet: the next pass sees fresher objects.
func asProblem(err error) *problem {
	var p *problem
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p):
		return p
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), errors.Is(err, context.Canceled):
		return &problem{message: err.Error(), after: 200 * time.Millisecond, cause: err}
	case refusedObject(err):
		return &problem{reason: v1alpha1.ReasonObjectRefused, message: err.Error(), after: afterRefusal, cause: err}
	}
	return &problem{message: err.Error(), cause: err}
}

// refusedObject says whether the API server turned a request down for what it is: by RBAC, a quota, an admission webhook or
// policy, or because Kubernetes itself holds the object invalid. It answers 500 for a webhook that it does not reach, and also
// when it is itself in trouble, which passes. What is not there, what changed meanwhile, what is asked for too often and an
// operator that it does not know at the moment are none of that.
func refusedObject(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusInternalServerError:
		return strings.Contains(status.Status().Message, "failed calling webhook")
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusGone, http.StatusTooManyRequests:
		return false
	default:
		return code >= http.StatusBadRequest && code < http.StatusInternalServerError
	}
}
