package records

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// Open has a pass keep its cluster's records in the members ConfigMap.
func (r *Keeper) Open(s *pass.Pass) {
	name := resources.NamesOf(s.Cluster.Name).Members
	s.Stored.Store, s.Stored.Memory, s.Stored.WriterID, s.Stored.Lease = membersConfigMap{r, s, name}, s.Cache.Records.Memory, r.Config.WriterID, r.Config.Lease
	s.Stored.Accept = func(read *engine.StoredRecords) error {
		if p := plausible(s, name, read.Size, &read.Records); p != nil {
			return p
		}
		return nil
	}
	s.Stored.PutBack = func() { r.Announcer.RecordsRestored(s) }
}

// membersConfigMap keeps the records of one cluster.
type membersConfigMap struct {
	r    *Keeper
	s    *pass.Pass
	name string
}

func (m membersConfigMap) Version(ctx context.Context) (string, error) {
	var cm corev1.ConfigMap
	err := m.r.Client.Get(ctx, m.key(), &cm)
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("read the records: %w", err)
	}
	return cm.ResourceVersion, nil
}

func (m membersConfigMap) Read(ctx context.Context) (engine.StoredRecords, error) {
	var cm corev1.ConfigMap
	err := m.r.Reader.Get(ctx, m.key(), &cm)
	switch {
	case apierrors.IsNotFound(err):
		return engine.StoredRecords{}, nil
	case err != nil:
		return engine.StoredRecords{}, fmt.Errorf("read the records: %w", err)
	case !pass.OwnedBy(&cm, m.s.Cluster):
		return engine.StoredRecords{}, m.r.Objects.Foreign(ctx, m.s, "ConfigMap", &cm)
	}
	text := cm.Data[resources.KeyMembers]
	read := engine.StoredRecords{Found: true, Version: cm.ResourceVersion, Size: len(text), Disowned: metav1.GetControllerOf(&cm) == nil}
	var head struct {
		Schema int `json:"schema"`
	}
	if json.Unmarshal([]byte(text), &head) == nil {
		read.Schema = head.Schema
	}
	read.Readable = json.Unmarshal([]byte(text), &read.Records) == nil
	return read, nil
}

func (m membersConfigMap) Write(ctx context.Context, version string, records topology.ClusterRecord) (string, error) {
	text, err := json.Marshal(records)
	if err != nil {
		return "", fmt.Errorf("encode the records: %w", err)
	}
	if p := tooLarge(m.name, len(text), &records); p != nil {
		return "", p
	}
	if version == "" {
		return m.create(ctx, text)
	}
	ac := resources.MembersConfigMap(m.s.Cluster, text).WithResourceVersion(version)
	written := &m.s.Cache.Records.Written
	written.Begin(string(text))
	if err := m.r.Client.Apply(ctx, ac, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
		return "", pass.OfKubernetes(fmt.Errorf("save the records: %w", err))
	}
	if ac.ResourceVersion != nil {
		version = *ac.ResourceVersion
		written.End(version)
	}
	return version, nil
}

func (m membersConfigMap) key() client.ObjectKey {
	return client.ObjectKey{Namespace: m.s.Cluster.Namespace, Name: m.name}
}

// create makes the ConfigMap. It never replaces one.
func (m membersConfigMap) create(ctx context.Context, text []byte) (string, error) {
	var cm corev1.ConfigMap
	if err := pass.Convert(resources.MembersConfigMap(m.s.Cluster, text), &cm); err != nil {
		return "", err
	}
	err := m.r.Client.Create(ctx, &cm, client.FieldOwner(v1alpha1.FieldManager))
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return "", engine.ErrNowhere
	case err != nil:
		return "", pass.OfKubernetes(fmt.Errorf("create the records: %w", err))
	}
	return cm.ResourceVersion, nil
}
