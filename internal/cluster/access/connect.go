package access

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"

	corev1 "k8s.io/api/core/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/release"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// credentialsFor is how long a user's credentials are used before their Secret is read again. It is read past the
// cache, because the operator may not list the Secrets of others.
const credentialsFor = time.Minute

// accountPatience is how long a pass over a cluster whose account is known waits to hear that it is still the same. It
// comes from memory but once in a while.
const accountPatience = time.Second

// Permit checks the spec against the administrator's policy. What is not allowed is never used: no role is assumed and
// nothing is created. Members that exist already keep their database running.
func (r *Access) Permit(ctx context.Context, s *pass.Pass) error {
	var cm corev1.ConfigMap
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Config.SystemNamespace, Name: v1alpha1.PolicyConfigMap}, &cm)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read the policy: %w", err)
	}
	rules, err := r.Caches.ReadPolicy(cm.Data)
	if err != nil && !r.permitWithout(s, &rules, err) {
		return nil
	}
	s.Access.Policy = rules
	for _, v := range rules.Check(s.Cluster.Namespace, s.Cluster.Spec) {
		s.Access.Violations = append(s.Access.Violations, topology.Finding{Reason: v1alpha1.ReasonNotPermitted, Message: v.Field + ": " + v.Message})
		s.Access.Refused = s.Access.Refused || v.Account
	}
	return nil
}

// permitWithout tells that the policy cannot be read, and says whether there is one to go by until it can: the last that could
// be. Where this process has seen none nothing is made, and no account is lent to who has none yet. The instances of a cluster
// that was served before are looked after, see UnlessServed.
func (r *Access) permitWithout(s *pass.Pass, rules *policy.Policy, err error) bool {
	if pass.CredentialsSecret(s.Cluster) != "" {
		return true // what it may use is not the policy's business
	}
	last, known := r.Caches.LastPolicy()
	until := "Until then no instance and no volume is made"
	if known {
		until = "Until then what it said before holds"
	}
	told := topology.Finding{Reason: v1alpha1.ReasonNotPermitted, Message: fmt.Sprintf("the administrator's policy, ConfigMap %s/%s, cannot be read (%v); have the administrator correct it. %s",
		r.Config.SystemNamespace, v1alpha1.PolicyConfigMap, err, until)}
	if known {
		s.Unmet, *rules = append(s.Unmet, told), last
		return true
	}
	s.Access.Violations, s.Access.Refused, s.Access.Unread = append(s.Access.Violations, told), true, true
	return false
}

// Connect finds the client of the cluster's AWS account. A cluster whose account may not, or cannot, be used goes on
// without EC2.
//
// That of one which goes and for which nothing was ever made is asked where it can be. Its records say so, and anybody in its namespace
// may have written them.
func (r *Access) Connect(ctx context.Context, s *pass.Pass) error {
	if s.NeverBegun() && s.Access.Refused {
		return nil
	}
	err := r.reach(ctx, s)
	if s.NeverBegun() && s.Access.Cloud == nil {
		s.Access.Problem = nil
	}
	return err
}

// reach finds the client, or the problem with the account.
func (r *Access) reach(ctx context.Context, s *pass.Pass) error {
	if s.Access.Refused {
		refusal, err := r.UnlessServed(ctx, s)
		if s.Access.Problem = refusal; refusal != nil || err != nil {
			return err
		}
	}
	account := AccountOf(s.Cluster)
	if name := pass.CredentialsSecret(s.Cluster); name != "" {
		if account.Static, s.Access.Problem = r.credentials(ctx, s, name); account.Static == nil {
			if release.Released(s) && s.Access.Problem.Reason == v1alpha1.ReasonCredentialsMissing {
				return r.Releaser.RemoveFinalizers(ctx, s)
			}
			return nil
		}
	}
	cloud, err := r.Clouds.Cloud(ctx, account)
	if err != nil {
		s.Access.Problem = engine.CloudError(err)
		return nil
	}
	if s.Access.Problem = r.recognise(ctx, s, cloud); s.Access.Problem == nil {
		s.Access.Cloud = cloud
	}
	return r.recordServed(ctx, s)
}

// AccountOf returns the account of a cluster, without the keys of a Secret.
func AccountOf(c *v1alpha1.MySQLCluster) awsapi.Account {
	account := awsapi.Account{Region: c.Spec.AWS.Region, RoleARN: c.Spec.AWS.RoleARN}
	if account.RoleARN != "" {
		// The external id keeps one tenant from naming the role that another tenant's trust policy opens to us.
		account.ExternalID = c.Namespace + "/" + c.Name
	}
	return account
}

// KeysIn reads a Secret. An error is a *task.KeyError.
func KeysIn(secret *corev1.Secret) (awsapi.StaticCredentials, error) {
	keys, err := task.ReadKeys(secret.Data)
	return awsapi.StaticCredentials(keys), err
}

// recognise finds out to which AWS account the client leads, and refuses one in which the cluster is not: there all of it
// would seem to be gone, and would be made anew. Before anything is made the account must be known. Later STS may be
// silent: what EC2 shows of the cluster tells as well, see readInventory.
func (r *Access) recognise(ctx context.Context, s *pass.Pass, cloud *ec2.Cloud) *engine.Problem {
	if s.Records().Account != "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, accountPatience)
		defer cancel()
	}
	account, err := cloud.Inventory.AccountID(ctx)
	switch {
	case err == nil && s.Records().Account != "" && s.Records().Account != account:
		return wrongAccount(s, account)
	case err == nil:
		s.Access.Account = account
	case s.Records().Account == "" && len(s.Records().Members) == 0 && !s.Stored.Lost:
		return engine.ReadingError(err)
	default:
		s.Access.AccountProblem = engine.ReadingError(err)
	}
	return nil
}

// wrongAccount says which credentials lead to the wrong account, and what to change.
func wrongAccount(s *pass.Pass, account string) *engine.Problem {
	right := s.Records().Account
	who, cure := "the operator's own AWS identity", fmt.Sprintf("name a role or credentials of account %s in spec.aws.roleARN or spec.aws.credentialsSecretRef, or give the operator its old identity back", right)
	if name := pass.CredentialsSecret(s.Cluster); name != "" {
		who, cure = fmt.Sprintf("Secret %s (spec.aws.credentialsSecretRef)", name), fmt.Sprintf("put an access key of account %s into it", right)
	}
	if role := s.Cluster.Spec.AWS.RoleARN; role != "" {
		who, cure = "spec.aws.roleARN", fmt.Sprintf("set it to a role of account %s", right)
	}
	return &engine.Problem{Reason: v1alpha1.ReasonWrongAccount, After: engine.AfterPerson, Message: fmt.Sprintf(
		"the cluster's resources are in AWS account %s, but %s leads to account %s: %s. Until then nothing is made, changed or deleted in either; the databases go on", right, who, account, cure)}
}

// credentials reads a user's Secret. One that is not held yet is not kept in memory: hold needs it as it is.
func (r *Access) credentials(ctx context.Context, s *pass.Pass, name string) (*awsapi.StaticCredentials, *engine.Problem) {
	n := s.Cache
	if n.Identity.Credentials.Secret == name && r.Clock.Since(n.Identity.CredentialsAt) < credentialsFor {
		return &n.Identity.Credentials.Static, nil
	}
	n.Identity.Credentials = pass.Credentials{}
	var secret corev1.Secret
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.Cluster.Namespace, Name: name}, &secret)
	if apierrors.IsNotFound(err) {
		message := fmt.Sprintf("waiting for Secret %s with the keys %s and %s (spec.aws.credentialsSecretRef)", name, task.KeyAccessKeyID, task.KeySecretAccessKey)
		if s.Deleting() {
			message += fmt.Sprintf(": nobody else can see what the cluster still has in EC2. Create it again and the deletion goes on; "+
				"if that is impossible, annotation %s=true ends it within minutes, and leaves there what is left", v1alpha1.AnnotationAbandonCloudResources)
		}
		return nil, &engine.Problem{Reason: v1alpha1.ReasonCredentialsMissing, After: engine.AfterWaiting, Message: message}
	}
	if err != nil {
		return nil, pass.AsProblem(fmt.Errorf("read Secret %s (spec.aws.credentialsSecretRef): %w", name, err))
	}
	static, err := KeysIn(&secret)
	if broken := new(task.KeyError); errors.As(err, &broken) {
		return nil, &engine.Problem{Reason: broken.Reason(), After: engine.AfterWaiting, Message: fmt.Sprintf("Secret %s %v", name, broken)}
	}
	if secret.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(&secret, v1alpha1.Finalizer) {
		s.Access.Unheld = &secret
		return &static, nil
	}
	n.Identity.Credentials, n.Identity.CredentialsAt = pass.Credentials{Secret: name, Static: static}, r.Clock.Now()
	return &n.Identity.Credentials.Static, nil
}
