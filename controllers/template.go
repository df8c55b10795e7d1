package controllers

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// template says what an instance is built from: the words of the spec, never what an alias resolved to, so that a new operator
// or a new image behind the same alias does not replace instances by itself. Its text as JSON is hashed for the instance's tag
// and kept in the records: field names are part of it and must not change.
type template struct {
	Version, InstanceType, ImageID, ImageSSMParameter, IAMInstanceProfile, KeyName string
	SecurityGroupIDs                                                               []string               `json:",omitempty"`
	Download                                                                       *v1alpha1.DownloadSpec `json:",omitempty"`
}

func templateOf(c *v1alpha1.MySQLCluster) template {
	aws := c.Spec.AWS
	return template{c.Spec.Version, aws.InstanceType, aws.ImageID, aws.ImageSSMParameter, aws.IAMInstanceProfile, aws.KeyName, aws.SecurityGroupIDs, aws.Download}
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

// refusedBefore is how long EC2 is not asked again for a machine as before of which it took no order.
const refusedBefore = 10 * time.Minute

// codeImageGone is said of an image that was deregistered, and of one that is not ready yet.
const codeImageGone = "InvalidAMIID.Unavailable"

// errNoImage: there is no such image.
var errNoImage = errors.New("resolve the image")

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
	if !s.cache.requests.takesBefore(hash, r.Clock.Now()) || len(s.access.policy.Check(c.Namespace, c.Spec)) > 0 {
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

// noteBefore notes what came of the order of a machine as before: when its image or type is no more, the present spec has to do for
// a while.
func (q *requestCache) noteBefore(hash string, err error, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case err == nil && q.beforeRefused == hash:
		q.beforeRefused = ""
	case ec2.RefusesMachine(err), ec2.Code(err) == codeImageGone, errors.Is(err, errNoImage) && ec2.Classify(err) == ec2.Invalid:
		q.beforeRefused, q.beforeRefusedAt = hash, now
	}
}

// takesBefore says whether EC2 may take the order of a machine as before.
func (q *requestCache) takesBefore(hash string, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.beforeRefused != hash || now.Sub(q.beforeRefusedAt) >= refusedBefore
}
