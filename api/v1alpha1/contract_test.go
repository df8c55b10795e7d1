package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// row is a change of the valid spec and what the API server says to it; "" means that it is taken.
type row struct {
	name    string
	changes []change
	says    string
}

func wrong(name, says string, changes ...change) row { return row{name, changes, says} }

func fine(name string, changes ...change) row { return row{name, changes, ""} }

// list makes a list of n values from a format with one integer.
func list(format string, n int) []any {
	values := make([]any, n)
	for i := range values {
		values[i] = fmt.Sprintf(format, i)
	}
	return values
}

// table makes a map of n values from formats of key and value.
func table(key, value string, n int) map[string]any {
	values := map[string]any{}
	for i := range n {
		values[fmt.Sprintf(key, i)] = value
	}
	return values
}

const (
	saysVersion  = "must be the exact version of a supported series, 8.4.z or 9.7.z"
	saysPattern  = "should match"
	saysSize     = "must be a whole number of GiB from 1Gi to 64Ti"
	saysCIDR     = "must be an IPv4 network in CIDR form with no bits set beyond its prefix"
	saysLag      = "must be a duration from 1s to 24h"
	saysSetting  = "write each setting as the system variable's name, in lower case with underscores"
	saysValue    = "a value may hold letters, digits, inner spaces"
	saysTagValue = "a tag's value may have no control characters"
	saysTagKey   = "a tag's key must be 1 to 128 characters"
	saysOwnTag   = "a tag's key may not begin with aws: (reserved by AWS) or mysql.alx.ke/"
)

func specRows() []row {
	return []row{
		fine("the valid spec"),
		fine("one member", set("replicas", int64(1))),
		fine("nine members", set("replicas", int64(9))),
		wrong("no member", "a cluster has 1 to 9 members. To stop its instances and keep its data, set spec.hibernate to true", set("replicas", int64(0))),
		wrong("ten members", "should be less than or equal to 9", set("replicas", int64(10))),
		wrong("two thousand million members", "should be less than or equal to 9", set("replicas", int64(2_000_000_000))),
		wrong("members in words", "must be of type integer", set("replicas", "three")),

		fine("8.4", set("version", "8.4.10")),
		wrong("no version", "spec.version: Required value", set("version", nil)),
		wrong("version 8.0", saysVersion, set("version", "8.0.44")),
		wrong("innovation release", saysVersion, set("version", "9.6.0")),
		wrong("a series", "should be at least 5 chars long", set("version", "9.7")),
		wrong("a series and a wildcard", saysVersion, set("version", "9.7.x")),
		wrong("a suffix", saysVersion, set("version", "9.7.1-rc")),
		wrong("leading zero", saysVersion, set("version", "9.7.01")),
		wrong("a command as version", saysVersion, set("version", "9.7.1;id")),
		wrong("a very long version", "Too long: may not be more than 10 bytes", set("version", "9.7."+strings.Repeat("1", 5000))),

		fine("every part of replication", set("replication.durability", "Async"), set("replication.maxLag", "1m30s"), set("replication.maxApplyLag", "10s")),
		wrong("unknown place of what is acknowledged", `Unsupported value: "Cache": supported values: "Memory", "Disk"`, set("replication.acknowledge", "Cache")),
		wrong("unknown durability", `Unsupported value: "Some": supported values: "Lossless", "Async"`, set("replication.durability", "Some")),
		wrong("no unit", saysLag, set("replication.maxLag", "30")),
		wrong("too short a lag", saysLag, set("replication.maxLag", "10ms")),
		wrong("too long a lag", saysLag, set("replication.maxLag", "25h")),
		wrong("negative lag", saysLag, set("replication.maxLag", "-5s")),
		wrong("too short a lag of appliers", saysLag, set("replication.maxApplyLag", "10ms")),
		wrong("absurd lag", "Too long", set("replication.maxLag", strings.Repeat("9", 100)+"h")),
		wrong("a command as lag", saysLag, set("replication.maxLag", "$(id)s")),

		fine("a database", set("database.name", "shop_1")),
		fine("a database and its owner", set("database.name", "shop"), set("database.owner", "shop_rw")),
		wrong("a database without a name", "spec.database.name: Required value", set("database.owner", "app")),
		wrong("MySQL's own database", "is a name that MySQL or the operator uses itself", set("database.name", "mysql")),
		wrong("MySQL's own database in capitals", "is a name that MySQL or the operator uses itself", set("database.name", "Performance_Schema")),
		wrong("the operator's database", "is a name that MySQL or the operator uses itself", set("database.name", "nairobi_mysql")),
		wrong("a quoted database", saysPattern, set("database.name", "a`; DROP DATABASE b")),
		wrong("a command as database", saysPattern, set("database.name", "$(reboot)")),
		wrong("too long a database", "Too long: may not be more than 64 bytes", set("database.name", strings.Repeat("a", 65))),
		fine("a long database", set("database.name", strings.Repeat("a", 58)+"_b_c")),
		wrong("a database whose privileges MySQL could not store", "must have at most 64 characters with each underscore counted as two", set("database.name", strings.Repeat("a", 59)+"_b_c")),
		wrong("root as owner", "is an account that MySQL or the operator uses itself", set("database.name", "a"), set("database.owner", "root")),
		wrong("the operator as owner", "is an account that MySQL or the operator uses itself", set("database.name", "a"), set("database.owner", "nairobi_operator")),
		wrong("an owner with a host", saysPattern, set("database.name", "a"), set("database.owner", "app@'%'")),
		wrong("too long an owner", "Too long: may not be more than 32 bytes", set("database.name", "a"), set("database.owner", strings.Repeat("a", 33))),
		fine("old passwords stop at once", set("database.name", "a"), set("database.retainPassword", "0s")),
		wrong("old passwords for years", "must be a duration from 0s to 720h", set("database.name", "a"), set("database.retainPassword", "8760h")),
		wrong("old passwords for days in words", "must be a duration from 0s to 720h", set("database.name", "a"), set("database.retainPassword", "2d")),

		fine("a change with pauses", set("upgrade.soak", "24h"), set("upgrade.paused", true)),
		wrong("too long a soak", "must be a duration from 0s to 24h", set("upgrade.soak", "25h")),
		wrong("a negative soak", "must be a duration from 0s to 24h", set("upgrade.soak", "-1m")),
		fine("a maintenance window", set("maintenanceWindow.schedule", "0 3 * * SUN"), set("maintenanceWindow.duration", "2h"), set("maintenanceWindow.timeZone", "Africa/Nairobi")),
		wrong("a window without an end", "spec.maintenanceWindow.duration: Required value", set("maintenanceWindow.schedule", "@daily")),
		wrong("a window in words", "must be five fields of cron", set("maintenanceWindow.schedule", "at night"), set("maintenanceWindow.duration", "2h")),
		wrong("a window with seconds", "must be five fields of cron", set("maintenanceWindow.schedule", "0 0 3 * * SUN"), set("maintenanceWindow.duration", "2h")),
		wrong("a window of a minute", "must be a duration from 10m to 168h", set("maintenanceWindow.schedule", "@daily"), set("maintenanceWindow.duration", "1m")),
		wrong("protection in words", "must be of type boolean", set("deletionProtection", "no")),
	}
}

func awsRows() []row {
	const sg = "sg-0123456789abcdef0"
	rows := []row{
		wrong("no aws", "spec.aws: Required value", set("aws", nil)),
		wrong("no region", "spec.aws.region: Required value", set("aws.region", nil)),
		wrong("no instance type", "spec.aws.instanceType: Required value", set("aws.instanceType", nil)),
		wrong("no subnets", "spec.aws.subnetIDs: Required value", set("aws.subnetIDs", nil)),
		fine("GovCloud", set("aws.region", "us-gov-west-1")),
		wrong("a zone for a region", saysPattern, set("aws.region", "us-east-1a")),
		fine("a bare-metal type", set("aws.instanceType", "u-6tb1.56xlarge")),
		wrong("a family for a type", saysPattern, set("aws.instanceType", "r7g")),
		fine("an image", set("aws.imageID", "ami-0123456789abcdef0")),
		wrong("an image's name", saysPattern, set("aws.imageID", "al2023")),
		fine("an image by parameter", set("aws.imageSSMParameter", "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64")),
		wrong("two images", "aws.imageID and aws.imageSSMParameter exclude each other: remove one",
			set("aws.imageID", "ami-0123456789abcdef0"), set("aws.imageSSMParameter", "/a/b")),
		wrong("an empty list of subnets", "should have at least 1 items", set("aws.subnetIDs", []any{})),
		wrong("seventeen subnets", "Too many: 17: must have at most 16 items", set("aws.subnetIDs", list("subnet-0123456789abcde%02d", 17))),
		wrong("a subnet twice", "Duplicate value", set("aws.subnetIDs", []any{"subnet-01234567", "subnet-01234567"})),
		wrong("a subnet by name", saysPattern, set("aws.subnetIDs", []any{"private-a"})),
		wrong("no clients", "nobody could reach the database: set aws.clientCIDRs", set("aws.clientCIDRs", nil)),
		wrong("an empty list of clients", "should have at least 1 items", set("aws.clientCIDRs", []any{})),
		fine("clients by group", set("aws.clientCIDRs", nil), set("aws.clientSecurityGroupIDs", []any{sg})),
		fine("own groups", set("aws.clientCIDRs", nil), set("aws.securityGroupIDs", []any{sg})),
		wrong("own groups and clients", "with aws.securityGroupIDs the rules are yours", set("aws.securityGroupIDs", []any{sg})),
		wrong("a group by name", saysPattern, set("aws.clientSecurityGroupIDs", []any{"default"})),
		wrong("seventeen own groups", "Too many: 17: must have at most 16 items", set("aws.clientCIDRs", nil), set("aws.securityGroupIDs", list("sg-0123456789abcde%02d", 17))),
		wrong("sixty clients", "Too many: 60: must have at most 50 items", set("aws.clientCIDRs", list("10.%d.0.0/16", 60))),
		wrong("sixty clients of two kinds", "together may have at most 50 entries",
			set("aws.clientCIDRs", list("10.%d.0.0/16", 30)), set("aws.clientSecurityGroupIDs", list("sg-0123456789abcde%02d", 30))),
		fine("the whole world, of which the webhook warns", set("aws.clientCIDRs", []any{"0.0.0.0/0"})),
		wrong("an address", saysCIDR, set("aws.clientCIDRs", []any{"10.20.0.1"})),
		wrong("bits beyond the prefix", saysCIDR, set("aws.clientCIDRs", []any{"10.20.3.4/16"})),
		wrong("too long a prefix", saysCIDR, set("aws.clientCIDRs", []any{"10.20.0.0/33"})),
		wrong("no such octet", saysCIDR, set("aws.clientCIDRs", []any{"10.256.0.0/16"})),
		wrong("IPv6", saysCIDR, set("aws.clientCIDRs", []any{"fd00::/8"})),
		fine("an instance profile's name", set("aws.iamInstanceProfile", "mysql-members")),
		fine("an instance profile's ARN", set("aws.iamInstanceProfile", "arn:aws:iam::111122223333:instance-profile/a/b")),
		wrong("a role for a profile", saysPattern, set("aws.iamInstanceProfile", "arn:aws:iam::111122223333:role/a")),
		fine("a role", set("aws.roleARN", "arn:aws-cn:iam::111122223333:role/mysql")),
		wrong("a role's name", saysPattern, set("aws.roleARN", "mysql")),
		wrong("a user for a role", saysPattern, set("aws.roleARN", "arn:aws:iam::111122223333:user/root")),
		fine("credentials", set("aws.credentialsSecretRef.name", "aws")),
		wrong("credentials of nowhere", "should be at least 1 chars long", set("aws.credentialsSecretRef.name", "")),
		wrong("credentials of another namespace", saysPattern, set("aws.credentialsSecretRef.name", "../kube-system/aws")),
		fine("tags", set("aws.tags", map[string]any{"team": "shop", "cost-centre": "4711", "a:b/c": "x = y @ z"})),
		wrong("the operator's tag", saysOwnTag, set("aws.tags", map[string]any{"mysql.alx.ke/cluster-uid": "other"})),
		wrong("the operator's tag in capitals", saysOwnTag, set("aws.tags", map[string]any{"MySQL.alx.ke/member": "x"})),
		wrong("Amazon's tag", saysOwnTag, set("aws.tags", map[string]any{"AWS:cloudformation:stack-name": "x"})),
		wrong("the name tag", saysOwnTag, set("aws.tags", map[string]any{"Name": "x"})),
		wrong("forty-one tags", "Too many: 41: must have at most 40 items", set("aws.tags", table("t%d", "v", 41))),
		wrong("too long a tag's key", saysTagKey, set("aws.tags", map[string]any{strings.Repeat("k", 129): "v"})),
		wrong("too long a tag's value", "Too long: may not be more than 256", set("aws.tags", map[string]any{"k": strings.Repeat("v", 257)})),
		fine("tags of any script", set("aws.tags", map[string]any{"R&D (Zürich)": "a;b#c \"d\" <e> 'f' `g` ${h}", "部門": "販売 📦", "key": strings.Repeat("é", 256), "empty": ""})),
		wrong("a tag's key that ends in a space", saysTagKey, set("aws.tags", map[string]any{"team ": "shop"})),
		wrong("a tag's key with a tabulator", saysTagKey, set("aws.tags", map[string]any{"a\tb": "shop"})),
		wrong("a tag's value with a line break", saysTagValue, set("aws.tags", map[string]any{"k": "a\nb"})),
		wrong("a tag's value that begins with a space", saysTagValue, set("aws.tags", map[string]any{"k": " a"})),
		fine("a mirror", set("aws.download", map[string]any{"url": "http://10.0.0.5:8080/mysql-9.7.1-linux-glibc2.28-x86_64.tar.xz", "sha256": strings.Repeat("0a", 32)})),
		fine("a mirror without a checksum", set("aws.download.url", "https://a.b/c")),
		fine("a mirror of MySQL's site", set("aws.download.mirror", "https://my-mirror.s3.eu-central-1.amazonaws.com/mysql")),
		fine("a mirror of MySQL's site at the root", set("aws.download.mirror", "http://10.0.0.5:8080")),
		wrong("a download from nowhere", "set either aws.download.url or aws.download.mirror", set("aws.download", map[string]any{})),
		wrong("a checksum of nothing", "set either aws.download.url or aws.download.mirror", set("aws.download.sha256", strings.Repeat("0a", 32))),
		wrong("two places", "set either aws.download.url or aws.download.mirror", set("aws.download", map[string]any{"url": "https://a.b/c", "mirror": "https://a.b"})),
		wrong("a checksum of a whole mirror", "aws.download.sha256 is that of the tarball at aws.download.url", set("aws.download", map[string]any{"mirror": "https://a.b", "sha256": strings.Repeat("0a", 32)})),
		wrong("a mirror in S3's own words", saysPattern, set("aws.download.mirror", "s3://my-mirror/mysql")),
		wrong("a mirror with a query", saysPattern, set("aws.download.mirror", "https://a.b/c?x=y")),
		wrong("a mirror of MySQL's site that climbs", "no . or ..", set("aws.download.mirror", "https://a.b/mysql/..")),
		wrong("too long a mirror of MySQL's site", "Too long", set("aws.download.mirror", "https://a.b/"+strings.Repeat("c", 600))),
		wrong("a short checksum", saysPattern, set("aws.download", map[string]any{"url": "https://a.b/c", "sha256": "0a"})),
		wrong("a file for a mirror", saysPattern, set("aws.download", map[string]any{"url": "file:///etc/shadow", "sha256": strings.Repeat("0a", 32)})),
		wrong("a mirror with a command", saysPattern, set("aws.download", map[string]any{"url": "https://a.b/$(id)", "sha256": strings.Repeat("0a", 32)})),
		wrong("a mirror that climbs", "no . or ..", set("aws.download", map[string]any{"url": "https://a.b/mysql/../other/x", "sha256": strings.Repeat("0a", 32)})),
		wrong("a mirror that climbs in percent", "no . or ..", set("aws.download", map[string]any{"url": "https://a.b/mysql/%2E%2e/x", "sha256": strings.Repeat("0a", 32)})),
		fine("a mirror with dots in its names", set("aws.download", map[string]any{"url": "https://a.b/.mysql/9.7..1/...x", "sha256": strings.Repeat("0a", 32)})),
		wrong("too long a mirror", "Too long", set("aws.download", map[string]any{"url": "https://a.b/" + strings.Repeat("c", 2000), "sha256": strings.Repeat("0a", 32)})),
	}
	return append(rows, shellRows()...)
}

// shellRows try every field of the spec that is an id or a name with what a shell would take for a command.
func shellRows() []row {
	var rows []row
	lists := map[string]bool{"aws.subnetIDs": true, "aws.securityGroupIDs": true, "aws.clientSecurityGroupIDs": true}
	for path, proper := range map[string]string{
		"aws.region": "us-east-1", "aws.instanceType": "r7g.large", "aws.imageID": "ami-0123456789abcdef0", "aws.imageSSMParameter": "/a/b",
		"aws.subnetIDs": "subnet-01234567", "aws.securityGroupIDs": "sg-01234567", "aws.clientSecurityGroupIDs": "sg-01234567",
		"aws.iamInstanceProfile": "p", "aws.keyName": "k", "aws.roleARN": "arn:aws:iam::111122223333:role/r",
		"storage.kmsKeyID": "alias/a", "aws.credentialsSecretRef.name": "s",
	} {
		for _, evil := range []string{"$(id)", "`id`", ";id", "|id", "&id", "'", `"`, `\`, "\n", "\x00", "<x", ">x", "{a,b}", "*", "?", "!", "#", "é"} {
			// A region or a type may be too long with it before it is wrong: either is a refusal of this field.
			var value any = proper + evil
			if lists[path] {
				value = []any{value}
			}
			rows = append(rows, wrong(fmt.Sprintf("%s with %q", path, evil), "spec."+path, set(path, value)))
		}
	}
	for path, with := range ruled {
		rows = append(rows, fine(path+" as it should be", with("")...))
		for _, evil := range []string{"$(id)", "`id`", ";id", "|id", "&id", "'", `"`, `\`, "\n", "\x00", "<x", ">x"} {
			part, _, _ := strings.Cut(path[len("spec."):], ".")
			rows = append(rows, wrong(fmt.Sprintf("%s with %q", path, evil), "spec."+part, with(evil)...))
		}
	}
	return rows
}

// ruled are the strings of which a rule says what they take, and no pattern that patternOf finds: each with something proper before what is added.
var ruled = map[string]func(evil string) []change{
	"spec.version": func(evil string) []change { return []change{set("version", "9.7.4"+evil)} },
	"spec.maintenanceWindow.schedule": func(evil string) []change {
		return []change{set("maintenanceWindow.schedule", "0 3 * * SUN"+evil), set("maintenanceWindow.duration", "2h")}
	},
	"spec.maintenanceWindow.timeZone": func(evil string) []change {
		return []change{set("maintenanceWindow.schedule", "0 3 * * SUN"), set("maintenanceWindow.duration", "2h"), set("maintenanceWindow.timeZone", "Africa/Nairobi"+evil)}
	},
	"spec.backup.schedules[].cron": func(evil string) []change {
		return []change{set("backup", map[string]any{"schedules": []any{map[string]any{"name": "h", "cron": "0 * * * *" + evil, "method": "Snapshot"}}})}
	},
	"spec.backup.verification.cron": func(evil string) []change {
		return []change{set("backup", map[string]any{"destination": map[string]any{"s3": map[string]any{"bucket": "my-backups"}}, "verification": map[string]any{"cron": "0 4 * * 0" + evil}})}
	},
}

func storageRows() []row {
	return []row{
		fine("gp3 in full", set("storage.size", "500Gi"), set("storage.iops", int64(12000)), set("storage.throughput", int64(500))),
		fine("gp3 small with its free IOPS", set("storage.size", "1Gi"), set("storage.iops", int64(3000))),
		fine("gp3 at its largest", set("storage.size", "64Ti"), set("storage.iops", int64(80000)), set("storage.throughput", int64(2000))),
		fine("io2", set("storage.type", "io2"), set("storage.size", "100Gi"), set("storage.iops", int64(100000))),
		fine("size as a number of bytes", set("storage.size", int64(1<<30))),
		wrong("no size at all", saysSize, set("storage.size", "0")),
		wrong("a negative size", saysSize, set("storage.size", "-20Gi")),
		wrong("half a GiB", saysSize, set("storage.size", "512Mi")),
		wrong("a fraction", saysSize+", written without a fraction; for example 100Gi, or 1536Gi for 1.5Ti", set("storage.size", "1.5Ti")),
		wrong("a decimal GB", saysSize, set("storage.size", "20G")),
		wrong("more than EBS has", saysSize, set("storage.size", "65Ti")),
		wrong("an absurd size", saysSize, set("storage.size", "9000Ei")),
		wrong("a size beyond numbers", saysSize, set("storage.size", "1e300")),
		wrong("a size in words", saysSize, set("storage.size", "big")),
		wrong("a command as size", saysSize, set("storage.size", "$(id)Gi")),
		wrong("gp2", `Unsupported value: "gp2"`, set("storage.type", "gp2")),
		wrong("too few IOPS for gp3", "storage.iops must be 3000 to 80000 with type gp3", set("storage.iops", int64(500))),
		wrong("too many IOPS for gp3", "storage.iops must be 3000 to 80000 with type gp3", set("storage.size", "10Ti"), set("storage.iops", int64(90000))),
		wrong("too many IOPS for the size", "storage.iops is more than the volume's size allows", set("storage.size", "20Gi"), set("storage.iops", int64(10001))),
		wrong("too many IOPS for anything", "should be less than or equal to 256000", set("storage.iops", int64(2_000_000_000))),
		wrong("too much throughput for the IOPS", "storage.throughput may be at most a quarter of storage.iops", set("storage.throughput", int64(1000))),
		wrong("too much throughput", "should be less than or equal to 2000", set("storage.throughput", int64(2001))),
		wrong("too little throughput", "should be greater than or equal to 125", set("storage.throughput", int64(1))),
		wrong("io2 without IOPS", "storage.iops is required with type io2", set("storage.type", "io2")),
		wrong("io2 too small", "storage.size must be at least 4Gi with type io2", set("storage.type", "io2"), set("storage.size", "3Gi"), set("storage.iops", int64(100))),
		wrong("io2 with too many IOPS for the size", "storage.iops is more than the volume's size allows", set("storage.type", "io2"), set("storage.size", "10Gi"), set("storage.iops", int64(10001))),
		wrong("io2 with throughput", "storage.throughput exists with type gp3 only", set("storage.type", "io2"), set("storage.iops", int64(3000)), set("storage.throughput", int64(125))),
		fine("a key", set("storage.kmsKeyID", "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab")),
		wrong("a key and no encryption", "storage.kmsKeyID needs storage.encrypted: true", set("storage.kmsKeyID", "alias/a"), set("storage.encrypted", false)),
		wrong("no such policy", `Unsupported value: "Keep": supported values: "Snapshot", "Retain", "Delete"`, set("storage.deletionPolicy", "Keep")),
	}
}

func settingRows() []row {
	setting := func(name, value string) change { return set("mysqld", map[string]any{name: value}) }
	return []row{
		fine("what people tune", set("mysqld", map[string]any{
			"max_connections": "500", "sql_mode": "STRICT_TRANS_TABLES,NO_ZERO_DATE", "time_zone": "+03:00", "long_query_time": "0.5",
			"optimizer_switch": "index_merge=on,mrr=off", "innodb_buffer_pool_size": "8G", "general_log": "OFF", "init_tables": "1"})),
		wrong("capitals", saysSetting, setting("Max_Connections", "1")),
		wrong("hyphens", saysSetting, setting("max-connections", "1")),
		wrong("a section", saysSetting, setting("[client]", "1")),
		wrong("two lines", saysSetting, setting("max_connections\nsuper_read_only", "0")),
		wrong("a command as name", saysSetting, setting("$(id)", "1")),
		wrong("no name", saysSetting, setting("", "1")),
		wrong("an absurd name", saysSetting, setting(strings.Repeat("a", 10000), "1")),
		wrong("a second line in the value", saysValue, setting("max_connections", "1\nsuper_read_only=0")),
		wrong("a carriage return", saysValue, setting("max_connections", "1\rplugin_load=x")),
		wrong("a comment", saysValue, setting("max_connections", "1 # many")),
		wrong("quotes", saysValue, setting("sql_mode", "'ANSI'")),
		wrong("a command as value", saysValue, setting("max_connections", "$(id)")),
		wrong("backquotes", saysValue, setting("max_connections", "`id`")),
		wrong("an outer space", saysValue, setting("max_connections", " 1")),
		wrong("too long a value", "Too long: may not be more than 512 bytes", setting("sql_mode", strings.Repeat("a", 513))),
		wrong("too many settings", "Too many: 65: must have at most 64 items", set("mysqld", table("setting_%d", "1", 65))),
		wrong("too much in all", "the settings are longer than 4096 characters together", set("mysqld", table("setting_%d", strings.Repeat("1", 500), 9))),
		wrong("a number that is not text", "must be of type string", set("mysqld", map[string]any{"max_connections": int64(5)})),
		wrong("an absurd buffer pool", "innodb_buffer_pool_size must be a number of bytes", setting("innodb_buffer_pool_size", "100T")),
		wrong("a buffer pool of many bytes", "innodb_buffer_pool_size must be a number of bytes", setting("innodb_buffer_pool_size", "99999999999999")),
		wrong("packets that nothing fits in", "max_allowed_packet must be at least 2M", setting("max_allowed_packet", "1024")),
		wrong("packets that no CLONE fits in", "max_allowed_packet must be at least 2M", setting("max_allowed_packet", "2097151")),
		wrong("packets that no CLONE fits in by K", "max_allowed_packet must be at least 2M", setting("max_allowed_packet", "2047K")),
		wrong("packets that no CLONE fits in by M", "max_allowed_packet must be at least 2M", setting("max_allowed_packet", "1M")),
		wrong("packets of no number", "max_allowed_packet must be at least 2M", setting("max_allowed_packet", "lots")),
		fine("packets by bytes", setting("max_allowed_packet", "2097152")),
		fine("packets by many bytes", setting("max_allowed_packet", "1073741824")),
		fine("packets by K", setting("max_allowed_packet", "2048K")),
		fine("packets by the least M", setting("max_allowed_packet", "2M")),
		fine("packets by M", setting("max_allowed_packet", "64M")),
		fine("packets by G", setting("max_allowed_packet", "1g")),
		wrong("one thread for all", "thread_handling must be one-thread-per-connection", setting("thread_handling", "no-threads")),
		wrong("binary logs that nobody can follow", "binlog_expire_logs_seconds must be at least 3600", setting("binlog_expire_logs_seconds", "1")),
		wrong("just too few seconds", "binlog_expire_logs_seconds must be at least 3600", setting("binlog_expire_logs_seconds", "3599")),
		fine("binary logs of an hour", setting("binlog_expire_logs_seconds", "3600")),
		fine("binary logs for ever", setting("binlog_expire_logs_seconds", "0")),
		wrong("events that only a start can disable", "event_scheduler must be ON or OFF", setting("event_scheduler", "DISABLED")),
		wrong("what MySQL lets nobody persist", "set innodb_buffer_pool_size", setting("innodb_dedicated_server", "OFF")),
		fine("no events", setting("event_scheduler", "off")),
		wrong("an option that is no variable", "write time_zone", setting("default_time_zone", "+03:00")),
		fine("a time zone", setting("time_zone", "+03:00")),
		fine("a thread for each", setting("thread_handling", "one-thread-per-connection")),
		wrong("tables that need a keyring", "remove default_table_encryption: encryption inside MySQL needs a keyring", setting("default_table_encryption", "ON")),
		wrong("logs that need a keyring", "remove binlog_encryption: encryption inside MySQL needs a keyring", setting("binlog_encryption", "ON")),
		wrong("a server that does not see its locks", "remove performance_schema_max_metadata_locks: the operator reads the Performance Schema", setting("performance_schema_max_metadata_locks", "0")),
		wrong("connections that are always compressed", "remove protocol_compression_algorithms: certificates, TLS", setting("protocol_compression_algorithms", "zlib")),
		wrong("a dump of the buffer pool elsewhere", "remove innodb_buffer_pool_filename: addresses, ports, paths", setting("innodb_buffer_pool_filename", "mysql.ibd")),
		wrong("prepared transactions decided by guess", "remove tc_heuristic_recover: what makes a commit durable", setting("tc_heuristic_recover", "ROLLBACK")),
		wrong("server_id", "remove server_id: replication, its identity and its logs are set up by the operator", setting("server_id", "7")),
		wrong("GTIDs off", "remove gtid_mode: replication", setting("gtid_mode", "OFF")),
		wrong("a filter", "remove replicate_do_db: replication", setting("replicate_do_db", "a")),
		wrong("semi-sync", "remove rpl_semi_sync_source_timeout: replication", setting("rpl_semi_sync_source_timeout", "1")),
		wrong("writable by setting", "remove super_read_only: who may write is decided by the operator", setting("super_read_only", "OFF")),
		wrong("writable by setting with hyphens", "write each setting as the system variable's name, in lower case with underscores", setting("super-read-only", "OFF")),
		fine("an abbreviation, which mysqld refuses over SQL and is not started with", setting("super_r", "OFF")),
		wrong("less durable", "remove sync_binlog: what makes a commit durable is fixed by the operator", setting("sync_binlog", "0")),
		wrong("a server that goes on without its binary log", "remove binlog_error_action: what makes a commit durable is fixed by the operator", setting("binlog_error_action", "IGNORE_ERROR")),
		wrong("pages without checksums", "remove innodb_checksum_algorithm: what makes a commit durable", setting("innodb_checksum_algorithm", "none")),
		wrong("a replica that passes over errors", "remove rbr_exec_mode: replication, its identity", setting("rbr_exec_mode", "IDEMPOTENT")),
		wrong("half of every dump", "remove sql_select_limit: it cuts what every session reads", setting("sql_select_limit", "5")),
		fine("an abbreviation of what cuts dumps", setting("sql_select_lim", "5")),
		wrong("refused queries", "remove sql_big_selects: it cuts what every session reads", setting("sql_big_selects", "OFF")),
		wrong("less durable still", "remove innodb_flush_method: what makes a commit durable", setting("innodb_flush_method", "nosync")),
		wrong("another certificate", "remove ssl_ca: certificates, TLS and the way accounts log in belong to the operator", setting("ssl_ca", "/tmp/ca")),
		wrong("another port", "remove port: addresses, ports, paths", setting("port", "3307")),
		wrong("the X port", "remove mysqlx_port: addresses, ports, paths", setting("mysqlx_port", "33060")),
		wrong("another file", "remove secure_file_priv: addresses, ports, paths", setting("secure_file_priv", "/")),
		wrong("a plug-in", "remove plugin_load_add: plug-ins, components and start-up statements", setting("plugin_load_add", "x.so")),
		wrong("start-up statements", "remove init_file: plug-ins, components and start-up statements", setting("init_file", "/tmp/x")),
		fine("names of tables in small letters, when the cluster is made", setting("lower_case_table_names", "1")),
		wrong("fixed when the data directory is made", "remove innodb_page_size: this is fixed when a data directory is made", setting("innodb_page_size", "8192")),
		wrong("loose", "remove loose_max_connections: write the variable itself", setting("loose_max_connections", "1")),
		wrong("grants off", "remove skip_grant_tables: addresses, ports, paths and the process itself", setting("skip_grant_tables", "ON")),
	}
}

// TestCreate sends every row to a real API server and looks for the words that a user sees.
func TestCreate(t *testing.T) {
	api := api(t)
	for part, rows := range map[string][]row{"spec": specRows(), "aws": awsRows(), "storage": storageRows(), "mysqld": settingRows(), "backup": backupRows(), "monitoring": monitoringRows()} {
		for _, r := range rows {
			t.Run(part+"/"+r.name, func(t *testing.T) {
				err := api.Create(t.Context(), cluster(t, "orders", r.changes...), client.DryRunAll)
				judge(t, err, r.says)
			})
		}
	}
}

func TestNames(t *testing.T) {
	api := api(t)
	const says = "metadata.name must be at most 40 characters, begin with a letter"
	for name, says := range map[string]string{
		"orders": "", "o": "", strings.Repeat("o", 40): "", "a-1-b": "",
		strings.Repeat("o", 41): says, "1orders": says, "orders.eu": says,
		"orders-primary": "metadata.name must not end in -primary or -replicas", "orders-replicas": "metadata.name must not end in -primary or -replicas",
		"Orders": "Invalid value", "orders-": "Invalid value", "$(id)": "Invalid value", "a_b": "Invalid value", "a b": "Invalid value",
	} {
		t.Run(name, func(t *testing.T) {
			judge(t, api.Create(t.Context(), cluster(t, name), client.DryRunAll), says)
		})
	}
}

// judge compares what the API server said with what it should have said.
func judge(t *testing.T, err error, says string) {
	t.Helper()
	switch {
	case says == "" && err != nil:
		t.Fatalf("refused: %v", err)
	case says != "" && err == nil:
		t.Fatalf("taken; it should have been refused with %q", says)
	case says != "" && !strings.Contains(err.Error(), says):
		t.Fatalf("said\n%v\nwithout\n%s", err, says)
	}
	if err != nil && strings.Contains(err.Error(), "no such key") {
		t.Fatalf("a rule failed itself: %v", err)
	}
}
