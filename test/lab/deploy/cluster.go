package deploy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// sample is the cluster that a reader of the README applies.
const sample = "config/samples/mysql_v1alpha1_mysqlcluster.yaml"

// SmallSettings are mysqld variables that let three members and the rest of the lab share a small machine.
// They change how much memory is set aside, nothing of what is replicated or how durable it is.
func SmallSettings() map[string]string {
	return map[string]string{
		"innodb_buffer_pool_size":                                  "64M",
		"innodb_redo_log_capacity":                                 "32M",
		"innodb_log_buffer_size":                                   "1M",
		"table_open_cache":                                         "200",
		"table_definition_cache":                                   "400",
		"max_connections":                                          "60",
		"temptable_max_ram":                                        "2M",
		"performance_schema_digests_size":                          "100",
		"performance_schema_error_size":                            "0",
		"performance_schema_max_program_instances":                 "0",
		"performance_schema_events_waits_history_long_size":        "0",
		"performance_schema_events_stages_history_long_size":       "0",
		"performance_schema_events_statements_history_long_size":   "0",
		"performance_schema_events_transactions_history_long_size": "0",
	}
}

// Sample returns the sample cluster of the repository with what the lab has in place of what a user would fill in:
// region, image, subnets, MySQL version and small memory settings.
func (l *Lab) Sample() (*v1alpha1.MySQLCluster, error) {
	data, err := os.ReadFile(filepath.Join(l.Root, sample))
	if err != nil {
		return nil, fmt.Errorf("read the sample: %w", err)
	}
	cluster := &v1alpha1.MySQLCluster{}
	if err := yaml.UnmarshalStrict(data, cluster); err != nil {
		return nil, fmt.Errorf("read the sample %s: %w", sample, err)
	}
	if cluster.Namespace == "" {
		cluster.Namespace = metav1.NamespaceDefault
	}
	l.Localise(cluster)
	return cluster, nil
}

// Localise puts what the lab has into a cluster's spec.
func (l *Lab) Localise(cluster *v1alpha1.MySQLCluster) {
	spec := &cluster.Spec
	spec.Version = l.Cloud.MySQLVersion
	spec.AWS.Region = l.Cloud.Region
	spec.AWS.ImageID, spec.AWS.ImageSSMParameter = l.Cloud.ImageID, ""
	spec.AWS.SubnetIDs = l.Cloud.SubnetIDs
	spec.AWS.SecurityGroupIDs, spec.AWS.ClientSecurityGroupIDs = nil, nil
	spec.AWS.ClientCIDRs = []string{l.Cloud.ClientCIDR}
	spec.AWS.IAMInstanceProfile, spec.AWS.KeyName, spec.AWS.RoleARN = "", "", ""
	spec.AWS.CredentialsSecretRef, spec.AWS.Download = nil, nil
	spec.MySQLD = SmallSettings()
}

// Apply writes a cluster, and makes its namespace first when that is missing.
func (l *Lab) Apply(ctx context.Context, cluster *v1alpha1.MySQLCluster) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster.Namespace}}
	if err := l.Client.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make namespace %s: %w", cluster.Namespace, err)
	}
	cluster.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MySQLCluster"))
	manifest, err := yaml.Marshal(cluster)
	if err != nil {
		return fmt.Errorf("write the manifest of %s: %w", cluster.Name, err)
	}
	if _, err := l.Kubectl(ctx, string(manifest), "apply", "--server-side", "-f", "-"); err != nil {
		return fmt.Errorf("apply cluster %s: %w", cluster.Name, err)
	}
	return nil
}

// WaitReady follows a cluster until its condition Ready is true, and returns it as it then was. Every state that it
// sees on the way goes to observe (nil: nobody looks), which may end the wait with an error.
func (l *Lab) WaitReady(ctx context.Context, key client.ObjectKey, timeout time.Duration,
	observe func(*v1alpha1.MySQLCluster) error) (*v1alpha1.MySQLCluster, error) {
	return l.WaitFor(ctx, key, timeout, func(cluster *v1alpha1.MySQLCluster) (bool, error) {
		if observe != nil {
			if err := observe(cluster); err != nil {
				return false, err
			}
		}
		return IsReady(cluster), nil
	})
}

// WaitFor reads a cluster until done says so, and returns it as it then was. An error of done ends the wait.
func (l *Lab) WaitFor(ctx context.Context, key client.ObjectKey, timeout time.Duration,
	done func(*v1alpha1.MySQLCluster) (bool, error)) (*v1alpha1.MySQLCluster, error) {
	cluster := &v1alpha1.MySQLCluster{}
	var unread error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, func(ctx context.Context) (bool, error) {
		unread = l.Client.Get(ctx, key, cluster)
		if unread != nil {
			return false, unlessItPasses(unread)
		}
		return done(cluster)
	})
	if err != nil {
		return cluster, fmt.Errorf("wait for cluster %s in phase %q: %w", key, cluster.Status.Phase, errors.Join(err, unread))
	}
	return cluster, nil
}

// unlessItPasses drops an error that is no answer to the question: a busy API server, or its etcd, may give none in time, and
// whoever asks again may get one.
func unlessItPasses(err error) error {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || apierrors.IsInternalError(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) {
		return nil
	}
	return err
}

// Read reads a cluster, again and again while the API server gives no answer, within a time.
func (l *Lab) Read(ctx context.Context, key client.ObjectKey, timeout time.Duration) (*v1alpha1.MySQLCluster, error) {
	return l.WaitFor(ctx, key, timeout, func(*v1alpha1.MySQLCluster) (bool, error) { return true, nil })
}

// IsReady says whether the status speaks of the present spec and says Ready.
func IsReady(cluster *v1alpha1.MySQLCluster) bool {
	ready := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == cluster.Generation
}

// Delete lifts a cluster's protection, deletes it, and returns when its finalizer is gone.
func (l *Lab) Delete(ctx context.Context, key client.ObjectKey, timeout time.Duration) error {
	cluster := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	unprotect := client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"deletionProtection":false}}`))
	if err := l.Client.Patch(ctx, cluster, unprotect); err != nil {
		return client.IgnoreNotFound(err)
	}
	// An operator that was just killed has no webhook for a moment, and without it nothing is deleted.
	var refused error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, func(ctx context.Context) (bool, error) {
		refused = client.IgnoreNotFound(l.Client.Delete(ctx, cluster))
		return refused == nil, unlessItPasses(refused)
	})
	if err != nil {
		return fmt.Errorf("delete cluster %s: %w", key, errors.Join(err, refused))
	}
	err = wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, func(ctx context.Context) (bool, error) {
		err := l.Client.Get(ctx, key, cluster)
		return apierrors.IsNotFound(err), unlessItPasses(client.IgnoreNotFound(err))
	})
	if err != nil {
		return fmt.Errorf("wait until cluster %s is gone: %w", key, err)
	}
	return nil
}
