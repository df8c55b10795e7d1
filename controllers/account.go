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
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// access finds the way to the AWS account of a cluster, and asks whether the policy allows it.
type access struct {
	*Ports
	publisher *publisher
}

// credentialsFor is how long a user's credentials are used before their Secret is read again. It is read past the
// cache, because the operator may not list the Secrets of others.
const credentialsFor = time.Minute

// accountPatience is how long a pass over a cluster whose account is known waits to hear that it is still the same. It
// comes from memory but once in a while.
const accountPatience = time.Second

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
func (r *access) permit(ctx context.Context, s *pass) error {
	var cm corev1.ConfigMap
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Config.SystemNamespace, Name: v1alpha1.PolicyConfigMap}, &cm)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read the policy: %w", err)
	}
	rules, err := r.caches.readPolicy(cm.Data)
	if err != nil && !r.permitWithout(s, &rules, err) {
		return nil
	}
	s.access.policy = rules
	for _, v := range rules.Check(s.cluster.Namespace, s.cluster.Spec) {
		s.access.violations = append(s.access.violations, topology.Finding{Reason: v1alpha1.ReasonNotPermitted, Message: v.Field + ": " + v.Message})
		s.access.refused = s.access.refused || v.Account
	}
	return nil
}

// permitWithout tells that the policy cannot be read, and says whether there is one to go by until it can: the last that could
// be. Where this process has seen none nothing is made, and no account is lent to who has none yet. The machines of a cluster
// that was served before are looked after, see unlessServed.
func (r *access) permitWithout(s *pass, rules *policy.Policy, err error) bool {
	if credentialsSecret(s.cluster) != "" {
		return true // what it may use is not the policy's business
	}
	last, known := r.caches.lastPolicy()
	until := "Until then no instance and no volume is made"
	if known {
		until = "Until then what it said before holds"
	}
	told := topology.Finding{Reason: v1alpha1.ReasonNotPermitted, Message: fmt.Sprintf("the administrator's policy, key %s of ConfigMap %s/%s, cannot be read (%v); have the administrator correct it. %s",
		policy.Key, r.Config.SystemNamespace, v1alpha1.PolicyConfigMap, err, until)}
	if known {
		s.unmet, *rules = append(s.unmet, told), last
		return true
	}
	s.access.violations, s.access.refused, s.access.unread = append(s.access.violations, told), true, true
	return false
}

// connect finds the client of the cluster's AWS account. A cluster whose account may not, or cannot, be used goes on
// without EC2.
//
// That of one which goes and for which nothing was ever made is asked where it can be. Its records say so, and anybody in its namespace
// may have written them.
func (r *access) connect(ctx context.Context, s *pass) error {
	if s.neverBegun() && s.access.refused {
		return nil
	}
	err := r.reach(ctx, s)
	if s.neverBegun() && s.access.cloud == nil {
		s.access.problem = nil
	}
	return err
}

// reach finds the client, or the problem with the account.
func (r *access) reach(ctx context.Context, s *pass) error {
	if s.access.refused {
		refusal, err := r.unlessServed(ctx, s)
		if s.access.problem = refusal; refusal != nil || err != nil {
			return err
		}
	}
	account := ec2.Account{Region: s.cluster.Spec.AWS.Region, RoleARN: s.cluster.Spec.AWS.RoleARN}
	if account.RoleARN != "" {
		// The external id keeps one tenant from naming the role that another tenant's trust policy opens to us.
		account.ExternalID = s.cluster.Namespace + "/" + s.cluster.Name
	}
	if name := credentialsSecret(s.cluster); name != "" {
		if account.Static, s.access.problem = r.credentials(ctx, s, name); account.Static == nil {
			if released(s) && s.access.problem.Reason == v1alpha1.ReasonCredentialsMissing {
				return r.publisher.letAllGo(ctx, s)
			}
			return nil
		}
	}
	cloud, err := r.Clouds.Cloud(ctx, account)
	if err != nil {
		s.access.problem = engine.CloudError(err)
		return nil
	}
	if s.access.problem = r.recognise(ctx, s, cloud); s.access.problem == nil {
		s.access.cloud = cloud
	}
	return r.noteServed(ctx, s)
}

// neverBegun says that a cluster which is to go has nothing in EC2, by its records.
func (s *pass) neverBegun() bool { return s.deleting() && unbegun(s) }

// unbegun says that nothing was ever made for a cluster, by its records: the account is written down before the first thing is.
func unbegun(s *pass) bool {
	return !s.stored.Lost && s.records().Account == "" && len(s.records().Members) == 0
}

// recognise finds out to which AWS account the client leads, and refuses one in which the cluster is not: there all of it
// would seem to be gone, and would be made anew. Before anything is made the account must be known. Later STS may be
// silent: what EC2 shows of the cluster tells as well, see readInventory.
func (r *access) recognise(ctx context.Context, s *pass, cloud *ec2.Cloud) *engine.Problem {
	if s.records().Account != "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, accountPatience)
		defer cancel()
	}
	account, err := cloud.AccountID(ctx)
	switch {
	case err == nil && s.records().Account != "" && s.records().Account != account:
		return wrongAccount(s, account)
	case err == nil:
		s.access.account = account
	case s.records().Account == "" && len(s.records().Members) == 0 && !s.stored.Lost:
		return engine.ReadingError(err)
	default:
		s.access.accountProblem = engine.ReadingError(err)
	}
	return nil
}

// wrongAccount says which credentials lead to the wrong account, and what to change.
func wrongAccount(s *pass, account string) *engine.Problem {
	right := s.records().Account
	who, cure := "the operator's own AWS identity", fmt.Sprintf("name a role or credentials of account %s in spec.aws.roleARN or spec.aws.credentialsSecretRef, or give the operator its old identity back", right)
	if name := credentialsSecret(s.cluster); name != "" {
		who, cure = fmt.Sprintf("Secret %s (spec.aws.credentialsSecretRef)", name), fmt.Sprintf("put an access key of account %s into it", right)
	}
	if role := s.cluster.Spec.AWS.RoleARN; role != "" {
		who, cure = "spec.aws.roleARN", fmt.Sprintf("set it to a role of account %s", right)
	}
	return &engine.Problem{Reason: v1alpha1.ReasonWrongAccount, After: engine.AfterPerson, Message: fmt.Sprintf(
		"the cluster's resources are in AWS account %s, but %s leads to account %s: %s. Until then nothing is made, changed or deleted in either; the databases go on", right, who, account, cure)}
}

// credentialsSecret is the name of the user's Secret with AWS credentials, empty when the spec names none.
func credentialsSecret(c *v1alpha1.MySQLCluster) string {
	if ref := c.Spec.AWS.CredentialsSecretRef; ref != nil {
		return ref.Name
	}
	return ""
}

// credentials reads a user's Secret. One that is not held yet is not kept in memory: hold needs it as it is.
func (r *access) credentials(ctx context.Context, s *pass, name string) (*ec2.StaticCredentials, *engine.Problem) {
	n := s.cache
	if n.identity.credentials.secret == name && r.Clock.Since(n.identity.credentialsAt) < credentialsFor {
		return &n.identity.credentials.static, nil
	}
	n.identity.credentials = credentials{}
	var secret corev1.Secret
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: name}, &secret)
	if apierrors.IsNotFound(err) {
		return nil, &engine.Problem{Reason: v1alpha1.ReasonCredentialsMissing, After: engine.AfterWaiting,
			Message: fmt.Sprintf("waiting for Secret %s with the keys %s and %s (spec.aws.credentialsSecretRef)", name, keyAccessKeyID, keySecretAccessKey)}
	}
	if err != nil {
		return nil, asProblem(fmt.Errorf("read Secret %s (spec.aws.credentialsSecretRef): %w", name, err))
	}
	static := ec2.StaticCredentials{
		AccessKeyID: task.ValueOf(secret.Data[keyAccessKeyID]), SecretAccessKey: task.ValueOf(secret.Data[keySecretAccessKey]),
		SessionToken: task.ValueOf(secret.Data[keySessionToken]),
	}
	if static.AccessKeyID == "" || static.SecretAccessKey == "" {
		return nil, &engine.Problem{Reason: v1alpha1.ReasonCredentialsMissing, After: engine.AfterWaiting,
			Message: fmt.Sprintf("Secret %s lacks the keys %s and %s", name, keyAccessKeyID, keySecretAccessKey)}
	}
	if secret.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(&secret, v1alpha1.Finalizer) {
		s.access.unheld = &secret
		return &static, nil
	}
	n.identity.credentials, n.identity.credentialsAt = credentials{secret: name, static: static}, r.Clock.Now()
	return &n.identity.credentials.static, nil
}
