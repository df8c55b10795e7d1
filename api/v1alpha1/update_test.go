package v1alpha1_test

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestUpdate creates a cluster as the first changes say and then changes it.
func TestUpdate(t *testing.T) {
	api := api(t)
	database := []change{set("database.name", "shop"), set("database.owner", "rw")}
	tarball := []change{set("aws.download.url", "http://mirror.example.com/mysql-9.7.1.tar.xz")}
	for i, r := range []struct {
		name   string
		before []change
		after  []change
		says   string
	}{
		{name: "more members", after: []change{set("replicas", int64(5))}},
		{name: "fewer members", after: []change{set("replicas", int64(1))}},
		{name: "a patch release", after: []change{set("version", "9.7.10")}},
		{name: "an earlier patch release", after: []change{set("version", "9.7.0")}, says: "must not go down from 9.7.1: MySQL cannot read the data of a newer version. Set 9.7.1 or a later one"},
		{name: "9 follows 10 by number, not by text", before: []change{set("version", "9.7.10")}, after: []change{set("version", "9.7.9")}, says: "must not go down from 9.7.10"},
		{name: "from one LTS to the next", before: []change{set("version", "8.4.7")}, after: []change{set("version", "9.7.0")}},
		{name: "back to the LTS before", after: []change{set("version", "8.4.20")}, says: "must not go down from 9.7.1"},
		{name: "another region", after: []change{set("aws.region", "eu-west-1")}, says: "aws.region cannot be changed: volumes stay in their region. Put us-east-1 back"},
		{name: "another type", after: []change{set("aws.instanceType", "r7g.xlarge")}},
		{name: "one more subnet", after: []change{set("aws.subnetIDs", []any{"subnet-0123456789abcdef0", "subnet-0123456789abcdef1", "subnet-0123456789abcdef2"})}},
		{name: "subnets in another order", after: []change{set("aws.subnetIDs", []any{"subnet-0123456789abcdef1", "subnet-0123456789abcdef0"})}},
		{name: "one subnet fewer", after: []change{set("aws.subnetIDs", []any{"subnet-0123456789abcdef0"})}, says: "subnets can be added, not removed"},
		{name: "a subnet replaced", after: []change{set("aws.subnetIDs", []any{"subnet-0123456789abcdef0", "subnet-0123456789abcdef9"})}, says: "subnets can be added, not removed"},
		{name: "a version without its tarball", before: tarball, after: []change{set("version", "9.7.10")}, says: "aws.download.url names the tarball of 9.7.1: set it, and sha256, to the tarball of 9.7.10"},
		{name: "a version with its tarball", before: tarball, after: []change{set("version", "9.7.10"), set("aws.download.url", "http://mirror.example.com/mysql-9.7.10.tar.xz")}},
		{name: "a version with a tarball that names none", before: []change{set("aws.download.url", "http://mirror.example.com/mysql.tar.xz")}, after: []change{set("version", "9.7.10")}},
		{name: "another type with the tarball of the version", before: tarball, after: []change{set("aws.instanceType", "r7g.xlarge")}},
		{name: "other clients", after: []change{set("aws.clientCIDRs", []any{"10.30.0.0/16"})}},
		{name: "no clients", after: []change{set("aws.clientCIDRs", nil)}, says: "nobody could reach the database"},
		{name: "a larger volume", after: []change{set("storage.size", "21Gi")}},
		{name: "a smaller volume", after: []change{set("storage.size", "19Gi")}, says: "storage.size cannot shrink: EBS cannot shrink a volume. Set 20Gi or more"},
		{name: "the same volume in other words", before: []change{set("storage.size", "1Ti")}, after: []change{set("storage.size", "1024Gi")}},
		{name: "back to the default size", before: []change{set("storage.size", "100Gi")}, after: []change{set("storage", nil)}, says: "storage.size cannot shrink"},
		{name: "another volume type", after: []change{set("storage.type", "io2"), set("storage.iops", int64(3000))}},
		{name: "encryption off", after: []change{set("storage.encrypted", false)}, says: "storage.encrypted cannot be changed on existing volumes"},
		{name: "encryption on", before: []change{set("storage.encrypted", false)}, after: []change{set("storage.encrypted", nil)}, says: "storage.encrypted cannot be changed on existing volumes"},
		{name: "a key", after: []change{set("storage.kmsKeyID", "alias/a")}, says: "storage.kmsKeyID cannot be changed on existing volumes"},
		{name: "another key", before: []change{set("storage.kmsKeyID", "alias/a")}, after: []change{set("storage.kmsKeyID", "alias/b")}, says: "storage.kmsKeyID cannot be changed"},
		{name: "no key", before: []change{set("storage.kmsKeyID", "alias/a")}, after: []change{set("storage.kmsKeyID", nil)}, says: "storage.kmsKeyID cannot be changed"},
		{name: "another deletion policy", after: []change{set("storage.deletionPolicy", "Retain")}},
		{name: "another durability", after: []change{set("replication.durability", "Async")}},
		{name: "a database", after: database},
		{name: "another database", before: database, after: []change{set("database.name", "shop2")}, says: "database.name cannot be changed: MySQL cannot rename a database"},
		{name: "another owner", before: database, after: []change{set("database.owner", "app")}, says: "database.owner cannot be changed"},
		{name: "the default owner for another", before: database, after: []change{set("database.owner", nil)}, says: "database.owner cannot be changed"},
		{name: "no database", before: database, after: []change{set("database", nil)}, says: "database cannot be taken out of the spec again"},
		{name: "protection off", after: []change{set("deletionProtection", false)}},
		{name: "an owned setting later", after: []change{set("mysqld", map[string]any{"read_only": "OFF"})}, says: "remove read_only: who may write"},
	} {
		t.Run(r.name, func(t *testing.T) {
			object := cluster(t, fmt.Sprintf("update-%d", i), r.before...)
			sent := object.DeepCopy()
			if err := api.Create(t.Context(), object); err != nil {
				t.Fatalf("create: %v", err)
			}
			t.Cleanup(func() {
				if err := api.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
					t.Error(err)
				}
			})
			apply(t, sent, r.after...)
			sent.SetResourceVersion(object.GetResourceVersion())
			judge(t, api.Update(t.Context(), sent, client.DryRunAll), r.says)
		})
	}
}

// TestSizeThatWasRefusedCanBeSetBack: the size goes back to what the volumes have, and no further; any size will do while there is none.
func TestSizeThatWasRefusedCanBeSetBack(t *testing.T) {
	api := api(t)
	object := cluster(t, "size-back", set("storage.size", "20Ti"))
	if err := api.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	for _, row := range []struct {
		volumes, size, says string
	}{
		{"", "20Gi", "storage.size cannot shrink: EBS cannot shrink a volume. Set 20Ti or more"},
		{"20Gi", "20Gi", ""},
		{"20Gi", "19Gi", "storage.size cannot shrink: EBS cannot shrink a volume. Set 20Gi or more"},
		{"20480Gi", "20Gi", "Set 20480Gi or more"},
		{"0Gi", "1Gi", ""},
	} {
		if row.volumes != "" {
			if err := unstructured.SetNestedField(object.Object, row.volumes, "status", "volumeSize"); err != nil {
				t.Fatal(err)
			}
			if err := api.Status().Update(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
		sent := object.DeepCopy()
		apply(t, sent, set("storage.size", row.size))
		judge(t, api.Update(t.Context(), sent, client.DryRunAll), row.says)
	}
}

// TestUpgradeCanBeCalledOff: the version goes back to what status.rollout names, to nothing else, and only while it is named
// there.
func TestUpgradeCanBeCalledOff(t *testing.T) {
	api := api(t)
	object := cluster(t, "call-off", set("version", "9.7.5"))
	if err := api.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	try := func(version, says string) {
		t.Helper()
		sent := object.DeepCopy()
		apply(t, sent, set("version", version))
		judge(t, api.Update(t.Context(), sent, client.DryRunAll), says)
	}
	try("9.7.4", "must not go down from 9.7.5: MySQL cannot read the data of a newer version. Set 9.7.5 or a later one; to go back, restore a backup into a new cluster")
	rollout := map[string]any{"done": int64(0), "total": int64(3), "previousVersion": "9.7.4"}
	if err := unstructured.SetNestedMap(object.Object, rollout, "status", "rollout"); err != nil {
		t.Fatal(err)
	}
	if err := api.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	try("9.7.4", "")
	try("9.7.6", "")
	try("9.7.3", "must not go down from 9.7.5: MySQL cannot read the data of a newer version. Set 9.7.5 or a later one; or 9.7.4, to call the upgrade off while the primary still runs that")
	unstructured.RemoveNestedField(object.Object, "status", "rollout")
	if err := api.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	try("9.7.4", "to go back, restore a backup into a new cluster")
}
