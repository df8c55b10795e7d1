// Package identity keeps the Secrets by which the members of a cluster, its operator and its application know each other.
package identity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/objects"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// Identities keeps the certificates and passwords of a cluster, and the Secrets that it may read.
type Identities struct {
	*pass.Ports
	Objects *objects.Objects
}

// Identify reads, and where they are missing makes, the cluster's CA, the operator's client certificate and the
// application's credentials. Without the CA it uses the client certificate that is stored: to observe the members and to fail over
// nothing has to be signed.
func (r *Identities) Identify(ctx context.Context, s *pass.Pass) error {
	err := r.identifyAuthority(ctx, s)
	if p := pass.AsProblem(err); p != nil && !p.Quiet() {
		err = r.continueWithout(ctx, s, p)
	}
	if err == nil && s.Keys.Authority != nil {
		err = r.identifyOperator(ctx, s)
	}
	switch {
	case err != nil && s.Deleting():
		// Without an identity the members cannot be asked, but they can be taken down.
		p := *pass.AsProblem(err)
		p.Aside = true
		s.Result.Problems = append(s.Result.Problems, &p)
		return nil
	case err != nil, s.Cluster.Spec.Database == nil, s.Deleting():
		return err
	}
	return r.identifyApplication(ctx, s)
}

func (r *Identities) identifyAuthority(ctx context.Context, s *pass.Pass) error {
	name := resources.NamesOf(s.Cluster.Name).CA
	secret, err := r.Objects.OwnedSecret(ctx, s, name)
	if err != nil {
		return err
	}
	if secret == nil {
		return r.makeAuthority(ctx, s)
	}
	authority, err := authorityIn(s, secret)
	if known := s.Cache.Identity.Authority; err != nil && known != nil && secret.DeletionTimestamp.IsZero() {
		s.Keys.Sign(known)
		_, err = r.Objects.Aside(s, "Secret "+name, "as it was", func() error {
			s.Log.Info("put the certificate authority back, which this process knows", "secret", name, "problem", err.Error())
			return r.Objects.ApplySecret(ctx, resources.CASecret(s.Cluster, known.CertificatePEM(), known.KeyPEM(), known.JoinKey()))
		})
		return err
	}
	if err != nil {
		return &engine.Problem{Reason: v1alpha1.ReasonCAInvalid, After: engine.AfterPerson, Cause: err,
			Message: fmt.Sprintf("Secret %s does not hold this cluster's certificate authority (%v): no instance is launched and no certificate is signed; restore it from a backup", name, err)}
	}
	s.Keys.Sign(authority)
	s.Cache.Identity.Authority = authority
	if !secret.DeletionTimestamp.IsZero() && !s.Deleting() {
		_, err = r.Objects.Aside(s, "Secret "+name, "again", func() error { // the finalizer keeps it
			return r.putBack(ctx, secret, resources.CASecret(s.Cluster, authority.CertificatePEM(), authority.KeyPEM(), authority.JoinKey()))
		})
		return err
	}
	return nil
}

// continueWithout continues the pass although the Secret with the CA cannot be used: with the CA as this process knows it, or with the
// client certificate that is stored, which signs nothing. Without either it returns the problem, which ends the pass.
func (r *Identities) continueWithout(ctx context.Context, s *pass.Pass, problem *engine.Problem) error {
	aside := *problem
	aside.Aside = true
	if known := s.Cache.Identity.Authority; known != nil {
		s.Keys.Sign(known)
		s.Result.Problems = append(s.Result.Problems, &aside)
		return nil
	}
	secret, err := r.Objects.OwnedSecret(ctx, s, resources.NamesOf(s.Cluster.Name).OperatorTLS)
	if p := pass.AsProblem(err); p != nil && p.Quiet() {
		return err
	}
	if secret == nil {
		return problem
	}
	stored := mysql.Identity{CAPEM: secret.Data[resources.KeyCA], CertPEM: secret.Data[resources.KeyCertificate], KeyPEM: secret.Data[resources.KeyPrivateKey]}
	root, err := pki.ParseRoot(stored.CAPEM)
	if err != nil || root.UID() != s.UID() || !root.IsOperators(stored.CertPEM, stored.KeyPEM, r.Clock.Now()) {
		return problem
	}
	s.Keys.Root, s.Keys.Unsigned = root, &aside
	s.Result.Problems = append(s.Result.Problems, &aside)
	show(s, stored)
	return nil
}

// authorityIn reads the cluster's certificate authority. Another cluster's, and another one than this process knows, are as wrong as
// one that cannot be read: the members trust the one that they were made with.
func authorityIn(s *pass.Pass, secret *corev1.Secret) (*pki.Authority, error) {
	authority, err := pki.ParseAuthority(secret.Data[resources.KeyCertificate], secret.Data[resources.KeyPrivateKey], secret.Data[resources.KeyJoin])
	if err != nil {
		return nil, err
	}
	if authority.UID() != s.UID() {
		return nil, fmt.Errorf("it is the certificate authority of the cluster with UID %q", authority.UID())
	}
	if known := s.Cache.Identity.Authority; known != nil && !known.Equal(authority) {
		return nil, errors.New("it is not the certificate authority that the members trust")
	}
	return authority, nil
}

// makeAuthority makes the CA of a new cluster. A cluster whose members trust a CA is never given another one.
func (r *Identities) makeAuthority(ctx context.Context, s *pass.Pass) error {
	name := resources.NamesOf(s.Cluster.Name).CA
	if kept, err := r.Objects.OwnedSecret(ctx, s, objects.KeptName(name)); err != nil || kept != nil {
		if err != nil {
			return err
		}
		return r.finishPutBack(ctx, s, name, kept)
	}
	if known := s.Cache.Identity.Authority; known != nil {
		s.Keys.Sign(known)
		_, err := r.Objects.Aside(s, "Secret "+name, "as it was", func() error {
			s.Log.Info("make the Secret of the certificate authority again, which this process knows", "secret", name)
			return r.Objects.CreateSecret(ctx, resources.CASecret(s.Cluster, known.CertificatePEM(), known.KeyPEM(), known.JoinKey()))
		})
		return err
	}
	if len(s.Records().Members) > 0 || s.Stored.Lost {
		return &engine.Problem{Reason: v1alpha1.ReasonCALost, After: engine.AfterPerson,
			Message: fmt.Sprintf("Secret %s with the certificate authority is gone, and members exist that trust it: no instance is launched and no certificate is signed; restore it from a backup", name)}
	}
	authority, err := pki.NewAuthority(s.UID(), s.Cluster.Name, r.Clock.Now())
	if err != nil {
		return fmt.Errorf("make the certificate authority: %w", err)
	}
	s.Keys.Sign(authority)
	return r.Objects.CreateSecret(ctx, resources.CASecret(s.Cluster, authority.CertificatePEM(), authority.KeyPEM(), authority.JoinKey()))
}

// identifyOperator reads the operator's client certificate, or issues one. One that cannot be stored, because something else is in its
// place or the API server refuses it, is used from memory.
func (r *Identities) identifyOperator(ctx context.Context, s *pass.Pass) error {
	name := resources.NamesOf(s.Cluster.Name).OperatorTLS
	var secret *corev1.Secret
	inTheWay, err := r.Objects.Aside(s, "Secret "+name, "read", func() (err error) {
		secret, err = r.Objects.OwnedSecret(ctx, s, name)
		return err
	})
	switch {
	case err != nil:
		return err
	case inTheWay != nil:
		return r.issueUnstored(s)
	}
	ca, now := s.Keys.Authority.CertificatePEM(), r.Clock.Now()
	if secret == nil {
		secret = &corev1.Secret{}
	}
	have := mysql.Identity{CAPEM: ca, CertPEM: secret.Data[resources.KeyCertificate], KeyPEM: secret.Data[resources.KeyPrivateKey]}
	valid := bytes.Equal(secret.Data[resources.KeyCA], ca) && s.Keys.Authority.IsOperators(have.CertPEM, have.KeyPEM, now)
	if valid && !pki.NeedsRenewal(have.CertPEM, now) {
		show(s, have)
		if !secret.DeletionTimestamp.IsZero() && !s.Deleting() && !s.Keys.Leaving {
			return r.Objects.DropFinalizer(ctx, secret) // a new one is issued in the next pass
		}
		return nil
	}
	issued, err := r.issue(s)
	if err != nil {
		return err
	}
	show(s, *issued)
	ac, write := resources.OperatorTLSSecret(s.Cluster, issued.CertPEM, issued.KeyPEM, ca), r.Objects.ApplySecret
	if secret.UID == "" {
		write = r.Objects.CreateSecret
	}
	refused, err := r.Objects.Aside(s, "Secret "+name, "renewed", func() error { return write(ctx, ac) })
	s.Cache.Identity.Issued = nil
	switch {
	case refused != nil && valid: // the old one serves until it expires
		show(s, have)
	case refused != nil: // with what is there nobody would let the operator in
		s.Cache.Identity.Issued = issued
	}
	return err
}

// issueUnstored shows the members a certificate that is kept in memory alone.
func (r *Identities) issueUnstored(s *pass.Pass) error {
	issued, err := r.issue(s)
	if err != nil {
		return err
	}
	s.Cache.Identity.Issued = issued
	show(s, *issued)
	return nil
}

// issue returns a new certificate of the operator's, or the one that could not be stored yet.
func (r *Identities) issue(s *pass.Pass) (*mysql.Identity, error) {
	now := r.Clock.Now()
	if issued := s.Cache.Identity.Issued; issued != nil && s.Keys.Authority.IsOperators(issued.CertPEM, issued.KeyPEM, now) {
		return issued, nil
	}
	cert, key, err := s.Keys.Authority.IssueOperator(now)
	if err != nil {
		return nil, fmt.Errorf("issue the operator's certificate: %w", err)
	}
	return &mysql.Identity{CAPEM: s.Keys.Authority.CertificatePEM(), CertPEM: cert, KeyPEM: key}, nil
}

// identifyApplication reads the application's password, or makes one. What else the Secret says is put back by publish. Where
// none can be kept there is none, and the members are looked after without.
func (r *Identities) identifyApplication(ctx context.Context, s *pass.Pass) error {
	name := resources.NamesOf(s.Cluster.Name).App
	refused, err := r.Objects.Aside(s, "Secret "+name, "password", func() error { return r.keepPassword(ctx, s, name) })
	if refused != nil {
		s.Keys.Password = ""
	}
	return err
}

func (r *Identities) keepPassword(ctx context.Context, s *pass.Pass, name string) error {
	secret, err := r.Objects.OwnedSecret(ctx, s, name)
	if err != nil {
		return err
	}
	if secret != nil && len(secret.Data[resources.KeyPassword]) == 0 {
		// A second new password would drop the one that clients have: the cache is not believed about its absence.
		if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
			return fmt.Errorf("read the application's Secret: %w", err)
		}
	}
	if secret != nil {
		s.Keys.PasswordSecret = secret.Type
	}
	if secret != nil && len(secret.Data[resources.KeyPassword]) > 0 {
		s.Keys.Password = string(secret.Data[resources.KeyPassword])
		return nil
	}
	if s.Keys.Password, err = resources.RandomPassword(); err != nil {
		return fmt.Errorf("make the application's password: %w", err)
	}
	ac := resources.AppSecret(s.Cluster, r.Objects.AppCredentials(s))
	if secret == nil {
		return r.Objects.CreateSecret(ctx, ac)
	}
	return r.Objects.ApplySecret(ctx, ac)
}

// putBack undoes the deletion of a Secret that must not be lost. The finalizer kept it; a copy is made before the
// finalizer lets it go, so that a crash at any point leaves one of the two.
func (r *Identities) putBack(ctx context.Context, secret *corev1.Secret, ac *corev1ac.SecretApplyConfiguration) error {
	name := secret.Name
	if err := r.Objects.CreateSecret(ctx, ac.WithName(objects.KeptName(name))); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := r.Objects.DropFinalizer(ctx, secret); err != nil {
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
func (r *Identities) finishPutBack(ctx context.Context, s *pass.Pass, name string, kept *corev1.Secret) error {
	ac := resources.CASecret(s.Cluster, kept.Data[resources.KeyCertificate], kept.Data[resources.KeyPrivateKey], kept.Data[resources.KeyJoin])
	if err := r.Objects.CreateSecret(ctx, ac); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := r.Objects.DropFinalizer(ctx, kept); err != nil {
		return err
	}
	if err := r.Client.Delete(ctx, kept); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Secret %s: %w", kept.Name, err)
	}
	return &engine.Problem{Message: "Secret " + name + " is back", After: engine.AfterRepair}
}

// show sets the identity that members are shown. One that is as before stays the same one: every connection refers to it, and each pass
// reads another copy.
func show(s *pass.Pass, identity mysql.Identity) {
	if !s.Cache.Identity.Shown.Equal(identity) {
		s.Cache.Identity.Shown = identity
	}
	s.Keys.Identity = s.Cache.Identity.Shown
}
