package observe

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// Template is what of the spec an instance is built from; a change of it replaces instances one by one. It has the words of the spec,
// never what an alias resolved to, so that a new image behind the same alias replaces nothing. Its JSON is hashed for the instance's
// tag and kept in the records: field names must not change, and a new field needs omitempty, or an upgrade of the operator replaces
// every instance.
type Template struct {
	Version, InstanceType, ImageID, ImageSSMParameter, IAMInstanceProfile, KeyName string
	// SecurityGroupIDs were hashed by releases that replaced instances for other groups; see sameTemplate. They are empty otherwise.
	SecurityGroupIDs []string               `json:",omitempty"`
	Download         *v1alpha1.DownloadSpec `json:",omitempty"`
}

// TemplateOf is the template of what the spec asks for now.
func TemplateOf(c *v1alpha1.MySQLCluster) Template {
	aws := c.Spec.AWS
	return Template{
		Version: c.Spec.Version, InstanceType: aws.InstanceType, ImageID: aws.ImageID, ImageSSMParameter: aws.ImageSSMParameter,
		IAMInstanceProfile: aws.IAMInstanceProfile, KeyName: aws.KeyName, Download: aws.Download,
	}
}

// sameTemplate returns the template hash of an instance as this release computes it. Earlier ones hashed the security groups as well: those
// that the instance was launched with, sorted, and up to 0.1 in the order of the spec. Such a hash counts as that of the same template, so
// that an upgrade of the operator replaces no instance. It says nothing once the instance has other groups, so its tag is to follow.
func sameTemplate(s *pass.Pass, in inventory.Instance) string {
	for _, c := range []*v1alpha1.MySQLCluster{s.Cluster, s.Seen.Previous} {
		if c == nil {
			continue
		}
		now, spec := TemplateOf(c), c.Spec.AWS.SecurityGroupIDs
		for _, groups := range [][]string{in.SecurityGroupIDs, slices.Sorted(slices.Values(spec)), spec} {
			then := now
			if then.SecurityGroupIDs = groups; len(groups) > 0 && in.TemplateHash == then.Hash() {
				if s.Seen.OldTags == nil {
					s.Seen.OldTags = map[string]string{}
				}
				s.Seen.OldTags[in.ID] = now.Hash()
				return now.Hash()
			}
		}
	}
	return in.TemplateHash
}

// LaunchSpec is what EC2 is asked for when a member's instance is launched, but for what is resolved at the last moment: image, subnet,
// user data. A parameter that is to replace running instances is in the Template too.
func LaunchSpec(s *pass.Pass, a topology.LaunchInstance) ec2.LaunchSpec {
	c := LaunchedFrom(s, a)
	aws := c.Spec.AWS
	return ec2.LaunchSpec{
		Owner: s.Owner(), Member: a.Member, Incarnation: a.Incarnation, TemplateHash: TemplateOf(c).Hash(),
		InstanceType: aws.InstanceType, IAMInstanceProfile: aws.IAMInstanceProfile, KeyName: aws.KeyName,
		RootEncrypted: c.Spec.Storage.IsEncrypted(), KMSKeyID: c.Spec.Storage.KMSKeyID,
	}
}

// Text is how the records hold it.
func (t Template) Text() string {
	text, err := json.Marshal(t)
	if err != nil {
		panic("a template cannot be encoded: " + err.Error())
	}
	return string(text)
}

// Hash is what the tag of an instance says.
func (t Template) Hash() string {
	sum := sha256.Sum256([]byte(t.Text()))
	return hex.EncodeToString(sum[:8])
}

// Marked is a template's text as it is kept in the records, which are the tenant's to change: with what proves that it is ours.
func Marked(s *pass.Pass, text string) string { return s.Keys.Authority.Mark(text) + " " + text }

// remembered returns the template in the records; false when there is none, or it is not the operator's.
func remembered(s *pass.Pass) (Template, bool) {
	mark, text, _ := strings.Cut(s.Records().Template, " ")
	var t Template
	return t, hmac.Equal([]byte(mark), []byte(s.Keys.Authority.Mark(text))) && json.Unmarshal([]byte(text), &t) == nil
}

// ReadBefore reads what a member's instance is made from while the member is to stay on the version before: the present spec, but
// with the version on which all members were last well, and with its image, download and instance type. None when the
// administrator's policy no longer allows that, or EC2 refused it.
func (r *Cloud) ReadBefore(s *pass.Pass) {
	if s.Keys.Authority == nil {
		return
	}
	s.Desired.Template = Marked(s, TemplateOf(s.Cluster).Text())
	then, known := remembered(s)
	if !known || then.Version == s.Cluster.Spec.Version {
		return
	}
	c := s.Cluster.DeepCopy()
	aws := &c.Spec.AWS
	c.Spec.Version = then.Version
	aws.InstanceType, aws.ImageID, aws.ImageSSMParameter, aws.Download = then.InstanceType, then.ImageID, then.ImageSSMParameter, then.Download
	hash := TemplateOf(c).Hash()
	if !s.Cache.Requests.TakesBefore(hash, r.Clock.Now()) || len(s.Access.Policy.Check(c.Namespace, c.Spec)) > 0 {
		return
	}
	s.Seen.Previous, s.Desired.PreviousTemplate = c, topology.Template{Hash: hash, Version: then.Version}
}

// LaunchedFrom is the cluster's object with the spec that an instance is launched from.
func LaunchedFrom(s *pass.Pass, a topology.LaunchInstance) *v1alpha1.MySQLCluster {
	if a.Previous && s.Seen.Previous != nil {
		return s.Seen.Previous
	}
	return s.Cluster
}
