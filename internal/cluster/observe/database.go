package observe

import (
	"context"
	"fmt"
	"strconv"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/internal/bootstrap"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/settings"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// Observe asks every member whose instance is up, side by side.
func (r *Database) Observe(ctx context.Context, s *pass.Pass) error {
	if err := r.readInService(ctx, s); err != nil {
		return err
	}
	if len(s.Keys.Identity.CertPEM) == 0 {
		return nil
	}
	if err := s.Cache.Looks.Members.Observe(ctx, &s.Observed, r.lookPorts(s)); err != nil {
		return err
	}
	r.readCrashErrors(ctx, s)
	s.Observed.DatabaseReady = databaseReady(s, r.Clock.Now()) || s.Keys.Leaving || s.Keys.Password == "" || // its password cannot be kept
		r.refusedDatabase(s)
	return nil
}

// lookPorts are what the members of a cluster are looked at through.
func (r *Database) lookPorts(s *pass.Pass) engine.LookPorts {
	cluster := client.ObjectKeyFromObject(s.Cluster)
	return engine.LookPorts{
		Threads: pass.Goroutines{}, Clock: r.Clock, ParseGTIDs: gtid.Parse,
		Server: func(_ context.Context, m *topology.Member) engine.LookedAt {
			in := m.CurrentInstance()
			handle := r.handle(s, m.Name, in.ID, in.Address)
			handle.WatchSettings(s.SettingNames())
			return handle
		},
		Judge: func(m *topology.Member, o mysql.Observation) { r.judgeSettings(s, m, o) },
		Heard: func(ctx context.Context, m *topology.Member) { r.followSilence(ctx, s, m) },
		Wake:  func() { r.LookNow(cluster) },
	}
}

// followSilence has the port of a member tried that should have answered, and reads its console.
func (r *Database) followSilence(ctx context.Context, s *pass.Pass, m *topology.Member) {
	id := m.CurrentInstance().ID
	switch m.SQL.Access {
	case topology.AccessSilent, topology.AccessRefused:
		r.probePort(ctx, s, m)
		r.readConsole(ctx, s, m, id)
	case topology.AccessNone, topology.AccessUnverified, topology.AccessDenied, topology.AccessVerified:
		delete(s.Cache.Looks.Boots, m.Name)
		delete(s.Cache.Looks.PortProbes, id)
		r.readStartError(ctx, s, m, id)
	}
}

// readInService reads which replicas are published as ready: the memory of the lag's hysteresis is the object itself.
func (r *Database) readInService(ctx context.Context, s *pass.Pass) error {
	replicas := resources.NamesOf(s.Cluster.Name).Replicas
	var slice discoveryv1.EndpointSlice
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.Cluster.Namespace, Name: replicas}, &slice)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read EndpointSlice %s: %w", replicas, err)
	}
	for _, e := range slice.Endpoints {
		if e.Conditions.Ready == nil || *e.Conditions.Ready {
			for _, m := range s.Observed.Members {
				if in := m.CurrentInstance(); in != nil && len(e.Addresses) > 0 && e.Addresses[0] == in.Address {
					s.Observed.InService[m.Name] = true
				}
			}
		}
	}
	return nil
}

// Member returns the SQL handle of a member as it was observed.
func (r *Database) Member(s *pass.Pass, name string) (*admin.Member, error) {
	m := s.Observed.Members[name]
	if m == nil || m.CurrentInstance() == nil || m.CurrentInstance().Address == "" {
		return nil, fmt.Errorf("%s has no address", name)
	}
	in := m.CurrentInstance()
	return r.handle(s, name, in.ID, in.Address), nil
}

// databaseReady says whether the application database is as it was wanted last, its owner's privileges are in the form that the member which
// takes writes goes by, and no password of before has outlived its time.
func databaseReady(s *pass.Pass, now time.Time) bool {
	literal := GrantedLiterally(s)
	for _, m := range s.Observed.Members {
		if m.SQL.Access == topology.AccessVerified && m.SQL.Writable {
			literal = m.SQL.PartialRevokes
		}
	}
	until := s.Records().PasswordUntil
	return s.Records().Database == DatabaseRecord(s, literal) && (until == 0 || now.Before(time.Unix(until, 0)))
}

// judgeSettings compares a member's variables with the pinned ones and with the spec, and its certificate with the
// clock. A persisted value that means the same as the spec's counts as the spec's.
func (r *Database) judgeSettings(s *pass.Pass, m *topology.Member, o mysql.Observation) {
	if m.SQL.Access != topology.AccessVerified {
		return
	}
	m.SQL.Drifted, m.SQL.Misconfigured, m.SQL.Persisted = map[string]string{}, map[string]string{}, map[string]string{}
	judgePinned(s, m, o)
	m.SQL.PartialRevokes = mysql.EqualSetting("ON", o.Settings[mysql.PartialRevokes])
	o.Persisted = settings.ByVariable(o.Persisted)
	for name, have := range o.Persisted {
		want, wanted := s.Desired.Settings[name]
		if expected, ok := s.Cache.Settings.Expected[m.Name][name]; ok {
			// MySQL may spell out what was set (an optimizer_switch, a mode): what it made of our value is our value.
			s.Cache.Settings.Taken[m.Name+" "+name] = expected + "\x00" + have
			delete(s.Cache.Settings.Expected[m.Name], name)
		}
		if wanted && (mysql.EqualSetting(want, have) || s.Cache.Settings.Taken[m.Name+" "+name] == want+"\x00"+have) {
			have = want
		}
		m.SQL.Persisted[name] = have
	}
	if due := s.Records().Members[m.Name].RestartDue; due != 0 {
		m.SQL.RestartPending = o.StartedAt.Unix() < s.Cache.RestartDue(m.Name, due, r.Clock.Now())
	}
	if !m.SQL.RestartPending && !m.SQL.PersistedIgnored && !s.Recovering() { // what restores sets some for itself
		r.judgeDrift(s, m, o)
	}
	m.SQL.Refused = r.refusals(s, m)
	m.SQL.CertificateIssuedAt = pki.IssuedAt(o.CertNotBefore)
	m.SQL.CertificateRenewalDue = o.CertNotAfter.Sub(r.Clock.Now()) < pki.MemberRenewalWindow
}

// judgePinned compares a member's variables with the pinned ones.
func judgePinned(s *pass.Pass, m *topology.Member, o mysql.Observation) {
	for name, pinned := range mysql.PinnedSettings() {
		switch have, ok := o.Settings[name]; {
		case name == mysql.BinlogFormat && o.Replication != nil: // it passes on what it receives as it came, and does not take another format
		case !ok:
			m.SQL.Misconfigured[name] = "" // of a plug-in that is not loaded: there is nothing to put back
		case !mysql.EqualSetting(pinned, have):
			m.SQL.Drifted[name] = pinned
		}
	}
	for name, takes := range o.Refusing {
		if _, wanted := s.Desired.Settings[name]; !wanted {
			m.SQL.Drifted[name] = takes
		}
	}
	judgeServer(m, o)
	// What was cut off between two statements leaves a server half open: who may write beside read_only could.
	if o.ReadOnly && !o.SuperReadOnly {
		m.SQL.Drifted[mysql.SuperReadOnly] = "ON"
	}
	for name, pinned := range mysql.ReadOnlyPins() {
		if have := o.Settings[name]; !mysql.EqualSetting(pinned, have) {
			m.SQL.Misconfigured[name] = have
		}
	}
}

// judgeServer finds what somebody changed of the server that is no pinned variable.
func judgeServer(m *topology.Member, o mysql.Observation) {
	if incarnation := m.VolumeIncarnation(); incarnation > 0 && o.ServerID != bootstrap.ServerID(m.Ordinal, incarnation) {
		m.SQL.Drifted[mysql.ServerID] = strconv.FormatUint(uint64(bootstrap.ServerID(m.Ordinal, incarnation)), 10)
	}
	if o.Settings[mysql.RedoLog] == "OFF" {
		m.SQL.Drifted[mysql.RedoLog] = "ON"
	}
	if o.Settings[mysql.ClonePlugin] == "OFF" {
		m.SQL.Drifted[mysql.ClonePlugin] = "ON"
	}
}

// judgeDrift finds the settings of the spec that are persisted and were changed on the running server. Three are left as they are: one
// that did not stay as it was put back, because mysqld makes another value of it or takes none before a restart; a limit of connections
// that was raised to let replicas in; and a variable whose component is no longer there. One that is changed again each time counts as refused.
func (r *Database) judgeDrift(s *pass.Pass, m *topology.Member, o mysql.Observation) {
	for name, want := range s.Desired.Settings {
		key, persisted := m.Name+" "+name, o.Persisted[name]
		have, known := o.Settings[name]
		ours := name == mysql.MaxConnections && s.Records().Members[m.Name].MaxConnections != 0
		if m.SQL.Persisted[name] != want || !known || mysql.EqualSetting(persisted, have) || ours {
			delete(s.Cache.Settings.Kept, key)
			continue
		}
		if s.Cache.Settings.Kept[key] == persisted+"\x00" {
			s.Cache.Settings.Kept[key] += have
		}
		if s.Cache.Settings.Kept[key] == persisted+"\x00"+have {
			continue
		}
		now := r.Clock.Now()
		always, again := s.Cache.Settings.Returns(m.Name, name, now)
		if always {
			why := fmt.Errorf("it is %s again each time that it is put back; another setting or a client changes it", have)
			s.Cache.Settings.RefuseSettings(m.Name, s.Desired.Settings, map[string]error{name: why}, now)
		}
		if again {
			m.SQL.Drifted[name] = persisted
		}
	}
}
