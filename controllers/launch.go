package controllers

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/bootstrap"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// template is what of the spec an instance is built from; a change of it replaces instances one by one. It has the words of the spec,
// never what an alias resolved to, so that a new image behind the same alias replaces nothing. Its JSON is hashed for the instance's
// tag and kept in the records: field names must not change, and a new field needs omitempty, or an upgrade of the operator replaces
// every instance.
type template struct {
	Version, InstanceType, ImageID, ImageSSMParameter, IAMInstanceProfile, KeyName string
	SecurityGroupIDs                                                               []string               `json:",omitempty"`
	Download                                                                       *v1alpha1.DownloadSpec `json:",omitempty"`
}

func templateOf(c *v1alpha1.MySQLCluster) template {
	aws := c.Spec.AWS
	return template{
		Version: c.Spec.Version, InstanceType: aws.InstanceType, ImageID: aws.ImageID, ImageSSMParameter: aws.ImageSSMParameter,
		IAMInstanceProfile: aws.IAMInstanceProfile, KeyName: aws.KeyName, SecurityGroupIDs: aws.SecurityGroupIDs, Download: aws.Download,
	}
}

func (t template) text() string {
	text, err := json.Marshal(t)
	if err != nil {
		panic("a struct of strings cannot be encoded: " + err.Error())
	}
	return string(text)
}

func (t template) hash() string {
	sum := sha256.Sum256([]byte(t.text()))
	return hex.EncodeToString(sum[:8])
}

// launchSpec describes a member's instance but for what is resolved at the last moment: image, subnet, user data.
func (r *executor) launchSpec(s *pass, a topology.LaunchInstance) ec2.LaunchSpec {
	c := launchedFrom(s, a)
	aws := c.Spec.AWS
	return ec2.LaunchSpec{
		Owner: s.owner(), Member: a.Member, Incarnation: a.Incarnation, TemplateHash: templateOf(c).hash(),
		InstanceType: aws.InstanceType, IAMInstanceProfile: aws.IAMInstanceProfile, KeyName: aws.KeyName,
		RootEncrypted: c.Spec.Storage.IsEncrypted(), KMSKeyID: c.Spec.Storage.KMSKeyID,
	}
}

// prepareLaunch copies what a member's instance is launched with, and returns the request: it may go on while the pass writes the object.
func (r *executor) prepareLaunch(s *pass, cloud *ec2.Cloud, a topology.LaunchInstance) (func(context.Context) error, error) {
	userData, err := bootstrap.Render(r.bootstrapInput(s, a))
	if err != nil {
		return nil, &engine.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: err.Error(), After: engine.AfterPerson, Cause: err}
	}
	aws, spec := launchedFrom(s, a).Spec.AWS, r.launchSpec(s, a)
	spec.SubnetID, spec.UserData = a.SubnetID, userData
	spec.Owner.UserTags = maps.Clone(spec.Owner.UserTags)
	if spec.SecurityGroupIDs = slices.Clone(aws.SecurityGroupIDs); len(spec.SecurityGroupIDs) == 0 {
		spec.SecurityGroupIDs = []string{s.observed.SecurityGroup}
	}
	return func(ctx context.Context) error {
		image, err := cloud.ResolveImage(ctx, aws.ImageID, aws.ImageSSMParameter, spec.InstanceType)
		if err != nil {
			return fmt.Errorf("%w: %w", engine.ErrNoImage, err)
		}
		spec.ImageID = image.ID
		_, err = cloud.LaunchInstance(ctx, spec)
		return err
	}, nil
}

func (r *executor) bootstrapInput(s *pass, a topology.LaunchInstance) bootstrap.Input {
	c := launchedFrom(s, a)
	in := bootstrap.Input{
		ClusterUID: s.uid(), Namespace: c.Namespace, Cluster: c.Name,
		Member: a.Member, Ordinal: a.Ordinal, Incarnation: a.Incarnation, VolumeIncarnation: a.VolumeIncarnation,
		Version: c.Spec.Version, VolumeID: a.VolumeID,
		CAPEM: s.keys.authority.CertificatePEM(), JoinToken: s.keys.authority.JoinToken(a.Member, a.Incarnation),
		IssuerDN: s.keys.authority.IssuerDN(), OperatorDN: s.keys.authority.OperatorDN(),
		Settings: c.Spec.MySQLD,
	}
	if d := c.Spec.AWS.Download; d != nil {
		in.Download = &bootstrap.Download{URL: d.URL, SHA256: d.SHA256}
	}
	return in
}

// marked is a template's text as it is kept in the records, which are the tenant's to change: with what proves that it is ours.
func marked(s *pass, text string) string { return s.keys.authority.Mark(text) + " " + text }

// remembered returns the template in the records; false when there is none, or it is not the operator's.
func remembered(s *pass) (template, bool) {
	mark, text, _ := strings.Cut(s.records().Template, " ")
	var t template
	return t, hmac.Equal([]byte(mark), []byte(s.keys.authority.Mark(text))) && json.Unmarshal([]byte(text), &t) == nil
}

// readBefore finds out what a machine is made from that is not to have the present version yet: the present spec, but with the
// version of the machines on which all members were last well, and with what brings that version to a machine and what it
// runs on. None when the administrator's policy no longer allows it, or EC2 did not take the order.
func (r *cloudObserver) readBefore(s *pass) {
	if s.keys.authority == nil {
		return
	}
	s.desired.Template = marked(s, templateOf(s.cluster).text())
	then, known := remembered(s)
	if !known || then.Version == s.cluster.Spec.Version {
		return
	}
	c := s.cluster.DeepCopy()
	aws := &c.Spec.AWS
	c.Spec.Version = then.Version
	aws.InstanceType, aws.ImageID, aws.ImageSSMParameter, aws.Download = then.InstanceType, then.ImageID, then.ImageSSMParameter, then.Download
	hash := templateOf(c).hash()
	if !s.cache.requests.TakesBefore(hash, r.Clock.Now()) || len(s.access.policy.Check(c.Namespace, c.Spec)) > 0 {
		return
	}
	s.seen.before, s.desired.Before = c, topology.Template{Hash: hash, Version: then.Version}
}

// launchedFrom is the cluster's object with the spec that a machine is launched from.
func launchedFrom(s *pass, a topology.LaunchInstance) *v1alpha1.MySQLCluster {
	if a.Before && s.seen.before != nil {
		return s.seen.before
	}
	return s.cluster
}
