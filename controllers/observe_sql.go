package controllers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// mysqlObserver says what the mysqlds of a cluster answer.
type mysqlObserver struct {
	*Ports
}

// observeSQL asks every member whose machine is up, side by side.
func (r *mysqlObserver) observeSQL(ctx context.Context, s *pass) error {
	if err := r.readInService(ctx, s); err != nil {
		return err
	}
	if len(s.keys.identity.CertPEM) == 0 {
		return nil
	}
	if err := s.cache.looks.members.Observe(ctx, &s.observed, r.lookPorts(s)); err != nil {
		return err
	}
	r.readCrashErrors(ctx, s)
	s.observed.DatabaseReady = databaseReady(s, r.Clock.Now()) || s.keys.leaving || s.keys.password == "" || // its password cannot be kept
		r.refusedDatabase(s)
	return nil
}

// lookPorts are what the members of a cluster are looked at through.
func (r *mysqlObserver) lookPorts(s *pass) engine.LookPorts {
	return engine.LookPorts{
		Threads: goroutines{}, Clock: r.Clock, ParseGTIDs: gtid.Parse,
		Server: func(ctx context.Context, m *topology.Member) engine.LookedAt {
			in := m.CurrentInstance()
			handle := r.handle(ctx, s, m.Name, in.ID, in.Address)
			handle.WatchSettings(s.settingNames())
			return handle
		},
		Judge: func(m *topology.Member, o mysql.Observation) { r.judgeSettings(s, m, o) },
		Heard: func(ctx context.Context, m *topology.Member) { r.followSilence(ctx, s, m) },
	}
}

// followSilence has the port of a member tried that should have answered, and reads its console.
func (r *mysqlObserver) followSilence(ctx context.Context, s *pass, m *topology.Member) {
	id := m.CurrentInstance().ID
	switch m.SQL.Access {
	case topology.AccessSilent, topology.AccessRefused:
		r.knock(ctx, s, m)
		r.readConsole(ctx, s, m, id)
	case topology.AccessNone, topology.AccessUnverified, topology.AccessDenied, topology.AccessVerified:
		delete(s.cache.looks.stage, m.Name)
		delete(s.cache.looks.knocks, id)
		r.readStartError(ctx, s, m, id)
	}
}

// readInService reads which replicas are published as ready: the memory of the lag's hysteresis is the object itself.
func (r *mysqlObserver) readInService(ctx context.Context, s *pass) error {
	replicas := resources.NamesOf(s.cluster.Name).Replicas
	var slice discoveryv1.EndpointSlice
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: replicas}, &slice)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read EndpointSlice %s: %w", replicas, err)
	}
	for _, e := range slice.Endpoints {
		if e.Conditions.Ready == nil || *e.Conditions.Ready {
			for _, m := range s.observed.Members {
				if in := m.CurrentInstance(); in != nil && len(e.Addresses) > 0 && e.Addresses[0] == in.Address {
					s.observed.InService[m.Name] = true
				}
			}
		}
	}
	return nil
}

// handle returns the SQL handle of a member's instance.
func (r *mysqlObserver) handle(ctx context.Context, s *pass, member, instanceID, address string) *mysql.Member {
	return r.SQL.Member(ctx, mysql.Endpoint{
		Key:        s.uid() + "/" + member + "/" + instanceID,
		Address:    net.JoinHostPort(address, strconv.Itoa(v1alpha1.MySQLPort)),
		ServerName: resources.MemberDNSNames(s.cluster, member, "")[0],
	}, s.keys.identity)
}

// member returns the SQL handle of a member as it was observed.
func (r *mysqlObserver) member(ctx context.Context, s *pass, name string) (*mysql.Member, error) {
	m := s.observed.Members[name]
	if m == nil || m.CurrentInstance() == nil || m.CurrentInstance().Address == "" {
		return nil, fmt.Errorf("%s has no address", name)
	}
	in := m.CurrentInstance()
	return r.handle(ctx, s, name, in.ID, in.Address), nil
}

// databaseKey identifies what EnsureDatabase would make. Of the password it is a hash: 190 random bits cannot be guessed.
func databaseKey(s *pass) string {
	if s.cluster.Spec.Database == nil {
		return ""
	}
	d := s.cluster.Spec.Database
	words := []string{d.Name, d.OwnerName(), s.keys.password}
	if kept := d.PasswordRetention(); kept != v1alpha1.DefaultPasswordRetention {
		words = append(words, kept.String())
	}
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// databaseReady says whether the application database is as it was wanted last, and no password of before has outlived its
// time.
func databaseReady(s *pass, now time.Time) bool {
	until := s.records().PasswordUntil
	return s.records().Database == databaseKey(s) && (until == 0 || now.Before(time.Unix(until, 0)))
}

// judgeSettings compares a member's variables with the pinned ones and with the spec, and its certificate with the
// clock. A persisted value that means the same as the spec's counts as the spec's.
func (r *mysqlObserver) judgeSettings(s *pass, m *topology.Member, o mysql.Observation) {
	if m.SQL.Access != topology.AccessVerified {
		return
	}
	m.SQL.Drifted, m.SQL.Misconfigured, m.SQL.Persisted = map[string]string{}, map[string]string{}, map[string]string{}
	for name, pinned := range mysql.PinnedSettings() {
		switch have, ok := o.Settings[name]; {
		case !ok:
			m.SQL.Misconfigured[name] = "" // of a plug-in that is not loaded: there is nothing to put back
		case !mysql.EqualSetting(pinned, have):
			m.SQL.Drifted[name] = pinned
		}
	}
	for name, takes := range o.Refusing {
		if _, wanted := s.desired.Settings[name]; !wanted {
			m.SQL.Drifted[name] = takes
		}
	}
	// A change of role that was cut off between two statements leaves a replica half open: who may write beside read_only could.
	if o.ReadOnly && !o.SuperReadOnly && o.Replication != nil {
		m.SQL.Drifted["super_read_only"] = "ON"
	}
	for name, pinned := range mysql.ReadOnlyPins() {
		if have := o.Settings[name]; !mysql.EqualSetting(pinned, have) {
			m.SQL.Misconfigured[name] = have
		}
	}
	for name, have := range o.Persisted {
		want, wanted := s.desired.Settings[name]
		if expected, ok := s.cache.settings.expected[m.Name][name]; ok {
			// MySQL may spell out what was set (an optimizer_switch, a mode): what it made of our value is our value.
			s.cache.settings.taken[m.Name+" "+name] = expected + "\x00" + have
			delete(s.cache.settings.expected[m.Name], name)
		}
		if wanted && (mysql.EqualSetting(want, have) || s.cache.settings.taken[m.Name+" "+name] == want+"\x00"+have) {
			have = want
		}
		m.SQL.Persisted[name] = have
	}
	if due := s.records().Members[m.Name].RestartDue; due != 0 {
		m.SQL.RestartPending = o.StartedAt.Unix() < s.cache.restartDue(m.Name, due, r.Clock.Now())
	}
	if !m.SQL.RestartPending && !m.SQL.PersistedIgnored && !s.recovering() { // what restores sets some for itself
		judgeDrift(s, m, o)
	}
	r.overlookRefused(s, m)
	m.SQL.CertificateIssuedAt = pki.IssuedAt(o.CertNotBefore)
	m.SQL.CertificateRenewalDue = o.CertNotAfter.Sub(r.Clock.Now()) < pki.MemberRenewalWindow
}

// restartLead is by how much the clock that a restart was noted with may be ahead.
const restartLead = 5 * time.Second

// futureRestart is a restart that is due in the future, and when it was first seen.
type futureRestart struct{ due, seen int64 }

// restartDue is from when on a server must have started to count as restarted, in Unix seconds. What is due in the future was noted by
// a clock that went wrong, and is due now: no server would have started after it, however often it is restarted until then.
func (n *clusterCache) restartDue(member string, due int64, now time.Time) int64 {
	if due <= now.Add(restartLead).Unix() {
		return due
	}
	if n.settings.restartsAhead[member].due != due {
		n.settings.restartsAhead[member] = futureRestart{due: due, seen: now.Unix()}
	}
	return n.settings.restartsAhead[member].seen
}

// judgeDrift finds the settings of the spec that are persisted and were changed on the running server. What does not stay as
// it was put back, because mysqld makes another value of it or takes none before a restart, is left at that, and so are a
// limit of connections that was raised to let replicas in, and a variable whose component is no longer there.
func judgeDrift(s *pass, m *topology.Member, o mysql.Observation) {
	for name, want := range s.desired.Settings {
		key, persisted := m.Name+" "+name, o.Persisted[name]
		have, known := o.Settings[name]
		ours := name == mysql.MaxConnections && s.records().Members[m.Name].MaxConnections != 0
		if m.SQL.Persisted[name] != want || !known || mysql.EqualSetting(persisted, have) || ours {
			delete(s.cache.settings.kept, key)
			continue
		}
		if s.cache.settings.kept[key] == persisted+"\x00" {
			s.cache.settings.kept[key] += have
		}
		if s.cache.settings.kept[key] != persisted+"\x00"+have {
			m.SQL.Drifted[name] = persisted
		}
	}
}
