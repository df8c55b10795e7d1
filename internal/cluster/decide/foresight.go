package decide

import (
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/bootstrap"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// foresee reports what a launch will lack: a member that cannot be replaced is an outage to come. While the tarball is missing that a
// changed spec needs, or nobody asked for it yet, changes are held back: a member that works stays on its instance, and one that is lost
// comes back as it was. It returns why nothing is launched where that is not known.
func foresee(r *pass.Ports, s *pass.Pass) *engine.Problem {
	aws := s.Cluster.Spec.AWS
	if at, expiring := s.Access.Policy.ReleaseKeys().Expiring(r.Clock.Now()); expiring && needsReleaseKeys(aws) {
		s.Unmet = append(s.Unmet, topology.Finding{Reason: v1alpha1.ReasonReleaseKeysExpire, Message: fmt.Sprintf(
			"MySQL's release keys expire on %s, and no instance is launched from then on. Install a newer operator, or put MySQL's present key block into ConfigMap %s in the operator's namespace, key %s",
			at.Format(time.DateOnly), v1alpha1.PolicyConfigMap, policy.ReleaseKeysKey)})
	}
	answers, asked := missingTarball(r.Tarballs, s)
	if answers == "" && asked {
		return nil
	}
	missing := &engine.Problem{Reason: v1alpha1.ReasonDownloadMissing, Message: fmt.Sprintf(
		"no new instance can install MySQL %s, because its tarball is not there: %s. Fill a mirror and set spec.aws.download.mirror, or set another spec.version",
		s.Cluster.Spec.Version, answers)}
	if answers != "" {
		s.Unmet = append(s.Unmet, topology.Finding{Reason: missing.Reason, Message: missing.Message})
	}
	if s.Desired.Template == "" || s.Desired.Template == s.Records().Template {
		return nil
	}
	if asked {
		s.Seen.Untried = fmt.Sprintf("the tarball of MySQL %s is not there", s.Cluster.Spec.Version)
	} else {
		s.Seen.Untried = fmt.Sprintf("waiting for the answer whether the tarball of MySQL %s is there", s.Cluster.Spec.Version)
	}
	if answers == "" || s.Seen.Previous != nil {
		return nil
	}
	return missing
}

// needsReleaseKeys says whether an instance surely verifies MySQL's tarball by its signature: the default image has no MySQL.
func needsReleaseKeys(aws v1alpha1.AWSSpec) bool {
	return aws.ImageID == "" && aws.ImageSSMParameter == "" && (aws.Download == nil || aws.Download.SHA256 == "")
}

// missingTarball returns what the addresses of the tarball that a new instance downloads answered if it is missing, and whether there is
// nothing left to ask.
// It is asked for from the operator's network, so only where the administrator's policy has the address: a user with credentials of
// their own may name any.
func missingTarball(at pass.Tarballs, s *pass.Pass) (answers string, asked bool) {
	aws := s.Cluster.Spec.AWS
	brought := (aws.ImageID != "" || aws.ImageSSMParameter != "") && aws.Download == nil
	architecture, launched := newestArchitecture(s)
	if at == nil || brought || !launched || !s.Access.Policy.ListsDownload(s.Cluster.Namespace, aws.Download) {
		return "", true
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
