package controllers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// hand names this operator in the records.
func (p *Ports) hand() string { return cmp.Or(p.Config.Hand, engine.NoHand) }

// mutex is a lock of goroutines.
type mutex struct{ sync.Mutex }

// Lock implements engine.Lock.
func (m *mutex) Lock(context.Context) { m.Mutex.Lock() }

// openRecords has a pass keep its cluster's records in the members ConfigMap.
func (r *recordKeeper) openRecords(s *pass) {
	name := resources.NamesOf(s.cluster.Name).Members
	s.stored.Store, s.stored.Memory, s.stored.Hand, s.stored.Lease = membersConfigMap{r, s, name}, s.cache.records.memory, r.Config.Hand, r.Config.Lease
	s.stored.Accept = func(read *engine.StoredRecords) error {
		if p := plausible(s, name, read.Size, &read.Records); p != nil {
			return p
		}
		return nil
	}
	s.stored.PutBack = func() { r.announcer.announceRecords(s) }
}

// membersConfigMap keeps the records of one cluster.
type membersConfigMap struct {
	r    *recordKeeper
	s    *pass
	name string
}

// Version implements engine.RecordStore.
func (m membersConfigMap) Version(ctx context.Context) (string, error) {
	var cm corev1.ConfigMap
	err := m.r.Client.Get(ctx, m.key(), &cm)
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("read the records: %w", err)
	}
	return cm.ResourceVersion, nil
}

// Read implements engine.RecordStore.
func (m membersConfigMap) Read(ctx context.Context) (engine.StoredRecords, error) {
	var cm corev1.ConfigMap
	err := m.r.Reader.Get(ctx, m.key(), &cm)
	switch {
	case apierrors.IsNotFound(err):
		return engine.StoredRecords{}, nil
	case err != nil:
		return engine.StoredRecords{}, fmt.Errorf("read the records: %w", err)
	case !ownedBy(&cm, m.s.cluster):
		return engine.StoredRecords{}, m.r.objects.foreign(ctx, m.s, "ConfigMap", &cm)
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

// Write implements engine.RecordStore.
func (m membersConfigMap) Write(ctx context.Context, version string, records topology.Records) (string, error) {
	text, err := json.Marshal(records)
	if err != nil {
		return "", fmt.Errorf("encode the records: %w", err)
	}
	if version == "" {
		return m.create(ctx, text)
	}
	ac := resources.MembersConfigMap(m.s.cluster, text).WithResourceVersion(version)
	written := &m.s.cache.records.written
	written.begin(string(text))
	if err := m.r.Client.Apply(ctx, ac, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
		return "", ofKubernetes(fmt.Errorf("save the records: %w", err))
	}
	if ac.ResourceVersion != nil {
		version = *ac.ResourceVersion
		written.end(version)
	}
	return version, nil
}

func (m membersConfigMap) key() client.ObjectKey {
	return client.ObjectKey{Namespace: m.s.cluster.Namespace, Name: m.name}
}

// create makes the ConfigMap. It never replaces one.
func (m membersConfigMap) create(ctx context.Context, text []byte) (string, error) {
	var cm corev1.ConfigMap
	if err := convert(resources.MembersConfigMap(m.s.cluster, text), &cm); err != nil {
		return "", err
	}
	err := m.r.Client.Create(ctx, &cm, client.FieldOwner(v1alpha1.FieldManager))
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return "", engine.ErrNowhere
	case err != nil:
		return "", ofKubernetes(fmt.Errorf("create the records: %w", err))
	}
	return cm.ResourceVersion, nil
}
