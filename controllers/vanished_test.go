package controllers

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/test/kstatus"
)

// backupTags are the tags by which the operator knows the snapshot of a backup.
func backupTags(b *v1alpha1.MySQLBackup) []types.Tag {
	return append(purposeTag(b), types.Tag{Key: aws.String(v1alpha1.TagNamespace), Value: aws.String(b.Namespace)},
		types.Tag{Key: aws.String(v1alpha1.TagClusterUID), Value: aws.String(b.Status.ClusterUID)})
}

// purposeTag is the one of them that names the backup.
func purposeTag(b *v1alpha1.MySQLBackup) []types.Tag {
	return []types.Tag{{Key: aws.String(awsapi.TagPurpose), Value: aws.String(pass.PurposeOf(b))}}
}

// lookUntil has the operator look, a minute apart, until Ready of a backup has a status and a reason.
func (g *gallery) lookUntil(name, want string, change func(*pass.Pass)) *v1alpha1.MySQLBackup {
	g.t.Helper()
	got := ""
	for range 30 {
		g.wait(time.Minute)
		g.look(change)
		b := g.backup(name)
		(&statuses{t: g.t}).see(b)
		if c := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionReady); c != nil {
			got = string(c.Status) + "/" + c.Reason
		}
		if got == want {
			return b
		}
	}
	g.t.Fatalf("%s is %s, not %s", name, got, want)
	return nil
}

// TestABackupWhoseSnapshotIsGoneSaysSo, and is Ready again once a person has restored the tags. While EC2 does not answer, it stays as it is.
func TestABackupWhoseSnapshotIsGoneSaysSo(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	g.take("kept", "")
	b := g.until("kept", v1alpha1.BackupCompleted)
	id := b.Status.SnapshotID
	_, err := g.account.api.DeleteTags(t.Context(), &awsec2.DeleteTagsInput{Resources: []string{id}, Tags: purposeTag(b)})
	must(t, err)

	b = g.lookUntil("kept", "False/BackupVanished", nil)
	is, err := kstatus.Of(b)
	if must(t, err); is != status.FailedStatus || b.Status.Phase != v1alpha1.BackupCompleted || b.Status.VanishedAt == nil || b.Good() {
		t.Errorf("it is %s: %+v", is, b.Status)
	}
	c := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionReady)
	if !strings.Contains(c.Message, id) || !strings.Contains(c.Message, "restore its tags") {
		t.Errorf("it says: %s", c.Message)
	}
	since := b.Status.VanishedAt.Time

	_, err = g.account.api.CreateTags(t.Context(), &awsec2.CreateTagsInput{Resources: []string{id}, Tags: purposeTag(b)})
	must(t, err)
	b = g.lookUntil("kept", "False/BackupVanished", func(s *pass.Pass) { s.Observed.CloudReachable = false })
	if b.Status.VanishedAt == nil || !b.Status.VanishedAt.Time.Equal(since) {
		t.Errorf("nobody looked, and it vanished at %s, before at %s", b.Status.VanishedAt, since)
	}
	b = g.lookUntil("kept", "True/Completed", nil)
	is, err = kstatus.Of(b)
	if must(t, err); is != status.CurrentStatus || b.Status.VanishedAt != nil || !b.Good() {
		t.Errorf("it is %s: %+v", is, b.Status)
	}

	_, err = g.account.api.DeleteSnapshot(t.Context(), &awsec2.DeleteSnapshotInput{SnapshotId: aws.String(id)})
	must(t, err)
	g.lookUntil("kept", "False/BackupVanished", nil)
}

// TestABackupWhoseSnapshotLostOneTagSaysSo, whichever of those by which a restore finds it.
func TestABackupWhoseSnapshotLostOneTagSaysSo(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	g.take("kept", "")
	b := g.until("kept", v1alpha1.BackupCompleted)
	resources := []string{b.Status.SnapshotID}
	for _, tag := range backupTags(b) {
		_, err := g.account.api.DeleteTags(t.Context(), &awsec2.DeleteTagsInput{Resources: resources, Tags: []types.Tag{tag}})
		must(t, err)
		g.lookUntil("kept", "False/BackupVanished", nil)
		_, err = g.account.api.CreateTags(t.Context(), &awsec2.CreateTagsInput{Resources: resources, Tags: []types.Tag{tag}})
		must(t, err)
		g.lookUntil("kept", "True/Completed", nil)
	}
}

// TestARestoreOfABackupWhoseSnapshotIsGone is refused at once, and begins once a person has restored the tags: what the status of a backup says
// whose cluster is gone may be old.
func TestARestoreOfABackupWhoseSnapshotIsGone(t *testing.T) {
	t.Parallel()
	var vanished *v1alpha1.MySQLBackup
	e := newEstate(t, nil, func(e *estate, c *v1alpha1.MySQLCluster) {
		backupName(e, c, func(b *v1alpha1.MySQLBackup) {
			now := metav1.Now()
			b.Status.VanishedAt, vanished = &now, b
		})
		_, err := e.account.api.DeleteTags(t.Context(), &awsec2.DeleteTagsInput{Resources: []string{e.snapshot}, Tags: purposeTag(vanished)})
		must(t, err)
	})
	o := e.newOperator(nil)
	e.drive(o, patience, e.conditionHas(v1alpha1.ConditionRecovered, "False/RecoveryFailed", "it was deleted, lost its tags, or is elsewhere"))
	_, err := e.account.api.CreateTags(t.Context(), &awsec2.CreateTagsInput{Resources: []string{e.snapshot}, Tags: purposeTag(vanished)})
	must(t, err)
	e.drive(o, patience, func() bool { return len(e.inherited()) == 1 })
}
