package controllers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// identities keeps the certificates and passwords of a cluster, and the Secrets that it may read.
type identities struct {
	*Ports
	objects *objects
}

// identify reads, and where they are missing makes, the cluster's CA, the operator's client certificate and the
// application's credentials.
func (r *identities) identify(ctx context.Context, s *pass) error {
	err := r.identifyAuthority(ctx, s)
	if err == nil {
		err = r.identifyOperator(ctx, s)
	}
	switch {
	case err != nil && s.deleting():
		// Without an identity the members cannot be asked, but they can be taken down.
		p := *asProblem(err)
		p.Aside = true
		s.result.problems = append(s.result.problems, &p)
		return nil
	case err != nil, s.cluster.Spec.Database == nil, s.deleting():
		return err
	}
	return r.identifyApplication(ctx, s)
}

func (r *identities) identifyAuthority(ctx context.Context, s *pass) error {
	name := resources.NamesOf(s.cluster.Name).CA
	secret, err := r.ownedSecret(ctx, s, name)
	if err != nil {
		return err
	}
	if secret == nil {
		return r.makeAuthority(ctx, s)
	}
	s.keys.authority, err = authorityIn(s, secret)
	if known := s.cache.identity.authority; err != nil && known != nil && secret.DeletionTimestamp.IsZero() {
		s.keys.authority = known
		_, err = r.objects.aside(s, "Secret "+name, "as it was", func() error {
			s.log.Info("put the certificate authority back, which this process knows", "secret", name, "problem", err.Error())
			return r.applySecret(ctx, resources.CASecret(s.cluster, known.CertificatePEM(), known.KeyPEM(), known.JoinKey()))
		})
		return err
	}
	if err != nil {
		return &engine.Problem{Reason: v1alpha1.ReasonCAInvalid, After: engine.AfterPerson, Cause: err,
			Message: fmt.Sprintf("Secret %s does not hold this cluster's certificate authority (%v); restore it from a backup", name, err)}
	}
	s.cache.identity.authority = s.keys.authority
	if !secret.DeletionTimestamp.IsZero() && !s.deleting() {
		_, err = r.objects.aside(s, "Secret "+name, "again", func() error { // the finalizer keeps it
			return r.putBack(ctx, secret, resources.CASecret(s.cluster, s.keys.authority.CertificatePEM(), s.keys.authority.KeyPEM(), s.keys.authority.JoinKey()))
		})
		return err
	}
	return nil
}

// authorityIn reads the cluster's certificate authority. Another cluster's, and another one than this process knows, are as wrong as
// one that cannot be read: the members trust the one that they were made with.
func authorityIn(s *pass, secret *corev1.Secret) (*pki.Authority, error) {
	authority, err := pki.ParseAuthority(secret.Data[resources.KeyCertificate], secret.Data[resources.KeyPrivateKey], secret.Data[resources.KeyJoin])
	if err != nil {
		return nil, err
	}
	if authority.UID() != s.uid() {
		return nil, fmt.Errorf("it is the certificate authority of the cluster with UID %q", authority.UID())
	}
	if known := s.cache.identity.authority; known != nil && !known.Equal(authority) {
		return nil, errors.New("it is not the certificate authority that the members trust")
	}
	return authority, nil
}

// unlessLeaving returns err, unless it only says that nothing can be made any more in a namespace that is being deleted.
// A protected cluster goes on there with what it has.
func (s *pass) unlessLeaving(err error) error {
	if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || s.deleting() {
		return err
	}
	s.keys.leaving = true
	return nil
}

// makeAuthority makes the CA of a new cluster. A cluster whose members trust a CA is never given another one.
func (r *identities) makeAuthority(ctx context.Context, s *pass) error {
	name := resources.NamesOf(s.cluster.Name).CA
	if kept, err := r.ownedSecret(ctx, s, keptName(name)); err != nil || kept != nil {
		if err != nil {
			return err
		}
		return r.finishPutBack(ctx, s, name, kept)
	}
	if known := s.cache.identity.authority; known != nil {
		s.keys.authority = known
		_, err := r.objects.aside(s, "Secret "+name, "as it was", func() error {
			s.log.Info("make the Secret of the certificate authority again, which this process knows", "secret", name)
			return r.createSecret(ctx, resources.CASecret(s.cluster, known.CertificatePEM(), known.KeyPEM(), known.JoinKey()))
		})
		return err
	}
	if len(s.records().Members) > 0 || s.stored.Lost {
		return &engine.Problem{Reason: v1alpha1.ReasonCALost, After: engine.AfterPerson,
			Message: fmt.Sprintf("Secret %s with the certificate authority is gone, and members exist that trust it; restore it from a backup", name)}
	}
	authority, err := pki.NewAuthority(s.uid(), s.cluster.Name, r.Clock.Now())
	if err != nil {
		return fmt.Errorf("make the certificate authority: %w", err)
	}
	s.keys.authority = authority
	return r.createSecret(ctx, resources.CASecret(s.cluster, authority.CertificatePEM(), authority.KeyPEM(), authority.JoinKey()))
}

func (r *identities) identifyOperator(ctx context.Context, s *pass) error {
	name := resources.NamesOf(s.cluster.Name).OperatorTLS
	secret, err := r.ownedSecret(ctx, s, name)
	if err != nil {
		return err
	}
	ca, now := s.keys.authority.CertificatePEM(), r.Clock.Now()
	if secret == nil {
		secret = &corev1.Secret{}
	}
	have := mysql.Identity{CAPEM: ca, CertPEM: secret.Data[resources.KeyCertificate], KeyPEM: secret.Data[resources.KeyPrivateKey]}
	valid := bytes.Equal(secret.Data[resources.KeyCA], ca) && s.keys.authority.IsOperators(have.CertPEM, have.KeyPEM, now)
	if valid && !pki.NeedsRenewal(have.CertPEM, now) {
		show(s, have)
		if !secret.DeletionTimestamp.IsZero() && !s.deleting() && !s.keys.leaving {
			return r.objects.dropFinalizer(ctx, secret) // a new one is issued in the next pass
		}
		return nil
	}
	issued := s.cache.identity.issued
	if issued == nil || !s.keys.authority.IsOperators(issued.CertPEM, issued.KeyPEM, now) {
		cert, key, err := s.keys.authority.IssueOperator(now)
		if err != nil {
			return fmt.Errorf("issue the operator's certificate: %w", err)
		}
		issued = &mysql.Identity{CAPEM: ca, CertPEM: cert, KeyPEM: key}
	}
	show(s, *issued)
	ac, write := resources.OperatorTLSSecret(s.cluster, issued.CertPEM, issued.KeyPEM, ca), r.applySecret
	if secret.UID == "" {
		write = r.createSecret
	}
	refused, err := r.objects.aside(s, "Secret "+name, "renewed", func() error { return write(ctx, ac) })
	s.cache.identity.issued = nil
	switch {
	case refused != nil && valid: // the old one serves until it expires
		show(s, have)
	case refused != nil: // with what is there nobody would let the operator in
		s.cache.identity.issued = issued
	}
	return err
}

// identifyApplication reads the application's password, or makes one. What else the Secret says is put back by publish. Where
// none can be kept there is none, and the members are looked after without.
func (r *identities) identifyApplication(ctx context.Context, s *pass) error {
	name := resources.NamesOf(s.cluster.Name).App
	refused, err := r.objects.aside(s, "Secret "+name, "password", func() error { return r.keepPassword(ctx, s, name) })
	if refused != nil {
		s.keys.password = ""
	}
	return err
}

func (r *identities) keepPassword(ctx context.Context, s *pass, name string) error {
	secret, err := r.ownedSecret(ctx, s, name)
	if err != nil {
		return err
	}
	if secret != nil && len(secret.Data[resources.KeyPassword]) == 0 {
		// A second new password would drop the one that clients have: the cache is not believed about its absence.
		if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
			return fmt.Errorf("read the application's Secret: %w", err)
		}
	}
	if secret != nil && len(secret.Data[resources.KeyPassword]) > 0 {
		s.keys.password = string(secret.Data[resources.KeyPassword])
		return nil
	}
	if s.keys.password, err = resources.RandomPassword(); err != nil {
		return fmt.Errorf("make the application's password: %w", err)
	}
	ac := resources.AppSecret(s.cluster, r.objects.appCredentials(s))
	if secret == nil {
		return r.createSecret(ctx, ac)
	}
	return r.applySecret(ctx, ac)
}

// applySecret writes a Secret of the cluster's own, whoever else has changed it.
func (r *identities) applySecret(ctx context.Context, ac *corev1ac.SecretApplyConfiguration) error {
	if err := r.Client.Apply(ctx, ac, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("write Secret %s: %w", *ac.Name, err)
	}
	return nil
}

// ownedSecret reads one of the cluster's own Secrets, or returns nil when there is none. The cache is not believed
// about its absence, and a Secret of somebody else is never used.
func (r *identities) ownedSecret(ctx context.Context, s *pass, name string) (*corev1.Secret, error) {
	key := client.ObjectKey{Namespace: s.cluster.Namespace, Name: name}
	var secret corev1.Secret
	err := r.Client.Get(ctx, key, &secret)
	if apierrors.IsNotFound(err) {
		err = r.Reader.Get(ctx, key, &secret)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	case !ownedBy(&secret, s.cluster):
		return nil, r.objects.foreign(ctx, s, "Secret", &secret)
	case metav1.GetControllerOf(&secret) == nil && secret.DeletionTimestamp.IsZero() && !s.deleting():
		before := secret.DeepCopy()
		if err := controllerutil.SetControllerReference(s.cluster, &secret, r.Client.Scheme()); err != nil {
			return nil, fmt.Errorf("take Secret %s back: %w", name, err)
		}
		if err := r.Client.Patch(ctx, &secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return nil, fmt.Errorf("take Secret %s back: %w", name, err)
		}
	}
	return &secret, nil
}

// createSecret makes a Secret and never replaces one.
func (r *identities) createSecret(ctx context.Context, ac *corev1ac.SecretApplyConfiguration) error {
	var secret corev1.Secret
	if err := convert(ac, &secret); err != nil {
		return err
	}
	if err := r.Client.Create(ctx, &secret, client.FieldOwner(v1alpha1.FieldManager)); err != nil {
		return fmt.Errorf("create Secret %s: %w", secret.Name, err)
	}
	return nil
}

// keptName names the copy that bridges the moment between a deleted Secret and its return.
func keptName(name string) string { return name + "-kept" }

// putBack undoes the deletion of a Secret that must not be lost. The finalizer kept it; a copy is made before the
// finalizer lets it go, so that a crash at any point leaves one of the two.
func (r *identities) putBack(ctx context.Context, secret *corev1.Secret, ac *corev1ac.SecretApplyConfiguration) error {
	name := secret.Name
	if err := r.createSecret(ctx, ac.WithName(keptName(name))); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := r.objects.dropFinalizer(ctx, secret); err != nil {
		return err
	}
	if others := secret.Finalizers; len(others) > 0 {
		return &engine.Problem{Reason: v1alpha1.ReasonForeignResource, After: engine.AfterPerson, Message: fmt.Sprintf(
			"Secret %s was deleted, and is put back once it is gone, but somebody else's finalizer keeps it (%s): have it taken off. Until then what the Secret said still holds",
			name, strings.Join(others, ", "))}
	}
	return &engine.Problem{Message: "Secret " + name + " was deleted and is put back", After: engine.AfterRepair}
}

// finishPutBack makes the Secret anew from its copy and removes the copy.
func (r *identities) finishPutBack(ctx context.Context, s *pass, name string, kept *corev1.Secret) error {
	ac := resources.CASecret(s.cluster, kept.Data[resources.KeyCertificate], kept.Data[resources.KeyPrivateKey], kept.Data[resources.KeyJoin])
	if err := r.createSecret(ctx, ac); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := r.objects.dropFinalizer(ctx, kept); err != nil {
		return err
	}
	if err := r.Client.Delete(ctx, kept); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Secret %s: %w", kept.Name, err)
	}
	return &engine.Problem{Message: "Secret " + name + " is back", After: engine.AfterRepair}
}

// show sets the identity that members are shown. One that is as before stays the same one: every connection refers to it, and each pass
// reads another copy.
func show(s *pass, identity mysql.Identity) {
	if !s.cache.identity.shown.Equal(identity) {
		s.cache.identity.shown = identity
	}
	s.keys.identity = s.cache.identity.shown
}
