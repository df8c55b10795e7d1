package pass

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
)

// AsProblem finds the problem in an error, also in one of the API server of Kubernetes.
func AsProblem(err error) *engine.Problem { return engine.AsProblem(OfKubernetes(err)) }

// OfKubernetes gives an error of the API server its meaning: a conflict, or an object that it refuses. Others stay as they are.
func OfKubernetes(err error) error {
	var p *engine.Problem
	switch {
	case err == nil || errors.As(err, &p):
		return err
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%w: %w", engine.ErrConflict, err)
	case refusedObject(err):
		return &engine.Problem{Reason: v1alpha1.ReasonObjectRefused, Message: err.Error(), After: engine.AfterRefusal, Cause: err}
	}
	return err
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
