package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// credentialsFor is how long a user's credentials are used before their Secret is read again. It is read past the
// cache, because the operator may not list the Secrets of others.
const credentialsFor = time.Minute

// Keys of a Secret with AWS credentials.
const (
	keyAccessKeyID     = "accessKeyID"
	keySecretAccessKey = "secretAccessKey"
	keySessionToken    = "sessionToken"
)

// credentials are a user's AWS credentials together with the Secret that they were read from.
type credentials struct {
	secret string
	static ec2.StaticCredentials
}

// permit checks the spec against the administrator's policy. What is not allowed is never used: no role is assumed and
// nothing is created. Members that exist already keep their database running.
func (r *MySQLClusterReconciler) permit(ctx context.Context, s *scope) error {
	var cm corev1.ConfigMap
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Config.SystemNamespace, Name: v1alpha1.PolicyConfigMap}, &cm)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read the policy: %w", err)
	}
	rules, err := policy.Parse(cm.Data)
	if err != nil {
		return &problem{reason: v1alpha1.ReasonNotPermitted, after: afterPerson, cause: err,
			message: fmt.Sprintf("the administrator's policy (ConfigMap %s/%s) cannot be read: %v", r.Config.SystemNamespace, v1alpha1.PolicyConfigMap, err)}
	}
	for _, v := range rules.Check(s.cluster.Namespace, s.cluster.Spec) {
		s.violations = append(s.violations, topology.Finding{Reason: v1alpha1.ReasonNotPermitted, Message: v.Field + ": " + v.Message})
		s.accountRefused = s.accountRefused || v.Account
	}
	return nil
}

// connect finds the client of the cluster's AWS account. A cluster whose account may not be used goes on without EC2.
func (r *MySQLClusterReconciler) connect(ctx context.Context, s *scope) error {
	if s.accountRefused && s.deleting() && len(s.records.Members) == 0 && !s.recordsLost {
		s.plan.Gone = true // nothing was ever made for it
		return r.release(ctx, s)
	}
	if s.accountRefused && !s.deleting() {
		s.cloudProblem = &problem{reason: v1alpha1.ReasonNotPermitted, message: s.violations[0].Message, after: afterPerson}
		return nil
	}
	account := ec2.Account{Region: s.cluster.Spec.AWS.Region, RoleARN: s.cluster.Spec.AWS.RoleARN}
	if account.RoleARN != "" {
		// The external id keeps one tenant from naming the role that another tenant's trust policy opens to us.
		account.ExternalID = s.cluster.Namespace + "/" + s.cluster.Name
	}
	if ref := s.cluster.Spec.AWS.CredentialsSecretRef; ref != nil {
		if account.Static, s.cloudProblem = r.credentials(ctx, s, ref.Name); account.Static == nil {
			return nil
		}
	}
	var err error
	if s.cloud, err = r.Clouds.Cloud(ctx, account); err != nil {
		s.cloudProblem = cloudError(err)
	}
	return nil
}

// credentials reads a user's Secret. The Secret gets our finalizer: without it the EC2 resources of a deleted
// namespace could never be removed.
func (r *MySQLClusterReconciler) credentials(ctx context.Context, s *scope, name string) (*ec2.StaticCredentials, *problem) {
	n := s.notes
	if n.credentials.secret == name && r.Clock.Since(n.credentialsAt) < credentialsFor {
		return &n.credentials.static, nil
	}
	var secret corev1.Secret
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: name}, &secret)
	if apierrors.IsNotFound(err) {
		return nil, &problem{reason: v1alpha1.ReasonCredentialsMissing, after: afterWaiting,
			message: fmt.Sprintf("waiting for Secret %s with the keys %s and %s (spec.aws.credentialsSecretRef)", name, keyAccessKeyID, keySecretAccessKey)}
	}
	if err != nil {
		return nil, &problem{message: fmt.Sprintf("read Secret %s: %v", name, err), cause: err}
	}
	static := ec2.StaticCredentials{
		AccessKeyID: string(secret.Data[keyAccessKeyID]), SecretAccessKey: string(secret.Data[keySecretAccessKey]),
		SessionToken: string(secret.Data[keySessionToken]),
	}
	if static.AccessKeyID == "" || static.SecretAccessKey == "" {
		return nil, &problem{reason: v1alpha1.ReasonCredentialsMissing, after: afterWaiting,
			message: fmt.Sprintf("Secret %s lacks the keys %s and %s", name, keyAccessKeyID, keySecretAccessKey)}
	}
	if secret.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(&secret, v1alpha1.Finalizer) {
		before := secret.DeepCopy()
		controllerutil.AddFinalizer(&secret, v1alpha1.Finalizer)
		if err := r.Client.Patch(ctx, &secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return nil, &problem{message: fmt.Sprintf("hold Secret %s: %v", name, err), cause: err}
		}
	}
	n.credentials, n.credentialsAt = credentials{secret: name, static: static}, r.Clock.Now()
	return &n.credentials.static, nil
}
