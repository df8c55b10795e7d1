package doctor

import (
	"context"
	"slices"
)

// check is a check of the installation.
type check struct {
	name string
	run  func(context.Context, *Doctor) Finding
}

// clusterCheck is a check of one cluster.
type clusterCheck struct {
	name string
	run  func(context.Context, *patient) Finding
}

// installation are the checks of the installation, in their order. What one learns the next ones use.
var installation = []check{
	{"crds", checkCRDs}, {"rbac", checkRBAC}, {"policy", checkPolicy}, {"release-keys", checkReleaseKeys}, {"clusters", checkClusters},
	{"lease", checkLease}, {"one-installation", checkOneInstallation}, {"webhook", checkWebhook}, {"webhook-delete", checkWebhookDelete}, {"endpointslices", checkEndpointSlices},
}

// ofAccount are the checks of an AWS account and region.
var ofAccount = []clusterCheck{
	{"identity", checkIdentity}, {"clock", checkClock}, {"iam-read", checkReads}, {"imds-default", checkMetadataDefaults}, {"probe-volume", probeVolume},
}

// ofCluster are the checks of a cluster.
var ofCluster = []clusterCheck{
	{"policy-allows", checkAllowed}, {"secrets", checkSecrets}, {"subnets", ofPreflight("subnets")}, {"subnet-routes", checkRoutes},
	{"network-acls", checkACLs}, {"security-groups", ofPreflight("security-groups")}, {"group-rules", checkRules},
	{"instance-type", ofPreflight("instance-type")}, {"image", ofPreflight("image")},
	{"instance-profile", ofPreflight("instance-profile")}, {"key-pair", ofPreflight("key-pair")}, {"volume", ofPreflight("volume")},
	{"spec", ofPreflight("spec")}, {"iam-launch", ofPreflight("iam-launch")}, {"iam-change", checkRehearsal},
	{"vcpu-quota", checkVCPUs}, {"storage-quota", checkStorage}, {"kms-key", checkKey}, {"download", checkDownload},
	{"backup-identity", checkBackupIdentity}, {"bucket", checkBucket}, {"bucket-write", probeBucket},
}

// spending are the checks that run with Spend only.
var spending = []string{"probe-volume", "bucket-write"}

// Run runs all checks. It ends early when ctx does; then what was not run is left out.
func (d *Doctor) Run(ctx context.Context) Report {
	var r Report
	for _, c := range installation {
		r.add(ctx, c.name, "", func() Finding { return c.run(ctx, d) })
	}
	if len(d.clusters) == 0 {
		d.examine(ctx, &r, &patient{doctor: d}, ofAccount)
		return r
	}
	seen := map[string]bool{}
	for i := range d.clusters {
		p := &patient{doctor: d, cluster: &d.clusters[i]}
		if key := d.accountKey(ctx, p); !seen[key] {
			seen[key] = true
			d.examine(ctx, &r, p, ofAccount)
		}
		d.examine(ctx, &r, p, ofCluster)
	}
	return r
}

// examine runs checks on one cluster.
func (d *Doctor) examine(ctx context.Context, r *Report, p *patient, checks []clusterCheck) {
	for _, c := range checks {
		if slices.Contains(spending, c.name) && !d.Spend {
			continue
		}
		r.add(ctx, c.name, p.name(), func() Finding { return c.run(ctx, p) })
	}
}
