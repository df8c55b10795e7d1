package execute

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/observe"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	// drainPatience is how long the clients of a primary may take to finish before it hands over.
	drainPatience = 10 * time.Second
)

// sqlPort is mysqld on the members of one cluster.
type sqlPort struct {
	r *Executor
	s *pass.Pass
}

func (p sqlPort) Member(_ context.Context, name string) (engine.Member, error) {
	m, err := p.r.Database.Member(p.s, name)
	if err != nil {
		return nil, err
	}
	return sqlMember{m, p.r, p.s, name}, nil
}

func (p sqlPort) Recover(ctx context.Context, a topology.Recover) error {
	return pass.OfKubernetes(p.r.Restorer.Recover(ctx, p.s, a))
}

// sqlMember is the mysqld of one member, with what this operator knows of its cluster.
type sqlMember struct {
	*admin.Member
	r    *Executor
	s    *pass.Pass
	name string
}

// PrepareCertificate answers a member's sealed request. The address that was dialled and the instance id are EC2's word.
func (m sqlMember) PrepareCertificate(ctx context.Context, a topology.SignCertificate) (key string, install func(context.Context) error, err error) {
	if m.s.Keys.Unsigned != nil {
		return "", nil, m.s.Keys.Unsigned
	}
	request, err := m.ReadJoinRequest(ctx)
	if err != nil {
		return "", nil, err
	}
	if key, err = pki.Fingerprint(request.CSR); err != nil {
		return "", nil, engine.Untrusted(a.Member, err)
	}
	if request.InstanceID != a.InstanceID {
		return "", nil, engine.Untrusted(a.Member, fmt.Errorf("it calls itself instance %q, EC2 calls it %s", request.InstanceID, a.InstanceID))
	}
	cert, serial, err := m.s.Keys.Authority.SignMember(pki.MemberRequest{
		CSR: request.CSR, Seal: request.Seal, InstanceID: a.InstanceID, Member: a.Member, Incarnation: a.Incarnation,
		DNSNames: resources.MemberDNSNames(m.s.Cluster, a.Member, m.r.Config.ClusterDomain), IPs: []net.IP{net.ParseIP(a.Address)},
		OperatorCertPEM: m.s.Keys.Identity.CertPEM,
	}, m.r.Clock.Now())
	if err != nil {
		return "", nil, engine.Untrusted(a.Member, err)
	}
	return key, func(ctx context.Context) error { return m.InstallCertificate(ctx, serial, cert) }, nil
}

func (m sqlMember) Adopt(ctx context.Context, a topology.Adopt) error {
	return m.r.Restorer.Adopt(ctx, m.s, m.Member, a)
}

func (m sqlMember) DemotePatiently(ctx context.Context) error {
	return m.DemoteBounded(ctx, admin.DemoteSpec{Patience: drainPatience, Kill: true})
}

func (m sqlMember) DisconnectClients(ctx context.Context) {
	if _, err := m.Member.DisconnectClients(ctx); err != nil {
		m.s.Log.V(1).Info("clients of a former primary stay connected", "member", m.name, "problem", err.Error())
	}
}

// PinSettings puts variables back, and remembers to what: one that does not stay so is left at that.
func (m sqlMember) PinSettings(ctx context.Context, a topology.PinSettings) error {
	if err := m.Member.PinSettings(ctx, a.Settings); err != nil {
		return err
	}
	m.s.Cache.Settings.PutBack(a.Member, a.Settings, m.r.Clock.Now())
	return nil
}

// ApplySettings implements engine.Member. What mysqld refuses is not tried again for a while: it would be set and taken back, or asked
// for in vain, in every pass.
func (m sqlMember) ApplySettings(ctx context.Context, a topology.ApplySettings, before func(context.Context) error) (bool, error) {
	restart, err := m.Member.ApplySettings(ctx, a.Want, a.Drop, before)
	if err == nil {
		m.s.Cache.Settings.Expect(a.Member, a.Want)
	}
	if !errors.Is(err, mysql.ErrSettingRefused) {
		return restart, err
	}
	refused := admin.RefusedSettings(err)
	whys := map[string]string{}
	for name, why := range refused {
		whys[name] = why.Error()
	}
	m.s.Cache.Settings.RefuseSettings(a.Member, a.Want, refused, m.r.Clock.Now())
	return restart, &engine.Problem{Reason: v1alpha1.ReasonSettingRefused, Message: topology.SettingsRefused(whys), After: engine.AfterPerson,
		PauseFrom: pass.SettingPause, Pause: pass.SettingPauseMost, Cause: err}
}

func (m sqlMember) EnsureDatabase(ctx context.Context) error {
	s := m.s
	d := s.Cluster.Spec.Database
	retain := d.PasswordRetention()
	if s.Cluster.Recovery() != nil && s.Records().Database == "" {
		retain = 0 // the password that came with the data is another cluster's
	}
	outcome, err := m.Member.EnsureDatabase(ctx, admin.Database{
		Name: d.Name, Owner: d.OwnerName(), Password: s.Keys.Password, Retain: retain, Cluster: s.UID(), TakeOver: observe.MayTakeOver(s),
		GrantedLiterally: observe.GrantedLiterally(s),
	})
	if p := refusedDatabase(s, err); p != nil {
		s.Cache.Settings.RefusedDatabase = pass.RefusedDatabase{Key: observe.DatabaseRequest(s), Problem: p, At: m.r.Clock.Now()}
		return p
	}
	if err != nil {
		return err
	}
	return s.Stored.Save(ctx, func(records *topology.ClusterRecord) {
		records.Database, records.PasswordUntil = observe.DatabaseRecord(s, outcome.Literal), 0
		if outcome.Retained > 0 {
			records.PasswordUntil = m.r.Clock.Now().Add(outcome.Retained).Unix() + 1
		}
	})
}

// refusedDatabase is the problem of what only a person can put right of the application's account; nil for any other error.
func refusedDatabase(s *pass.Pass, err error) *engine.Problem {
	p := &engine.Problem{After: engine.AfterPerson, PauseFrom: pass.SettingPause, Pause: pass.SettingPause, Cause: err}
	secret, owner := resources.NamesOf(s.Cluster.Name).App, s.Cluster.Spec.Database.OwnerName()
	switch {
	case errors.Is(err, mysql.ErrPasswordRefused):
		p.Reason = v1alpha1.ReasonPasswordRefused
		p.Message = fmt.Sprintf("%v; change the key %s of Secret %s", err, resources.KeyPassword, secret)
	case errors.Is(err, mysql.ErrAccountNotOurs):
		p.Reason = v1alpha1.ReasonForeignResource
		p.Message = fmt.Sprintf("the account '%s'@'%%' is there already, and the operator did not make it: it is left as it is. Put its password into the key %s of Secret %s, "+
			"or let the operator give it that of the Secret: kubectl annotate nmysql %s %s=%[1]s", owner, resources.KeyPassword, secret, s.Cluster.Name, v1alpha1.AnnotationTakeOverAccount)
	default:
		return nil
	}
	return p
}
