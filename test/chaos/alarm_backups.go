package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/cloud"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/iam"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/kube"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

// alarmBucket is where the cluster of the alarms is backed up.
func alarmBucket() *v1alpha1.BackupDestination {
	return &v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{
		Bucket: cloud.BackupBucket, Prefix: cloud.BackupPrefix, Endpoint: "http://" + cloud.EndpointAddress,
		CredentialsSecretRef: &v1alpha1.LocalSecretReference{Name: bucketSecret},
	}}
}

// Protect has the cluster backed up and verified by a cron expression, with an archive, and its members' metrics exported. It waits for the
// first backup that is verified.
func (w *World) Protect(ctx context.Context, cron v1alpha1.CronExpression) error {
	if _, err := w.store().HeadBucket(ctx, &s3.HeadBucketInput{Bucket: aws.String(cloud.BackupBucket)}); err != nil {
		if _, err := w.store().CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String(cloud.BackupBucket)}); err != nil {
			return err
		}
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: bucketSecret},
		StringData: map[string]string{"accessKeyID": iam.BackupKeyID, "secretAccessKey": "lab"}}
	if err := w.lab.Client.Create(ctx, secret); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	s := &Scene{World: w}
	err := s.edit(ctx, func(c *v1alpha1.MySQLCluster) {
		c.Spec.Monitoring = &v1alpha1.MonitoringSpec{}
		c.Spec.Backup = &v1alpha1.BackupSpec{
			Schedules: []v1alpha1.BackupSchedule{
				{Name: "dumps", Cron: cron, Retention: v1alpha1.RetentionSpec{Count: ptr.To(int32(3))}},
				{Name: "snapshots", Cron: cron, Method: v1alpha1.BackupMethodSnapshot, Retention: v1alpha1.RetentionSpec{Count: ptr.To(int32(2))}},
			},
			Destination: alarmBucket(), Image: kube.MySQLClientImage,
			Verification:  &v1alpha1.VerificationSpec{Cron: cron},
			BinlogArchive: &v1alpha1.BinlogArchiveSpec{Enabled: true},
		}
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, verifiedWithin)
	defer cancel()
	for {
		if b, err := w.newest(ctx, v1alpha1.BackupMethodDump, func(b *v1alpha1.MySQLBackup) bool { return b.Status.Verification != nil }); err == nil && b != nil {
			return nil
		}
		if err := pause(ctx, time.Second); err != nil {
			return fmt.Errorf("no backup was made and verified: %w", err)
		}
	}
}

// newest returns the newest completed backup of a method that fits, nil without any.
func (w *World) newest(ctx context.Context, method v1alpha1.BackupMethod, fits func(*v1alpha1.MySQLBackup) bool) (*v1alpha1.MySQLBackup, error) {
	var list v1alpha1.MySQLBackupList
	if err := w.lab.Client.List(ctx, &list, client.InNamespace(w.key.Namespace)); err != nil {
		return nil, err
	}
	var found *v1alpha1.MySQLBackup
	for i := range list.Items {
		b := &list.Items[i]
		if b.Spec.ClusterName != w.key.Name || b.Spec.Method != method || b.Status.Phase != v1alpha1.BackupCompleted || !fits(b) {
			continue
		}
		if found == nil || found.Status.CompletedAt.Before(b.Status.CompletedAt) {
			found = b
		}
	}
	return found, nil
}

func refuseBackups(ctx context.Context, s *Scene) error {
	return rules(proxy.Rule{Kind: proxy.Fail, Service: "s3", Code: "AccessDenied", Actions: []string{"PUT", "POST"}})(ctx, s)
}

func refuseReads(ctx context.Context, s *Scene) error {
	return rules(proxy.Rule{Kind: proxy.Fail, Service: "s3", Code: "AccessDenied", Actions: []string{"GET", "HEAD"}})(ctx, s)
}

// objects returns the keys below a path of the bucket, the newest last.
func (w *World) objects(ctx context.Context, path string) ([]string, error) {
	page, err := w.store().ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String(cloud.BackupBucket), Prefix: aws.String(cloud.BackupPrefix + "/" + path)})
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, object := range page.Contents {
		keys = append(keys, *object.Key)
	}
	return keys, nil
}

// anyDump fits every backup.
func anyDump(*v1alpha1.MySQLBackup) bool { return true }

func deleteSegment(ctx context.Context, s *Scene) error {
	c, err := s.cluster(ctx)
	if err != nil {
		return err
	}
	keys, err := s.objects(ctx, fmt.Sprintf("%s/%s/%s/archive", c.Namespace, c.Name, c.UID))
	if err != nil {
		return err
	}
	if len(keys) < 2 {
		return fmt.Errorf("the archive has no segments: %v", keys)
	}
	_, err = s.store().DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String(cloud.BackupBucket), Key: &keys[len(keys)/2]})
	return err
}

// damageDump empties what is in the newest dump. The next ones are suspended, so that this one stays the newest.
func damageDump(ctx context.Context, s *Scene) error {
	s.later(func(ctx context.Context) error {
		return s.edit(ctx, func(c *v1alpha1.MySQLCluster) { c.Spec.Backup.Schedules[0].Cron = EveryMinute })
	})
	if err := s.edit(ctx, func(c *v1alpha1.MySQLCluster) { c.Spec.Backup.Schedules[0].Cron = never }); err != nil {
		return err
	}
	if err := pause(ctx, short); err != nil {
		return err
	}
	b, err := s.newest(ctx, v1alpha1.BackupMethodDump, anyDump)
	if err != nil || b == nil {
		return errors.Join(errors.New("there is no dump"), err)
	}
	keys, err := s.objects(ctx, b.Status.Path)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if len(key) > len("manifest.json") && key[len(key)-len("manifest.json"):] == "manifest.json" {
			continue
		}
		if _, err := s.store().PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String(cloud.BackupBucket), Key: &key}); err != nil {
			return err
		}
	}
	return nil
}

// noRoom keeps pods from being placed.
func noRoom(ctx context.Context, s *Scene) error {
	var nodes corev1.NodeList
	if err := s.lab.Client.List(ctx, &nodes); err != nil {
		return err
	}
	for i := range nodes.Items {
		cordon := func(ctx context.Context, on bool) error {
			patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, on)
			return s.lab.Client.Patch(ctx, &nodes.Items[i], client.RawPatch(client.Merge.Type(), patch))
		}
		s.later(func(ctx context.Context) error { return cordon(ctx, false) })
		if err := cordon(ctx, true); err != nil {
			return err
		}
	}
	return nil
}

// deleteSnapshot deletes the newest backup in EC2, and has no other made until the fault is healed.
func deleteSnapshot(ctx context.Context, s *Scene) error {
	s.later(func(ctx context.Context) error {
		return s.edit(ctx, func(c *v1alpha1.MySQLCluster) { c.Spec.Backup.Schedules[1].Cron = EveryMinute })
	})
	if err := s.edit(ctx, func(c *v1alpha1.MySQLCluster) { c.Spec.Backup.Schedules[1].Cron = never }); err != nil {
		return err
	}
	if err := pause(ctx, short); err != nil {
		return err
	}
	b, err := s.newest(ctx, v1alpha1.BackupMethodSnapshot, anyDump)
	if err != nil || b == nil {
		return errors.Join(errors.New("there is no snapshot"), err)
	}
	_, err = s.aws().DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: &b.Status.SnapshotID})
	return err
}
