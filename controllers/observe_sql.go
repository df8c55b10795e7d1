package controllers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
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
	var wg sync.WaitGroup
	sightings := map[string]*sighting{}
	for _, m := range s.observed.Members {
		in := m.CurrentInstance()
		if in == nil || in.State != ec2.StateRunning || in.Address == "" {
			s.cache.looks.detector.NoteAnswer(m, s.observed.Now, r.Clock.Now())
			continue
		}
		sg, patience := r.look(ctx, s, m.Name, in), lookPatience
		if !s.cache.looks.detector.SilentSince(m.Name).IsZero() {
			patience = silentPatience
		}
		sightings[m.Name] = sg
		wg.Go(func() { sg.await(patience) })
	}
	wg.Wait()
	for name, sg := range sightings {
		m := s.observed.Members[name]
		o, answered := sg.outcome()
		m.SQL = sqlOf(o)
		if answered {
			delete(s.cache.looks.sightings, m.CurrentInstance().ID)
			r.judgeSettings(s, m, o)
			if err := takeClaim(s, m, sg); err != nil {
				return err
			}
		}
		r.trackSilence(ctx, s, m, sg.started)
	}
	s.cache.looks.detector.Note(&s.observed)
	r.readCrashErrors(ctx, s)
	s.observed.DatabaseReady = databaseReady(s, r.Clock.Now()) || s.keys.leaving || s.keys.password == "" || // its password cannot be kept
		r.refusedDatabase(s)
	return nil
}

// takeClaim notes that this process took a member's one writing session. It claims every member the first time that it
// reaches it, before anything is decided: from then on a leader that was replaced without knowing it can change nothing
// there. A member that could not be claimed counts as not reached; without the lease the pass ends.
func takeClaim(s *pass, m *topology.Member, sg *sighting) error {
	switch {
	case !sg.claimed:
		return nil
	case sg.claim == nil:
		s.cache.looks.claimed[m.CurrentInstance().ID] = true
	case errors.Is(sg.claim, mysql.ErrLeaseRefused):
		return sg.claim
	default:
		m.SQL = topology.SQL{Access: topology.AccessSilent, Reason: sg.claim.Error()}
	}
	return nil
}

// trackSilence notes what a member answered, has the port of one tried that should have answered, and reads its console.
func (r *mysqlObserver) trackSilence(ctx context.Context, s *pass, m *topology.Member, asked time.Time) {
	s.cache.looks.detector.NoteAnswer(m, asked, r.Clock.Now())
	switch m.SQL.Access {
	case topology.AccessSilent, topology.AccessRefused:
		r.knock(ctx, s, m)
		r.readConsole(ctx, s, m, m.CurrentInstance().ID)
	case topology.AccessNone, topology.AccessUnverified, topology.AccessDenied, topology.AccessVerified:
		delete(s.cache.looks.stage, m.Name)
		delete(s.cache.looks.knocks, m.CurrentInstance().ID)
		r.readStartError(ctx, s, m, m.CurrentInstance().ID)
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

// sqlOf translates what the SQL plane saw into the brain's words.
func sqlOf(o mysql.Observation) topology.SQL {
	sql := topology.SQL{Access: topology.Access(o.Access), Reason: o.Reason, Version: release(o.Version)}
	if o.Access != mysql.AccessVerified {
		return sql
	}
	var bad []string
	parse := func(what, text string) gtid.Set {
		set, err := gtid.Parse(text)
		if err != nil {
			bad = append(bad, what)
		}
		return set
	}
	sql.ServerUUID, sql.StartedAt = o.ServerUUID, o.StartedAt
	sql.Writable = !o.ReadOnly
	sql.Executed, sql.Purged, sql.Waiting = parse("gtid_executed", o.Executed), parse("gtid_purged", o.Purged), parse("gtid_owned", o.Waiting)
	sql.SemiSync = topology.SemiSync{SourceEnabled: o.SemiSync.SourceEnabled, ReplicaEnabled: o.SemiSync.ReplicaEnabled,
		ReplicaActive: o.SemiSync.ReplicaActive, WaitCount: o.SemiSync.WaitCount, Clients: o.SemiSync.Clients,
		OffTimes: o.SemiSync.OffTimes}
	for _, stranger := range o.SemiSync.Strangers {
		sql.SemiSync.Strangers = append(sql.SemiSync.Strangers, topology.Stranger(stranger))
	}
	sql.MembershipKnown = o.MembershipKnown
	if o.Membership != nil {
		sql.Membership = &topology.Membership{Epoch: o.Membership.Epoch, Primary: o.Membership.Primary, Voters: o.Membership.Voters, Previous: o.Membership.Previous, W: o.Membership.W}
	}
	if rep := o.Replication; rep != nil {
		sql.Replication = &topology.Replication{
			SourceHost: rep.SourceHost, IOState: rep.IOState, SQLRunning: rep.SQLRunning,
			Retrieved:     parse("Retrieved_Gtid_Set", rep.Retrieved),
			SourceSilence: rep.SourceSilence, SourceIsFull: rep.SourceIsFull,
		}
		sql.Replication.ReceiverError, sql.Replication.ApplierError = topology.StopErrors(rep.IOState, rep.SQLRunning, rep.ReceiverRetries, rep.LastIOError, rep.LastSQLError)
		if rep.LagSeconds != nil {
			sql.Replication.LagKnown = true
			sql.Replication.Lag = time.Duration(*rep.LagSeconds * float64(time.Second))
		}
	}
	if o.Clone != nil {
		sql.Clone = &topology.Clone{State: o.Clone.State, Message: cloneMessage(*o.Clone), Source: o.Clone.Source, Began: o.Clone.Began}
	}
	if o.Disk != nil {
		sql.Disk = &topology.Disk{SizeBytes: o.Disk.SizeBytes, FreeBytes: o.Disk.FreeBytes}
	}
	sql.ClockSkew = o.ClockSkew
	sql.Connections, sql.MaxConnections = o.Connections, o.MaxConnections
	sql.PersistedIgnored = o.PersistedIgnored
	sql.PendingCommits, sql.Answered = o.PendingCommits, o.AnsweredCommits
	if len(bad) > 0 {
		// A position that cannot be read must never pass for an empty one.
		return topology.SQL{Access: topology.AccessSilent, Reason: "unreadable " + strings.Join(bad, ", ")}
	}
	return sql
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

// release is the x.y.z of a version such as 9.7.4-2 or 8.4.6-commercial.
func release(version string) string {
	numbers, _, _ := strings.Cut(version, "-")
	return numbers
}

func cloneMessage(c mysql.CloneProgress) string {
	switch {
	case c.Error != "":
		return c.Error
	case c.BytesTotal > 0:
		return fmt.Sprintf("%s, %d%% of %d MiB", strings.ToLower(c.Stage), c.BytesDone*100/c.BytesTotal, c.BytesTotal>>20)
	}
	return strings.ToLower(c.Stage)
}
