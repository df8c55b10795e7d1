package backups

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
)

// BucketKeysFor is how long a Secret is believed to hold what the backup pods need. The kubelet, too, sees a change only a minute
// later.
const BucketKeysFor = time.Minute

// keysMissing says what the Secret that a destination names lacks: Kubernetes does not start a pod without it, and says so in the
// pod's events only. It returns "" when pods can start.
func keysMissing(ctx context.Context, reader client.Reader, namespace string, d *v1alpha1.BackupDestination) (string, error) {
	if d == nil || d.S3 == nil || d.S3.CredentialsSecretRef == nil {
		return "", nil
	}
	name := d.S3.CredentialsSecretRef.Name
	var secret corev1.Secret
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &secret)
	if apierrors.IsNotFound(err) {
		return fmt.Sprintf("there is no Secret %s, without which no pod can start that reaches the bucket", name), nil
	}
	if err != nil {
		return "", fmt.Errorf("read Secret %s: %w", name, err)
	}
	for _, key := range []string{task.KeyAccessKeyID, task.KeySecretAccessKey} {
		if task.ValueOf(secret.Data[key]) == "" {
			return fmt.Sprintf("Secret %s has no key %s, without which no pod can reach the bucket", name, key), nil
		}
	}
	return "", nil
}

// LookAtBucketKeys notes what the Secret of the backups' destination lacks.
func (r *Backups) LookAtBucketKeys(ctx context.Context, s *pass.Pass) error {
	n := s.Cache
	if n.Backups.BucketKeys != "" || r.Clock.Since(n.Backups.BucketKeysAt) >= BucketKeysFor {
		missing, err := keysMissing(ctx, r.Reader, s.Cluster.Namespace, s.Cluster.Spec.Backup.Destination)
		if err != nil {
			return err
		}
		n.Backups.BucketKeys, n.Backups.BucketKeysAt = missing, r.Clock.Now()
	}
	s.Backup.CredentialsMissing = n.Backups.BucketKeys
	return nil
}
