package decide

import (
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/bootstrap"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// foresee reports what a launch will lack: a member that cannot be replaced is an outage to come.
func foresee(r *pass.Ports, s *pass.Pass) {
	aws := s.Cluster.Spec.AWS
	if at, expiring := s.Access.Policy.ReleaseKeys().Expiring(r.Clock.Now()); expiring && needsReleaseKeys(aws) {
		s.Unmet = append(s.Unmet, topology.Finding{Reason: v1alpha1.ReasonReleaseKeysExpire, Message: fmt.Sprintf(
			"MySQL's release keys expire on %s, and no instance is launched from then on. Install a newer operator, or put MySQL's present key block into ConfigMap %s in the operator's namespace, key %s",
			at.Format(time.DateOnly), v1alpha1.PolicyConfigMap, policy.ReleaseKeysKey)})
	}
	if answers, missing := missingTarball(r.Tarballs, s); missing {
		s.Unmet = append(s.Unmet, topology.Finding{Reason: v1alpha1.ReasonDownloadMissing, Message: fmt.Sprintf(
			"no new instance can install MySQL %s, because its tarball is gone: %s. Fill a mirror and set spec.aws.download.mirror, or set another spec.version",
			s.Cluster.Spec.Version, answers)})
	}
}

// needsReleaseKeys says whether an instance surely verifies MySQL's tarball by its signature: the default image has no MySQL.
func needsReleaseKeys(aws v1alpha1.AWSSpec) bool {
	return aws.ImageID == "" && aws.ImageSSMParameter == "" && (aws.Download == nil || aws.Download.SHA256 == "")
}

// missingTarball says whether the tarball that a new instance downloads is gone, as far as that is known, and what its addresses answered.
// It is asked for from the operator's network, so only where the administrator's policy has the address: a user with credentials of
// their own may name any.
func missingTarball(at pass.Tarballs, s *pass.Pass) (answers string, missing bool) {
	aws := s.Cluster.Spec.AWS
	brought := (aws.ImageID != "" || aws.ImageSSMParameter != "") && aws.Download == nil
	architecture, launched := newestArchitecture(s)
	if at == nil || brought || !launched || !s.Access.Policy.ListsDownload(s.Cluster.Namespace, aws.Download) {
		return "", false
	}
	var from bootstrap.Download
	if d := aws.Download; d != nil {
		from.URL, from.Mirror = d.URL, d.Mirror
	}
	return at.Missing(bootstrap.Addresses(s.Cluster.Spec.Version, from, architecture))
}

// newestArchitecture is that of the instance that was launched last, false while there is none.
func newestArchitecture(s *pass.Pass) (architecture string, launched bool) {
	var newest time.Time
	for _, i := range s.Cache.Cloud.Inventory.Instances {
		if i.Architecture != "" && !i.LaunchTime.Before(newest) {
			newest, architecture, launched = i.LaunchTime, i.Architecture, true
		}
	}
	return architecture, launched
}
