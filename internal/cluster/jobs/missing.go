package jobs

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
)

// Missing is what a destination names and is not there or not whole: Kubernetes does not start a pod without it, and says so in the
// pod's events only. It is nil when pods can start.
func Missing(ctx context.Context, reader client.Reader, namespace string, d *v1alpha1.BackupDestination) (*engine.Problem, error) {
	switch {
	case d != nil && d.PersistentVolumeClaim != nil:
		return missingClaim(ctx, reader, client.ObjectKey{Namespace: namespace, Name: d.PersistentVolumeClaim.ClaimName})
	case d != nil && d.S3 != nil && d.S3.CredentialsSecretRef != nil:
		return missingKeys(ctx, reader, client.ObjectKey{Namespace: namespace, Name: d.S3.CredentialsSecretRef.Name})
	}
	return nil, nil
}

func missingClaim(ctx context.Context, reader client.Reader, key client.ObjectKey) (*engine.Problem, error) {
	err := reader.Get(ctx, key, &corev1.PersistentVolumeClaim{})
	if apierrors.IsNotFound(err) {
		return &engine.Problem{Reason: v1alpha1.ReasonWaitingForDependency, After: engine.AfterWaiting,
			Message: fmt.Sprintf("there is no PersistentVolumeClaim %s, without which no pod can start that reaches the backups", key.Name)}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read PersistentVolumeClaim %s: %w", key.Name, err)
	}
	return nil, nil
}

func missingKeys(ctx context.Context, reader client.Reader, key client.ObjectKey) (*engine.Problem, error) {
	problem := func(reason, format string, args ...any) *engine.Problem {
		return &engine.Problem{Reason: reason, Message: fmt.Sprintf(format, args...), After: engine.AfterWaiting}
	}
	var secret corev1.Secret
	err := reader.Get(ctx, key, &secret)
	if apierrors.IsNotFound(err) {
		return problem(v1alpha1.ReasonCredentialsMissing, "there is no Secret %s, without which no pod can start that reaches the bucket", key.Name), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", key.Name, err)
	}
	_, err = task.ReadKeys(secret.Data)
	if broken := new(task.KeyError); errors.As(err, &broken) {
		return problem(broken.Reason(), "Secret %s %v", key.Name, broken), nil
	}
	return nil, nil
}

// NotStarted says that no pod of a Job ran, and where to look for why.
func NotStarted(job string) string {
	return fmt.Sprintf("The pod of Job %s did not run within %s. %s", job, StartPatience, WhereToLook(job))
}

// WhereToLook says how to find out what keeps the pod of a Job from running: the operator reads no pods.
func WhereToLook(job string) string {
	return "What keeps it, such as an image that cannot be pulled, is in its events: kubectl describe pods --selector job-name=" + job
}
