package engine

import (
	"context"
	"errors"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// How long to wait after a problem, by who can mend it.
const (
	// AfterWaiting is for what others are about to bring: a Secret, capacity, a subnet.
	AfterWaiting = 15 * time.Second
	// AfterRepair is for what the operator itself has just put right.
	AfterRepair = 100 * time.Millisecond
	// AfterProgress is for what the pass has just brought about: voters that are to be pointed at a new primary, a step that
	// the next one follows on.
	AfterProgress = 50 * time.Millisecond
	// AfterFailing is for what fails while a cluster has no primary.
	AfterFailing = 250 * time.Millisecond
	// AfterModification is for a volume that EC2 does not modify again so soon.
	AfterModification = 10 * time.Minute
	// AfterRefusal is for a pass that the API server of Kubernetes ended by refusing an object.
	AfterRefusal = 15 * time.Second
	// afterConflict is for what somebody else changed meanwhile: the next pass sees fresher objects.
	afterConflict = 200 * time.Millisecond
	// AfterPerson is for what a person must change. Watches usually tell sooner.
	AfterPerson = 2 * time.Minute
)

// ErrConflict: what was to be written is of another version by now.
var ErrConflict = errors.New("somebody else changed it meanwhile")

// Problem is an error that carries its policy: what a user is told, and when to try again.
type Problem struct {
	// Reason is one of the Reason constants of api/v1alpha1; message is stable from pass to pass.
	Reason, Message string
	// After is when to try again; 0 leaves it to the work queue's back-off.
	After time.Duration
	// Pause is for how long at the most the action that met the problem is not tried again, however soon the next pass comes;
	// 0 for not at all. pauseFrom is for how long after the first time, each further one doubling it; 0 leaves that to fail.
	Pause, PauseFrom time.Duration
	// Aside is true for what nothing waits for: no deletion, and no next pass.
	Aside bool
	Cause error
}

func (p *Problem) Error() string { return p.Reason + ": " + p.Message }

// Unwrap returns the cause, nil when the problem was found and not suffered.
func (p *Problem) Unwrap() error { return p.Cause }

// Text is what a person is told; empty without a problem.
func (p *Problem) Text() string {
	if p == nil {
		return ""
	}
	return p.Message
}

// Quiet says whether the problem is nobody's business: it goes away by trying again.
func (p *Problem) Quiet() bool { return p.Reason == "" }

// InTheWay says whether the problem is with one object in Kubernetes: the API server refuses it, or it is somebody else's.
func (p *Problem) InTheWay() bool {
	return p.Reason == v1alpha1.ReasonObjectRefused || p.Reason == v1alpha1.ReasonForeignResource
}

// CloudError turns an error of the cloud plane into a problem.
func CloudError(err error) *Problem {
	told := awsapi.Explain(err)
	p := &Problem{Message: told.Message, Cause: err, After: AfterWaiting}
	if told.Field != "" {
		p.Message = told.Field + ": " + told.Message
	}
	switch awsapi.Classify(err) {
	case awsapi.Throttled, awsapi.Waiting, awsapi.NotFound:
		switch awsapi.Code(err) {
		case codeNoCapacity, codeNoVolumeCapacity, codeNoAddress:
			p.Reason = v1alpha1.ReasonInsufficientCapacity
		case "DependencyViolation", "OperationNotPermitted", "PendingVerification", "CustomerKeyHasBeenRevoked":
			p.Reason = v1alpha1.ReasonWaitingForDependency // may take long, and a person can often help
		case "IncorrectModificationState", "VolumeModificationRateExceeded":
			p.Reason, p.Pause = v1alpha1.ReasonVolumeModificationLimited, AfterModification
			p.Message += "; EC2 takes four changes of a volume within 24 hours, and none while one is under way. It is tried again every ten minutes"
		default:
			if told.Field != "" && awsapi.Classify(err) == awsapi.NotFound {
				p.Reason = told.Reason // what the spec names was deleted; nobody but a person brings it back
			}
		}
		p.After = 5 * time.Second
	case awsapi.Unreachable:
		p.Reason = v1alpha1.ReasonCloudSilent
	case awsapi.Denied:
		p.Reason, p.After = told.Reason, AfterPerson
	case awsapi.Quota:
		p.Reason, p.After = v1alpha1.ReasonQuotaExceeded, AfterPerson
	case awsapi.Invalid:
		p.Reason, p.After = told.Reason, AfterPerson
	default:
		if p.After = 0; awsapi.Refused(err) {
			p.Reason, p.After = v1alpha1.ReasonWaitingForDependency, AfterWaiting // it is for people to see what of
		}
	}
	return p
}

// ReadingError turns an error of reading EC2 into a problem. An answer that is none, such as an internal error, is as good
// as no answer.
func ReadingError(err error) *Problem {
	p := CloudError(err)
	if awsapi.Classify(err) == awsapi.Transient {
		p.Reason = v1alpha1.ReasonCloudSilent
	}
	return p
}

// DependencyError turns an error about something that the spec names into a problem: what EC2 does not know yet may still
// be on its way, so it is waited for, by name.
func DependencyError(field string, err error) *Problem {
	p := CloudError(err)
	switch awsapi.Classify(err) {
	case awsapi.Invalid, awsapi.NotFound, awsapi.Waiting:
		p.Reason, p.After = v1alpha1.ReasonWaitingForDependency, AfterWaiting
		p.Message = field + ": " + p.Message
	case awsapi.Transient, awsapi.Throttled, awsapi.Denied, awsapi.Quota, awsapi.Unreachable:
	}
	return p
}

// AsProblem finds the problem in an error. Conflicts and cancellations are quiet: the next pass sees fresher objects.
func AsProblem(err error) *Problem {
	var p *Problem
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p):
		return p
	case errors.Is(err, ErrConflict), errors.Is(err, context.Canceled):
		return &Problem{Message: err.Error(), After: afterConflict, Cause: err}
	}
	return &Problem{Message: err.Error(), Cause: err}
}
