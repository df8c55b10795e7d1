package decide

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
	"github.com/alx-ke/nairobi-mysql-operator/internal/tarball"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// foresee reports what a launch will lack: a member that cannot be replaced is an outage to come. Nothing is made of a changed template while
// the tarball is missing that its instances surely download, or nobody knows yet whether it is. Architecture returns that of these instances, by
// EC2's name; empty while EC2 does not say.
func foresee(r *pass.Ports, s *pass.Pass, architecture func() string) {
	aws := s.Cluster.Spec.AWS
	if at, expiring := s.Access.Policy.ReleaseKeys().Expiring(r.Clock.Now()); expiring && needsReleaseKeys(aws) {
		s.Unmet = append(s.Unmet, topology.Finding{Reason: v1alpha1.ReasonReleaseKeysExpire, Message: fmt.Sprintf(
			"MySQL's release keys expire on %s, and no instance is launched from then on. Install a newer operator, or put MySQL's present key block into ConfigMap %s in the operator's namespace, key %s",
			at.Format(time.DateOnly), v1alpha1.PolicyConfigMap, policy.ReleaseKeysKey)})
	}
	changed := s.Desired.Template != "" && s.Desired.Template != s.Records().Template
	if !asksForTarball(r.Tarballs, s) || !changed && !s.Cache.Told.FailingSince.IsZero() {
		return
	}
	answers, known := "", false
	if of := architecture(); of != "" {
		answers, known = r.Tarballs.Missing(tarball.Of(s.Cluster.Spec.Version, versionInService(s), aws.Download, of))
	}
	if answers != "" {
		s.Unmet = append(s.Unmet, topology.Finding{Reason: v1alpha1.ReasonDownloadMissing, Message: fmt.Sprintf(
			"no new instance can install MySQL %s%s, because its tarball is not there: %s. Fill a mirror and set spec.aws.download.mirror, or set another spec.version",
			s.Cluster.Spec.Version, unlessBrought(aws), answers)})
	}
	switch {
	case !changed || namesImage(aws):
	case answers != "":
		s.Desired.Untried = fmt.Sprintf("the tarball of MySQL %s is not there", s.Cluster.Spec.Version)
	case !known:
		s.Desired.Untried = fmt.Sprintf("waiting for the answer whether the tarball of MySQL %s is there", s.Cluster.Spec.Version)
	}
}

// namesImage says whether the spec names an image, which may bring MySQL. The default one does not.
func namesImage(aws v1alpha1.AWSSpec) bool { return aws.ImageID != "" || aws.ImageSSMParameter != "" }

// unlessBrought is the exception of instances whose image may bring MySQL.
func unlessBrought(aws v1alpha1.AWSSpec) string {
	if namesImage(aws) {
		return " unless its image brings it"
	}
	return ""
}

// needsReleaseKeys says whether an instance surely verifies MySQL's tarball by its signature.
func needsReleaseKeys(aws v1alpha1.AWSSpec) bool {
	return !namesImage(aws) && (aws.Download == nil || aws.Download.SHA256 == "")
}

// asksForTarball says whether somebody asks for the tarball that a new instance may download. It is asked for from the operator's network, so
// only where the administrator's policy has the address: a user with credentials of their own may name any.
func asksForTarball(at pass.Tarballs, s *pass.Pass) bool {
	aws := s.Cluster.Spec.AWS
	return at != nil && (!namesImage(aws) || aws.Download != nil) && s.Access.Policy.ListsDownload(s.Cluster.Namespace, aws.Download)
}

// versionInService is the version of MySQL that the members run, empty for none.
func versionInService(s *pass.Pass) string {
	if s.Seen.Previous != nil {
		return s.Seen.Previous.Spec.Version
	}
	return cmp.Or(s.Cluster.Status.Version, s.Cluster.Spec.Version)
}

// architectureOf is that of the instances which the spec asks for, empty while EC2 does not say. EC2 is asked once a day.
func architectureOf(ctx context.Context, s *pass.Pass) string {
	if s.Access.Cloud == nil || !s.Observed.CloudReachable {
		return ""
	}
	limited, cancel := context.WithTimeout(ctx, preflightPatience)
	defer cancel()
	info, err := s.Access.Cloud.InstanceType(limited, s.Cluster.Spec.AWS.InstanceType)
	if err != nil {
		s.Log.V(1).Info("the architecture of the instance type is not known; nobody asks for MySQL's tarball", "type", s.Cluster.Spec.AWS.InstanceType, "problem", err.Error())
		return ""
	}
	return info.Architecture()
}
