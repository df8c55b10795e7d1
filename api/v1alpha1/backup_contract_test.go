package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

const (
	saysCron = "must be five fields of numbers as in crontab(5)"
	saysZone = "spec.backup.schedules[0].timeZone"

	saysReserved = "no general purpose bucket can have such a name, S3 reserves them"
)

// reservedBuckets are names with a prefix or suffix that S3 reserves.
var reservedBuckets = []string{"xn--backups", "sthree-backups", "sthree-configurator", "sthree-configurator-b", "amzn-s3-demo-backups", "backups-s3alias", "backups--ol-s3", "backups--euw1-az1--x-s3", "backups--table-s3", "backups.mrap"}

// schedule makes the only schedule of a backup to a bucket.
func schedule(fields ...any) change {
	s := map[string]any{"name": "daily", "cron": "30 3 * * *"}
	for i := 0; i < len(fields); i += 2 {
		s[fields[i].(string)] = fields[i+1]
	}
	return set("backup", map[string]any{"schedules": []any{s}, "destination": map[string]any{"s3": map[string]any{"bucket": "my-backups"}}})
}

// archive makes an archive of binary logs in a bucket.
func archive(fields ...any) change {
	a := map[string]any{}
	for i := 0; i < len(fields); i += 2 {
		a[fields[i].(string)] = fields[i+1]
	}
	return set("backup", map[string]any{"destination": map[string]any{"s3": map[string]any{"bucket": "my-backups"}}, "binlogArchive": a})
}

// bucket makes the destination of backups.
func bucket(fields ...any) change {
	s := map[string]any{"bucket": "my-backups"}
	for i := 0; i < len(fields); i += 2 {
		s[fields[i].(string)] = fields[i+1]
	}
	return set("backup", map[string]any{"destination": map[string]any{"s3": s}})
}

// verification makes a destination, and when its newest dump is verified.
func verification(fields ...any) change {
	v := map[string]any{}
	for i := 0; i < len(fields); i += 2 {
		v[fields[i].(string)] = fields[i+1]
	}
	return set("backup", map[string]any{"destination": map[string]any{"s3": map[string]any{"bucket": "my-backups"}}, "verification": v})
}

func backupRows() []row {
	rows := []row{
		fine("a daily dump", schedule()),
		fine("a schedule with everything", schedule("timeZone", "Europe/Berlin", "method", "Dump", "retention", map[string]any{"count": int64(3), "maxAge": "720h"})),
		fine("snapshots need no destination", set("backup", map[string]any{"schedules": []any{map[string]any{"name": "hourly", "cron": "0 * * * *", "method": "Snapshot"}}})),
		wrong("a dump to nowhere", "backup.destination is required for schedules with method Dump", set("backup", map[string]any{"schedules": []any{map[string]any{"name": "daily", "cron": "30 3 * * *"}}})),
		wrong("two destinations", "set either s3 or persistentVolumeClaim", set("backup", map[string]any{"destination": map[string]any{
			"s3": map[string]any{"bucket": "my-backups"}, "persistentVolumeClaim": map[string]any{"claimName": "backups"}}})),
		wrong("no destination in the destination", "set either s3 or persistentVolumeClaim", set("backup", map[string]any{"destination": map[string]any{}})),
		fine("a claim", set("backup", map[string]any{"destination": map[string]any{"persistentVolumeClaim": map[string]any{"claimName": "backups"}}})),
		wrong("an archive on a claim", "backup.binlogArchive needs backup.destination.s3", set("backup", map[string]any{
			"destination": map[string]any{"persistentVolumeClaim": map[string]any{"claimName": "backups"}}, "binlogArchive": map[string]any{"enabled": true}})),
		wrong("an archive by default on a claim", "backup.binlogArchive needs backup.destination.s3", set("backup", map[string]any{
			"destination": map[string]any{"persistentVolumeClaim": map[string]any{"claimName": "backups"}}, "binlogArchive": map[string]any{}})),
		wrong("an archive to nowhere", "backup.binlogArchive needs backup.destination.s3", set("backup", map[string]any{"binlogArchive": map[string]any{}})),
		fine("no archive to nowhere", set("backup", map[string]any{"binlogArchive": map[string]any{"enabled": false}})),
		fine("an archive", archive()),
		fine("no archive in a bucket", archive("enabled", false)),
		fine("an archive with everything", archive("storage", "20Gi", "storageClassName", "gp3")),
		fine("an archive of one and a half", archive("storage", "1.5Gi")),
		wrong("a small archive", "must be 1Gi to 16Ti", archive("storage", "512Mi")),
		wrong("a huge archive", "must be 1Gi to 16Ti", archive("storage", "17Ti")),
		wrong("an archive of words", "storage", archive("storage", "much")),
		wrong("an archive on a command", saysPattern, archive("storageClassName", "$(id)")),
		wrong("two schedules of one name", "Duplicate value", set("backup", map[string]any{"schedules": []any{
			map[string]any{"name": "a", "cron": "0 1 * * *", "method": "Snapshot"}, map[string]any{"name": "a", "cron": "0 2 * * *", "method": "Snapshot"}}})),
		fine("two schedules at one minute", set("backup", map[string]any{"schedules": []any{
			map[string]any{"name": "a", "cron": "0 1 * * *", "method": "Snapshot"}, map[string]any{"name": "b", "cron": "0 1 * * *", "method": "Snapshot"}}})),
		wrong("a long name", "Too long: may not be more than 10 bytes", schedule("name", "every-second-day")),
		wrong("an own name", "is a name that the operator uses itself", schedule("name", "verify")),
		wrong("a command as name", saysPattern, schedule("name", "$(id)")),
		wrong("a name that another cluster's could be", saysPattern, schedule("name", "b-x")),
		wrong("retention of nothing", "set retention.count, retention.maxAge or both", schedule("retention", map[string]any{})),
		wrong("no backup kept", "should be greater than or equal to 1", schedule("retention", map[string]any{"count": int64(0)})),
		wrong("kept for a minute", "must be a duration from 1h to 87600h", schedule("retention", map[string]any{"maxAge": "1m"})),
		wrong("an unknown method", `Unsupported value: "Xtra"`, schedule("method", "Xtra")),
		wrong("verification of nothing", "backup.verification needs backup.destination", set("backup", map[string]any{"verification": map[string]any{"cron": "0 5 * * *"}})),
		fine("a verification with everything", verification("cron", "0 5 * * 0", "timeZone", "Africa/Nairobi", "maxAge", "170h", "storage", "100Gi", "storageClassName", "gp3")),
		wrong("a verification at no time", "spec.backup.verification.cron: Required value", verification()),
		wrong("a verification of a second's age", "must be a duration from 1m to 8760h", verification("cron", "0 5 * * *", "maxAge", "1s")),
		fine("a verification on one and a half", verification("cron", "0 5 * * *", "storage", "1.5Ti")),
		wrong("a verification on a floppy", "must be 1Gi to 64Ti", verification("cron", "0 5 * * *", "storage", "1440Ki")),
		wrong("a short stall", "must be a duration from 1m to 24h", set("backup", map[string]any{"stallTimeout": "1s"})),
		wrong("both ways to log in", "s3.roleARN and s3.credentialsSecretRef exclude each other", bucket("roleARN", "arn:aws:iam::111122223333:role/b", "credentialsSecretRef", map[string]any{"name": "s"})),
		fine("a bucket with everything", bucket("prefix", "team/mysql!_.*'()=+@:,-", "region", "eu-west-1", "endpoint", "http://minio.store:9000", "kmsKeyID", "alias/b", "roleARN", "arn:aws:iam::111122223333:role/b")),
		wrong("credentials elsewhere", saysPattern, bucket("credentialsSecretRef", map[string]any{"name": "../kube-system/s"})),
		wrong("a command as image", saysPattern, set("backup", map[string]any{"image": "mysql;id"})),
		wrong("an option as image", saysPattern, set("backup", map[string]any{"image": "--privileged"})),
	}
	for _, cron := range []string{"* * * * *", "*/5 * * * *", "0 0 1 1 0", "59 23 31 12 6", "0,15,30,45 8-18 * * 1-5", "0-59/2 */3 1-15,20 1,7 0,6", "05 03 01 01 0"} {
		rows = append(rows, fine("cron "+cron, schedule("cron", cron)))
	}
	for _, cron := range []string{"60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 *", "* * * * 7", "* * * *", "* * * * * *", "@daily", "TZ=UTC 0 3 * * *", "*/0 * * * *",
		"a * * * *", "* * * JAN *", "0  3 * * *", " 0 3 * * *", "0 3 * * * ", "0 3 * * *\n", "$(id) * * * *", "-1 * * * *", "0 3 * * ?"} {
		rows = append(rows, wrong(fmt.Sprintf("cron %q", cron), "spec.backup.schedules[0].cron", schedule("cron", cron)))
	}
	for _, cron := range []string{"5-1 0 * * *", "0 23-5 * * *", "0 0 28-3 * *", "0 0 1 11-2 *", "0 0 * * 6-0", "0,7,9-10,8-2/3 0 * * *", "0 0 * * 1-5,05-04"} {
		rows = append(rows, wrong("cron "+cron, "has a range that ends before it begins", schedule("cron", cron)))
	}
	rows = append(rows, wrong("words for fields", saysCron, schedule("cron", "every day at three")))
	for _, zone := range []string{"Europe/Berlin", "Africa/Nairobi", "Etc/UTC", "UTC", "America/Argentina/Buenos_Aires", "Etc/GMT+3"} {
		rows = append(rows, fine("zone "+zone, schedule("timeZone", zone)))
	}
	for _, zone := range []string{"Europe/Atlantis", "Local", "+03:00", "../etc/passwd", "Europe/Berlin\n", "$(id)", "X", strings.Repeat("A", 60)} {
		rows = append(rows, wrong(fmt.Sprintf("zone %q", zone), saysZone, schedule("timeZone", zone)))
	}
	// What S3's naming rules allow, and what they do not (user guide, "General purpose bucket naming rules").
	for _, name := range []string{"abc", "0-0", "a.b", "a--b", "3.14", "1.2.3.4.5", "10.0.0.1a", "b-10.0.0.1", "my.own-backups.2026", "0." + strings.Repeat("z", 59) + ".9"} {
		rows = append(rows, fine("bucket "+name, bucket("bucket", name)))
	}
	for _, name := range []string{"My-Backups", "", "b", "ab", "a..b", "...", "a.-b", "a-.b", "-ab", "ab-", ".ab", "ab.", "a_b", "10.0.0.1", "255.255.255.255", "999.0.0.1", "s3://bucket", "arn:aws:s3:::bucket", "bucket/key",
		"bucket:80", "b@c", "$(id)", "b;id", "b|b", "b&b", "b?b", "b#b", "b%2fb", "b'b", "b\"b", "b`b", "b\\b", "b b", " my-backups", "my-backups\n", "my\tbackups", "b\x00b", "büro", "b\u200bb", "ｂｂｂ", strings.Repeat("b", 64)} {
		rows = append(rows, wrong(fmt.Sprintf("bucket %q", name), "spec.backup.destination.s3.bucket", bucket("bucket", name)))
	}
	// What S3 reserves, and what only looks like that.
	for _, name := range []string{"sthree", "amzn-s3-demo", "xn-backups", "my-xn--backups", "my-sthree-backups", "my-amzn-s3-demo-backups", "s3alias", "my-s3alias-backups", "my-ol-s3", "my--ol-s3.b", "my-x-s3", "my-table-s3", "mrap", "my-mrap",
		"my.mrap.b", "my-backups-111122223333-eu-west-1-an"} {
		rows = append(rows, fine("bucket "+name, bucket("bucket", name)))
	}
	for _, name := range reservedBuckets {
		rows = append(rows, wrong("reserved bucket "+name, saysReserved, bucket("bucket", name)))
	}
	for _, prefix := range []string{"!", "_", "a.b", "...", "*", "'", "()", "=", "+", "@", ":", ",", "-", "a/!/b", "A", strings.Repeat("p", 400)} {
		rows = append(rows, fine(fmt.Sprintf("prefix %.20q", prefix), bucket("prefix", prefix)))
	}
	for _, prefix := range []string{"/a", "a/", "a//b", "a/../b", ".", "..", "a b", "a\nb", "$(id)", "a?b", "a#b", "a&b", "a%2fb", "é", strings.Repeat("p", 401)} {
		rows = append(rows, wrong(fmt.Sprintf("prefix %.20q", prefix), "spec.backup.destination.s3.prefix", bucket("prefix", prefix)))
	}
	const keyID = "1234abcd-12ab-34cd-56ef-1234567890ab"
	for _, key := range []string{keyID, "mrk-1234abcd12ab34cd56ef1234567890ab", "alias/b", "alias/aws/s3", "alias/Team_A/backups-1", "arn:aws:kms:eu-west-1:111122223333:key/" + keyID,
		"arn:aws:kms:eu-west-1:111122223333:alias/b", "arn:aws-us-gov:kms:us-gov-west-1:111122223333:key/mrk-1234abcd12ab34cd56ef1234567890ab", "arn:aws-cn:kms:cn-north-1:111122223333:alias/b"} {
		rows = append(rows, fine("key "+key, bucket("kmsKeyID", key)))
	}
	for _, key := range []string{"b", "alias/", "alias/a b", "alias/a\n", "key/" + keyID, keyID + "\n", " " + keyID, "arn:aws:kms:eu-west-1:1111:key/" + keyID, "arn:aws:s3:::b", "arn:aws:iam::111122223333:role/b", "$(id)", "alias/ä"} {
		rows = append(rows, wrong(fmt.Sprintf("key %q", key), "spec.backup.destination.s3.kmsKeyID", bucket("kmsKeyID", key)))
	}
	for _, endpoint := range []string{"minio:9000", "ftp://a.b", "https://a.b/path", "https://user:pw@a.b", "http://a.b;id", "http://[::1]:80"} {
		rows = append(rows, wrong("endpoint "+endpoint, "spec.backup.destination.s3.endpoint", bucket("endpoint", endpoint)))
	}
	const authority = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
	const field = "spec.backup.destination.s3"
	rows = append(rows,
		fine("a store with a certificate of its own authority", bucket("endpoint", "https://minio.store:9000", "caBundle", authority+authority)),
		wrong("an authority without an endpoint", field, bucket("caBundle", authority)),
		wrong("an authority for plain HTTP", field, bucket("endpoint", "http://minio.store:9000", "caBundle", authority)),
		wrong("a file for an authority", field+".caBundle", bucket("endpoint", "https://minio.store:9000", "caBundle", "/etc/ssl/ca.pem")),
		wrong("a key for an authority", field+".caBundle", bucket("endpoint", "https://minio.store:9000", "caBundle", authority+"-----BEGIN PRIVATE KEY-----\n")),
		wrong("an endless authority", field+".caBundle", bucket("endpoint", "https://minio.store:9000", "caBundle", authority+strings.Repeat("x", 65536))),
	)
	return append(rows, recoveryRows()...)
}

func recoveryRows() []row {
	recovery := func(fields ...any) change {
		r := map[string]any{}
		for i := 0; i < len(fields); i += 2 {
			r[fields[i].(string)] = fields[i+1]
		}
		return set("bootstrap", map[string]any{"recovery": r})
	}
	store := func(path string) map[string]any {
		return map[string]any{"destination": map[string]any{"s3": map[string]any{"bucket": "my-backups"}}, "path": path}
	}
	const one, gtid = "set exactly one of backupName, objectStore, snapshotID and volumeID", "3e11fa47-71ca-11e1-9e33-c80aa9429562:23"
	moment := map[string]any{"time": "2026-01-02T03:04:05Z"}
	rows := []row{
		fine("from a backup", recovery("backupName", "orders-daily-29384756")),
		fine("from a cluster's folder", recovery("objectStore", store("shop/orders/7d1c3e4f-aaaa-bbbb-cccc-0123456789ab"))),
		fine("from a backup's folder", recovery("objectStore", store("shop/orders/7d1c3e4f-aaaa-bbbb-cccc-0123456789ab/backups/20260102T030405Z-orders-daily"))),
		fine("to a moment", recovery("backupName", "b", "pointInTime", map[string]any{"time": "2026-01-02T03:04:05.678901Z"})),
		fine("to a whole second", recovery("backupName", "b", "pointInTime", map[string]any{"time": "2026-01-02T03:04:05Z"})),
		fine("to a moment elsewhere", recovery("objectStore", store("shop/orders/uid"), "pointInTime", map[string]any{"time": "2026-01-02T03:04:05.6+05:30"})),
		fine("to a transaction", recovery("backupName", "b", "pointInTime", map[string]any{"gtid": gtid})),
		fine("to a tagged transaction", recovery("backupName", "b", "pointInTime", map[string]any{"gtid": "3E11FA47-71ca-11e1-9e33-c80aa9429562:Tag_1:7"})),
		wrong("to a moment and a transaction", "set either pointInTime.time or pointInTime.gtid", recovery("backupName", "b", "pointInTime", map[string]any{"gtid": gtid, "time": "2026-01-02T03:04:05Z"})),
		wrong("to no point", "set either pointInTime.time or pointInTime.gtid", recovery("backupName", "b", "pointInTime", map[string]any{})),
		wrong("to a range of transactions", saysPattern, recovery("backupName", "b", "pointInTime", map[string]any{"gtid": gtid + "-25"})),
		wrong("to a set of transactions", saysPattern, recovery("backupName", "b", "pointInTime", map[string]any{"gtid": gtid + "," + gtid})),
		wrong("to transaction zero", saysPattern, recovery("backupName", "b", "pointInTime", map[string]any{"gtid": "3e11fa47-71ca-11e1-9e33-c80aa9429562:0"})),
		wrong("to no such moment", "spec.bootstrap.recovery.pointInTime.time", recovery("backupName", "b", "pointInTime", map[string]any{"time": "yesterday"})),
		wrong("to a moment without a zone", "spec.bootstrap.recovery.pointInTime.time", recovery("backupName", "b", "pointInTime", map[string]any{"time": "2026-01-02T03:04:05"})),
		wrong("to a moment in no zone", "spec.bootstrap.recovery.pointInTime.time", recovery("backupName", "b", "pointInTime", map[string]any{"time": "2026-01-02T03:04:05+99:99"})),
		wrong("to a nanosecond", "spec.bootstrap.recovery.pointInTime.time", recovery("backupName", "b", "pointInTime", map[string]any{"time": "2026-01-02T03:04:05.123456789Z"})),
		wrong("to the 32nd", "spec.bootstrap.recovery.pointInTime.time", recovery("backupName", "b", "pointInTime", map[string]any{"time": "2026-01-32T03:04:05Z"})),
		fine("an empty bootstrap", set("bootstrap", map[string]any{})),
		wrong("from nothing", one, recovery("image", "mysql:9.7.1")),
		wrong("from two things", one, recovery("backupName", "b", "objectStore", store("shop/orders/uid"))),
		wrong("a backup of another namespace", saysPattern, recovery("backupName", "other/b")),
		fine("from a snapshot", recovery("snapshotID", "snap-0a1b2c3d4e5f60718")),
		fine("from an old snapshot", recovery("snapshotID", "snap-0a1b2c3d")),
		fine("from a volume", recovery("volumeID", "vol-0a1b2c3d4e5f60718")),
		wrong("from a snapshot and a backup", one, recovery("snapshotID", "snap-0a1b2c3d", "backupName", "b")),
		wrong("from a snapshot and a volume", one, recovery("snapshotID", "snap-0a1b2c3d", "volumeID", "vol-0a1b2c3d")),
		wrong("a snapshot to a moment", "a copy of a volume holds one moment only: for pointInTime, name with archive the binary logs that lead on from it", recovery("snapshotID", "snap-0a1b2c3d", "pointInTime", moment)),
		wrong("a volume to a moment", "a copy of a volume holds one moment only", recovery("volumeID", "vol-0a1b2c3d", "pointInTime", moment)),
		fine("a snapshot and an archive to a moment", recovery("snapshotID", "snap-0a1b2c3d", "pointInTime", moment, "archive", store("shop/orders/uid"), "image", "mysql:9.7.1")),
		fine("a volume and an archive to a moment", recovery("volumeID", "vol-0a1b2c3d", "pointInTime", moment, "archive", store("shop/orders/uid"))),
		fine("a backup by name and an archive to a moment", recovery("backupName", "b", "pointInTime", moment, "archive", store("shop/orders/uid"))),
		wrong("an archive to no moment", "archive is read up to pointInTime: set that, or remove archive", recovery("snapshotID", "snap-0a1b2c3d", "archive", store("shop/orders/uid"))),
		wrong("a dump's folder and an archive", "the archive of a dump is beside it: remove archive", recovery("objectStore", store("shop/orders/uid"), "pointInTime", moment, "archive", store("shop/orders/uid"))),
		wrong("an archive on a claim", "binary logs are archived in buckets only: set destination.s3", recovery("snapshotID", "snap-0a1b2c3d", "pointInTime", moment,
			"archive", map[string]any{"destination": map[string]any{"persistentVolumeClaim": map[string]any{"claimName": "nas"}}, "path": "shop/orders/uid"})),
		wrong("an archive in a dump's folder", "spec.bootstrap.recovery.archive.path", recovery("snapshotID", "snap-0a1b2c3d", "pointInTime", moment, "archive", store("shop/orders/uid/backups/b"))),
		wrong("a snapshot with an image", "no pod restores a copy of a volume: remove image", recovery("snapshotID", "snap-0a1b2c3d", "image", "mysql:9.7.1")),
	}
	for _, id := range []string{"", "0a1b2c3d", "vol-0a1b2c3d", "snap-", "snap-0A1B2C3D", "snap-0a1b2c3", "snap-0a1b2c3d4", "snap-0a1b2c3d4e5f607189", "snap-0a1b2c3d\n", "snap-$(id)aaaa", "arn:aws:ec2:::snapshot/snap-0a1b2c3d"} {
		rows = append(rows, wrong(fmt.Sprintf("snapshot %q", id), "spec.bootstrap.recovery", recovery("snapshotID", id)),
			wrong(fmt.Sprintf("volume %q", id), "spec.bootstrap.recovery", recovery("volumeID", strings.Replace(strings.Replace(id, "vol-", "i-", 1), "snap-", "vol-", 1))))
	}
	for _, path := range []string{"orders", "../orders/uid", "shop/orders/..", "shop/orders/uid/archive", "/shop/orders/uid", "shop/orders/uid/", "shop/orders/uid/backups/../..", "shop/orders/uid/backups/..", "shop/$(id)/uid"} {
		rows = append(rows, wrong("path "+path, "spec.bootstrap.recovery.objectStore.path", recovery("objectStore", store(path))))
	}
	for _, name := range reservedBuckets {
		rows = append(rows, wrong("from reserved bucket "+name, fmt.Sprintf("spec.bootstrap.recovery.objectStore.destination.s3.bucket: Invalid value: %q: must not begin with xn--", name), recovery("objectStore", map[string]any{
			"destination": map[string]any{"s3": map[string]any{"bucket": name}}, "path": "shop/orders/uid"})))
	}
	return rows
}

// TestCreateBackup sends MySQLBackups to a real API server.
func TestCreateBackup(t *testing.T) {
	api := api(t)
	for _, r := range []row{
		fine("the least"),
		fine("a snapshot", set("method", "Snapshot")),
		fine("with its data", set("deletionPolicy", "Delete")),
		wrong("of nobody", "spec.clusterName: Required value", set("clusterName", nil)),
		wrong("of another namespace", saysPattern, set("clusterName", "other/orders")),
		wrong("of a path", saysPattern, set("clusterName", "../orders")),
		wrong("of a command", saysPattern, set("clusterName", "$(id)")),
		wrong("an unknown method", `Unsupported value: "Full"`, set("method", "Full")),
		wrong("an unknown policy", `Unsupported value: "Keep"`, set("deletionPolicy", "Keep")),
		wrong("a long schedule", "Too long", set("schedule", "every-second-day")),
	} {
		t.Run(r.name, func(t *testing.T) {
			judge(t, api.Create(t.Context(), backupOf(t, "orders-now", r.changes...), client.DryRunAll), r.says)
		})
	}
	t.Run("a long name", func(t *testing.T) {
		judge(t, api.Create(t.Context(), backupOf(t, strings.Repeat("b", 64)), client.DryRunAll), "metadata.name must be at most 63 characters")
	})
}

func backupOf(t *testing.T, name string, changes ...change) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"clusterName": "orders"}}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MySQLBackup"))
	object.SetNamespace(metav1.NamespaceDefault)
	object.SetName(name)
	apply(t, object, changes...)
	return object
}

// TestABackupStaysWhatItIs changes MySQLBackups that exist.
func TestABackupStaysWhatItIs(t *testing.T) {
	api := api(t)
	for i, r := range []row{
		wrong("another cluster", "a backup cannot be changed into another", set("clusterName", "other")),
		wrong("another method", "a backup cannot be changed into another", set("method", "Snapshot")),
		wrong("a schedule", "a backup cannot be changed into another", set("schedule", "daily")),
		fine("another policy", set("deletionPolicy", "Delete")),
	} {
		t.Run(r.name, func(t *testing.T) {
			object := backupOf(t, fmt.Sprintf("stays-%d", i))
			if err := api.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			apply(t, object, r.changes...)
			judge(t, api.Update(t.Context(), object), r.says)
		})
	}
}

// TestTheBootstrapIsSetOnce: what a cluster began with cannot be changed later.
func TestTheBootstrapIsSetOnce(t *testing.T) {
	api := api(t)
	recovery := func(name string) change {
		return set("bootstrap", map[string]any{"recovery": map[string]any{"backupName": name}})
	}
	for i, r := range []struct {
		name          string
		before, after change
	}{
		{"added", set("replicas", int64(3)), recovery("a")},
		{"changed", recovery("a"), recovery("b")},
		{"taken out", recovery("a"), set("bootstrap", nil)},
	} {
		t.Run(r.name, func(t *testing.T) {
			object := cluster(t, fmt.Sprintf("bootstrap-%d", i), r.before)
			if err := api.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			apply(t, object, r.after)
			judge(t, api.Update(t.Context(), object), "bootstrap cannot be changed")
			apply(t, object, r.before, set("replicas", int64(5)))
			if r.name == "added" {
				apply(t, object, set("bootstrap", nil))
			}
			judge(t, api.Update(t.Context(), object), "")
		})
	}
}

func TestBackupSample(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "samples", "mysql_v1alpha1_mysqlbackup.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var typed v1alpha1.MySQLBackup
	if err := yaml.UnmarshalStrict(text, &typed); err != nil {
		t.Fatal(err)
	}
	typed.Namespace = metav1.NamespaceDefault
	if err := api(t).Create(t.Context(), &typed, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if typed.Spec.Method != v1alpha1.BackupMethodSnapshot || typed.Spec.DeletionPolicy != v1alpha1.BackupDeletionRetain {
		t.Errorf("the sample became %+v", typed.Spec)
	}
}

// TestTheArchivesClaimOnlyGrows: claims cannot shrink, nor move. Switched off, or taken out with its bucket, and on again it is
// another.
func TestTheArchivesClaimOnlyGrows(t *testing.T) {
	api := api(t)
	object := cluster(t, "archive-claim", archive("storage", "5Gi", "storageClassName", "gp3"))
	if err := api.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	for _, r := range []row{
		fine("larger", archive("storage", "6Gi", "storageClassName", "gp3")),
		wrong("smaller", "binlogArchive.storage can only grow: claims cannot shrink; for less, apply enabled: false first", archive("storage", "4Gi", "storageClassName", "gp3")),
		wrong("elsewhere", "binlogArchive.storageClassName cannot be changed", archive("storage", "5Gi", "storageClassName", "io2")),
		fine("the same in other words", archive("storage", "6144Mi", "storageClassName", "gp3")),
		fine("off", archive("storage", "6144Mi", "storageClassName", "gp3", "enabled", false)),
		fine("smaller while it is off", archive("storage", "2Gi", "storageClassName", "gp3", "enabled", false)),
		fine("on again, smaller and elsewhere", archive("storage", "1Gi", "storageClassName", "io2")),
		wrong("back", "binlogArchive.storageClassName cannot be changed", archive("storage", "1Gi", "storageClassName", "gp3")),
		fine("off, smaller and elsewhere at once", archive("storage", "1Gi", "storageClassName", "gp3", "enabled", false)),
		fine("without", set("backup", nil)),
		fine("another", archive("storage", "7Gi")),
	} {
		t.Run(r.name, func(t *testing.T) {
			changed := object.DeepCopy()
			apply(t, changed, r.changes...)
			err := api.Update(t.Context(), changed)
			judge(t, err, r.says)
			if err == nil {
				object = changed
			}
		})
	}
}

// TestTheArchivesClaimOnlyGrowsByDefaultToo: where the spec says nothing of the archive there is one of the default's size, and
// the next word of it is a change of that. What is off has no claim.
func TestTheArchivesClaimOnlyGrowsByDefaultToo(t *testing.T) {
	const grows = "backup.binlogArchive.storage can only grow: without backup.binlogArchive the archive is on with " + v1alpha1.DefaultArchiveStorage
	less := resource.MustParse(v1alpha1.DefaultArchiveStorage)
	less.Sub(resource.MustParse("1Ki"))
	onClaim := set("backup", map[string]any{"destination": map[string]any{"persistentVolumeClaim": map[string]any{"claimName": "backups"}}})
	for i, r := range []struct {
		name          string
		before, after change
		says          string
	}{
		{"the default by name", bucket(), archive(), ""},
		{"the default's size", bucket(), archive("storage", v1alpha1.DefaultArchiveStorage), ""},
		{"larger", bucket(), archive("storage", "6Gi"), ""},
		{"smaller", bucket(), archive("storage", less.String()), grows},
		{"much smaller", bucket(), archive("storage", "1Gi"), grows + "; for less, apply enabled: false first"},
		{"smaller, as a number", bucket(), archive("storage", int64(1<<30)), grows},
		{"no size", bucket(), archive("storage", "much"), "must be 1Gi to 16Ti"},
		{"of a class", bucket(), archive("storageClassName", "gp3"), ""},
		{"off", bucket(), archive("enabled", false), ""},
		{"off, and smaller", bucket(), archive("enabled", false, "storage", "1Gi"), ""},
		{"on again, and smaller", archive("enabled", false), archive("storage", "1Gi"), ""},
		{"the default by silence", archive(), bucket(), ""},
		{"larger by silence", archive("storage", "4Gi"), bucket(), ""},
		{"smaller by silence", archive("storage", "6Gi"), bucket(), grows + "; keep binlogArchive.storage, or set enabled: false"},
		{"a class given up", archive("storageClassName", "gp3"), bucket(), ""},
		{"on by silence", archive("enabled", false, "storage", "6Gi"), bucket(), ""},
		{"moved to a claim", archive("storage", "6Gi"), onClaim, ""},
		{"moved to a bucket, and small", onClaim, archive("storage", "1Gi"), ""},
		{"a bucket, and small", set("backup", map[string]any{}), archive("storage", "1Gi"), ""},
		{"a first backup, and small", set("backup", nil), archive("storage", "1Gi"), ""},
		{"something else", bucket(), bucket("prefix", "mysql"), ""},
	} {
		t.Run(r.name, func(t *testing.T) {
			object := cluster(t, fmt.Sprintf("archive-default-%d", i), r.before)
			if err := api(t).Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			apply(t, object, r.after)
			judge(t, api(t).Update(t.Context(), object, client.DryRunAll), r.says)
		})
	}
}

// TestTheArchiveThatNobodyAskedFor is the one that the API server makes of {}.
func TestTheArchiveThatNobodyAskedFor(t *testing.T) {
	told := func(c change) *v1alpha1.MySQLCluster {
		object := cluster(t, "archive-left-out", c)
		if err := api(t).Create(t.Context(), object, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		var typed v1alpha1.MySQLCluster
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &typed); err != nil {
			t.Fatal(err)
		}
		return &typed
	}
	asked, silent := told(archive()), told(bucket())
	if asked.Spec.Backup.BinlogArchive == nil || silent.Spec.Backup.BinlogArchive != nil {
		t.Fatalf("the API server makes %+v of {}, and %+v of nothing", asked.Spec.Backup.BinlogArchive, silent.Spec.Backup.BinlogArchive)
	}
	if got, want := silent.EffectiveArchive(), asked.Spec.Backup.BinlogArchive; !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("left out it is %+v (%s), and {} is %+v (%s)", got, got.Storage, want, want.Storage)
	}
}

// TestOffIsSent: enabled is true where it is missing, so Go must send its false.
func TestOffIsSent(t *testing.T) {
	text, err := json.Marshal(v1alpha1.BinlogArchiveSpec{})
	if err != nil || string(text) != `{"enabled":false}` {
		t.Errorf("%s, %v", text, err)
	}
}

func TestEffectiveArchive(t *testing.T) {
	s3 := &v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{Bucket: "my-backups"}}
	volume := &v1alpha1.BackupDestination{PersistentVolumeClaim: &v1alpha1.ClaimDestination{ClaimName: "backups"}}
	size := func(text string) *resource.Quantity {
		q := resource.MustParse(text)
		return &q
	}
	byDefault := &v1alpha1.BinlogArchiveSpec{Enabled: true, Storage: size(v1alpha1.DefaultArchiveStorage)}
	whole := &v1alpha1.BinlogArchiveSpec{Enabled: true, Storage: size("20Gi"), StorageClassName: "gp3"}
	for name, r := range map[string]struct {
		backup *v1alpha1.BackupSpec
		want   *v1alpha1.BinlogArchiveSpec
	}{
		"no backups":             {nil, nil},
		"nowhere":                {&v1alpha1.BackupSpec{}, nil},
		"on a claim":             {&v1alpha1.BackupSpec{Destination: volume}, nil},
		"on a claim, asked for":  {&v1alpha1.BackupSpec{Destination: volume, BinlogArchive: whole}, nil},
		"in a bucket":            {&v1alpha1.BackupSpec{Destination: s3}, byDefault},
		"in a bucket, suspended": {&v1alpha1.BackupSpec{Destination: s3, Suspend: true}, byDefault},
		"asked for":              {&v1alpha1.BackupSpec{Destination: s3, BinlogArchive: &v1alpha1.BinlogArchiveSpec{Enabled: true}}, byDefault},
		"with everything":        {&v1alpha1.BackupSpec{Destination: s3, BinlogArchive: whole}, whole},
		"switched off":           {&v1alpha1.BackupSpec{Destination: s3, BinlogArchive: &v1alpha1.BinlogArchiveSpec{Storage: size("20Gi")}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := &v1alpha1.MySQLCluster{Spec: v1alpha1.MySQLClusterSpec{Backup: r.backup}}
			before := c.DeepCopy()
			got := c.EffectiveArchive()
			if !equality.Semantic.DeepEqual(got, r.want) || c.Archives() != (r.want != nil) {
				t.Errorf("it is %+v instead of %+v", got, r.want)
			}
			if got != nil {
				got.Storage.Add(resource.MustParse("1Gi"))
				got.StorageClassName = "another"
			}
			if !equality.Semantic.DeepEqual(c, before) {
				t.Error("whoever changes it changes the spec")
			}
		})
	}
	var none *v1alpha1.MySQLCluster
	if none.EffectiveArchive() != nil || none.Archives() {
		t.Error("an absent cluster has an archive")
	}
}
