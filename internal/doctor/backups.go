package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// bucketOf is the bucket of the backups, nil for none.
func bucketOf(c *v1alpha1.MySQLCluster) *v1alpha1.S3Destination {
	if c.Spec.Backup == nil || c.Spec.Backup.Destination == nil {
		return nil
	}
	return c.Spec.Backup.Destination.S3
}

// checkBackupIdentity: the service account of the backup pods names the role of the spec.
func checkBackupIdentity(ctx context.Context, p *patient) Finding {
	s3 := bucketOf(p.cluster)
	switch {
	case s3 == nil:
		return ok("no backups go to a bucket")
	case s3.CredentialsSecretRef != nil:
		return ok("the backup pods use the keys of Secret %s", s3.CredentialsSecretRef.Name)
	}
	name := resources.NamesOf(p.cluster.Name).BackupAccount
	var list corev1.ServiceAccountList
	err := p.doctor.Kubernetes.List(ctx, &list, client.InNamespace(p.cluster.Namespace), client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector(metav1.ObjectNameField, name)})
	switch {
	case apierrors.IsForbidden(err):
		return notChecked("permit list serviceaccounts", "service account %s cannot be read", name)
	case err != nil:
		return notChecked("make the API server reachable", "service account %s cannot be read: %v", name, err)
	case s3.RoleARN == "":
		return notChecked("associate a role with it by EKS Pod Identity, set roleARN for IRSA, or name a Secret with keys",
			"neither roleARN nor credentialsSecretRef is set, and what service account %s is associated with is not seen here", name)
	case len(list.Items) == 0:
		return notChecked("", "the operator makes service account %s when it first serves the cluster", name)
	}
	const annotation = "eks.amazonaws.com/role-arn"
	if have := list.Items[0].Annotations[annotation]; have != s3.RoleARN {
		return failed("set the annotation, and see who takes it off", "service account %s has the annotation %s=%q, but spec.backup.destination.s3.roleARN is %s", name, annotation, have, s3.RoleARN)
	}
	return ok("service account %s names %s", name, s3.RoleARN)
}

// bucketStore is the store of a bucket with the keys of a Secret; nil without a Secret, for only the backup pods have the identity then.
func (p *patient) bucketStore(ctx context.Context, s3 *v1alpha1.S3Destination) (*store.S3, error) {
	if s3.CredentialsSecretRef == nil {
		return nil, nil //nolint:nilnil // none is an answer
	}
	var secret corev1.Secret
	if err := p.doctor.Kubernetes.Get(ctx, client.ObjectKey{Namespace: p.cluster.Namespace, Name: s3.CredentialsSecretRef.Name}, &secret); err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", s3.CredentialsSecretRef.Name, err)
	}
	keys, err := p.doctor.Keys(&secret)
	if err != nil {
		return nil, fmt.Errorf("the Secret %s %w", s3.CredentialsSecretRef.Name, err)
	}
	return store.NewS3(ctx, store.S3Options{
		Bucket: s3.Bucket, Prefix: s3.Prefix, Region: p.bucketRegion(s3), Endpoint: s3.Endpoint, CABundle: s3.CABundle, KMSKeyID: s3.KMSKeyID,
		AccessKeyID: keys.AccessKeyID, SecretAccessKey: keys.SecretAccessKey, SessionToken: keys.SessionToken, Attempts: 2, MaxPause: probePause,
	})
}

func (p *patient) bucketRegion(s3 *v1alpha1.S3Destination) string {
	if s3.Region != "" {
		return s3.Region
	}
	return p.cluster.Spec.AWS.Region
}

// checkBucket: the bucket exists, and its keys read it. Without keys S3 still says whether it exists, and in which region.
func checkBucket(ctx context.Context, p *patient) Finding {
	s3 := bucketOf(p.cluster)
	if s3 == nil {
		return checkClaim(ctx, p)
	}
	bucket, err := p.bucketStore(ctx, s3)
	switch {
	case err != nil:
		return notChecked("correct secrets, see its finding", "%v", err)
	case bucket == nil:
		return p.findBucket(ctx, s3)
	}
	for _, err := range bucket.List(ctx, p.name()+"/") {
		if err != nil {
			return badBucket(err)
		}
		break
	}
	return ok("%s can be listed with the keys of the Secret; whether it can be written shows with --spend", bucket.URL(""))
}

func badBucket(err error) Finding {
	change := "correct spec.backup.destination.s3"
	switch {
	case errors.Is(err, store.ErrNoBucket):
		change = "create the bucket, or correct spec.backup.destination.s3.bucket and region"
	case errors.Is(err, store.ErrDenied):
		change = "permit what the policy of backups in docs/aws.md lists"
	case errors.Is(err, store.ErrOverwrites):
		change = "use a store that honours If-None-Match (docs/backup.md)"
	case errors.Is(err, store.ErrUnavailable):
		change = "see that pods reach the store, and that spec.backup.destination.s3.endpoint is right"
	}
	return failed(change, "%v", err)
}

// findBucket asks without credentials.
func (p *patient) findBucket(ctx context.Context, s3 *v1alpha1.S3Destination) Finding {
	region := p.bucketRegion(s3)
	domain := "amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		domain = "amazonaws.com.cn"
	}
	address := fmt.Sprintf("https://s3.%s.%s/%s", region, domain, s3.Bucket)
	if s3.Endpoint != "" {
		address = strings.TrimSuffix(s3.Endpoint, "/") + "/" + s3.Bucket
	}
	answer, err := p.ask(ctx, address, s3.CABundle)
	if err != nil {
		return warning("see that pods reach it", "%s cannot be reached from here: %v", address, err)
	}
	defer answer.Body.Close()
	if in := answer.Header.Get("X-Amz-Bucket-Region"); in != "" && in != region {
		return failed("set spec.backup.destination.s3.region to "+in, "the bucket %s is in %s, not in %s", s3.Bucket, in, region)
	}
	switch answer.StatusCode {
	case http.StatusNotFound:
		return failed("create the bucket, or correct spec.backup.destination.s3.bucket and region", "there is no bucket %s at %s", s3.Bucket, address)
	case http.StatusOK, http.StatusForbidden:
		return ok("the bucket %s exists; only the backup pods' identity can say what it may do there", s3.Bucket)
	}
	return warning("look at the store", "%s answers HTTP %d", address, answer.StatusCode)
}

// checkClaim: the claim of the backups exists.
func checkClaim(ctx context.Context, p *patient) Finding {
	b := p.cluster.Spec.Backup
	if b == nil || b.Destination == nil || b.Destination.PersistentVolumeClaim == nil {
		return warning("set spec.backup.destination (docs/backup.md)", "no dump goes anywhere: the cluster has no destination for backups")
	}
	name := b.Destination.PersistentVolumeClaim.ClaimName
	var claim corev1.PersistentVolumeClaim
	err := p.doctor.Kubernetes.Get(ctx, client.ObjectKey{Namespace: p.cluster.Namespace, Name: name}, &claim)
	switch {
	case apierrors.IsNotFound(err):
		return failed("create it, or correct spec.backup.destination.persistentVolumeClaim", "there is no PersistentVolumeClaim %s", name)
	case err != nil:
		return notChecked("permit get persistentvolumeclaims", "PersistentVolumeClaim %s cannot be read: %v", name, err)
	}
	return ok("PersistentVolumeClaim %s is %s", name, claim.Status.Phase)
}

// probeBucket writes an empty object, tries to create it twice, and deletes it.
func probeBucket(ctx context.Context, p *patient) Finding {
	s3 := bucketOf(p.cluster)
	if s3 == nil {
		return ok("no backups go to a bucket")
	}
	bucket, err := p.bucketStore(ctx, s3)
	switch {
	case err != nil:
		return notChecked("correct secrets, see its finding", "%v", err)
	case bucket == nil:
		return notChecked("make a MySQLBackup of the cluster", "only the backup pods have the identity that writes to the bucket %s", s3.Bucket)
	}
	if err := bucket.ProveExclusive(context.WithoutCancel(ctx), p.name()+"/"+probeOwner); err != nil {
		return badBucket(err)
	}
	return ok("%s can be written, and keeps objects that exist", bucket.URL(""))
}
