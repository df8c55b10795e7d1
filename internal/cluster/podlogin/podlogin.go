// Package podlogin gives pods of a cluster what they log in to its members with: a certificate and an account.
package podlogin

import (
	"bytes"
	"context"
	"fmt"
	"time"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/objects"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/observe"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// accountCheck is how often an account is checked again: a person may have dropped or changed it.
const accountCheck = 10 * time.Minute

// Login is what one kind of pod logs in with.
type Login struct {
	Client pki.Client
	// User is the account.
	User string
	// Secret makes the Secret with the certificate.
	Secret func(c *v1alpha1.MySQLCluster, cert, key, ca []byte) *corev1ac.SecretApplyConfiguration
}

// The logins of the pods of backups, and of the one that exports metrics.
var (
	Backup  = Login{Client: pki.BackupPods, User: mysql.BackupUser, Secret: resources.BackupTLSSecret}
	Metrics = Login{Client: pki.MetricsPod, User: mysql.MetricsUser, Secret: resources.MetricsTLSSecret}
)

// Logins keeps the certificates and accounts of pods.
type Logins struct {
	*pass.Ports
	Objects  *objects.Objects
	Database *observe.Database
}

// Certificate issues the certificate of a login, and renews it. While nothing can be signed, one that is valid is kept.
func (l *Logins) Certificate(ctx context.Context, s *pass.Pass, login Login) error {
	ca, now := s.Keys.Root.CertificatePEM(), l.Clock.Now()
	name := *login.Secret(s.Cluster, nil, nil, ca).Name
	secret, err := l.Objects.OwnedSecret(ctx, s, name)
	if err != nil {
		return err
	}
	valid := secret != nil && bytes.Equal(secret.Data[resources.KeyCA], ca) &&
		s.Keys.Root.IsClients(login.Client, secret.Data[resources.KeyCertificate], secret.Data[resources.KeyPrivateKey], now)
	switch unsigned := s.Keys.Authority == nil; {
	case valid && (unsigned || !pki.NeedsRenewal(secret.Data[resources.KeyCertificate], now)):
		return nil
	case unsigned:
		return s.Keys.Unsigned
	}
	cert, key, err := s.Keys.Authority.IssueClient(login.Client, now)
	if err != nil {
		return fmt.Errorf("issue the certificate of %s: %w", login.User, err)
	}
	ac := login.Secret(s.Cluster, cert, key, ca)
	if secret == nil {
		return s.UnlessLeaving(l.Objects.CreateSecret(ctx, ac))
	}
	return l.Objects.ApplySecret(ctx, ac)
}

// Account makes the account of a login, through the primary that was known when this pass began, unless that has answered no commit
// since the previous pass. An account that is right is checked again every ten minutes, and when cause changes.
func (l *Logins) Account(ctx context.Context, s *pass.Pass, login Login, cause string) error {
	m, issuer, subject := s.Observed.Members[s.Plan.Primary], s.Keys.Root.IssuerDN(), s.Keys.Root.ClientDN(login.Client)
	wanted := s.Plan.Primary + issuer + subject + l.period(s) + cause
	if !s.HasWritable() || !m.StalledSince.IsZero() && m.StalledSince.Before(s.Observed.Now) || s.Cache.Logins[login.User] == wanted {
		return nil
	}
	handle, err := l.Database.Member(s, m.Name)
	if err != nil {
		return err
	}
	changed, err := handle.EnsurePodAccount(ctx, login.User, issuer, subject)
	if err != nil {
		return err
	}
	s.Cache.Logins[login.User] = wanted
	if changed {
		s.Log.Info("made an account of pods", "account", login.User)
	}
	return nil
}

// period changes every accountCheck, for each cluster at its own time.
func (l *Logins) period(s *pass.Pass) string {
	return fmt.Sprintf("/%d/", l.Clock.Since(s.Cluster.CreationTimestamp.Time)/accountCheck)
}
