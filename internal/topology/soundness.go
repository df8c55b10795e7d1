package topology

import (
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// soundness takes the vote of members whose settings the promise does not allow, and puts them right.
type soundness struct {
	*pass
	votes *votes
}

// replacePause is how long after its launch, at the earliest, an instance is replaced because its mysqld was started with
// other settings than it was made with: if that is what it was made with, replacing it would never end.
const replacePause = time.Hour

// remembering are the variables without which a server may lose what it has acknowledged when it starts, or never shows
// it: relay_log_recovery throws away what was received and not applied (fact 10). While one of them is wrong nobody knows
// what the server has lost already.
var remembering = []string{"relay_log_recovery", "log_bin", "log_replica_updates", "gtid_mode", "enforce_gtid_consistency"}

// setting is a variable of a server with the value that it has.
type setting struct{ name, value string }

func (s setting) String() string { return s.name + " is " + orNone(s.value) }

// forgets returns the setting that makes a member's word about what it holds worthless, nil for none.
func (m *Member) forgets() *setting {
	for _, name := range remembering {
		if value, wrong := m.SQL.Misconfigured[name]; wrong {
			return &setting{name, value}
		}
		if m.drifted(name) {
			return &setting{name, "not " + m.SQL.Drifted[name]}
		}
	}
	return nil
}

// unsound returns the setting that keeps a member from being a voter, and that only a start of mysqld can put right; nil for none.
func (m *Member) unsound() *setting {
	for _, name := range sortedKeys(m.SQL.Misconfigured) {
		return &setting{name, m.SQL.Misconfigured[name]}
	}
	return nil
}

// restore brings a replica back to the settings that its instance was made with: first it loses its vote, then it is restarted if
// settings of its were taken out, or its instance is replaced, which keeps its volume. It returns what the replica waits for, or
// "" when it is as it must be.
func (p *soundness) restore(m, primary *Member) Step {
	why := m.unsound()
	if why == nil {
		return Step{}
	}
	if !p.votes.expel(m, primary) {
		p.waitAtMost(waitMySQL)
		return waits("losing its vote: " + why.String())
	}
	if m.SQL.RestartPending && !p.busy(m.Name) {
		p.retry(waitMySQL, Restart{m.Name}) // what made it so may be what was taken out
		return waits("restarting mysqld: " + why.String())
	}
	if _, drop := p.settingsDiff(m); m.blind() && (len(drop) > 0 || p.plan.Records.Members[m.Name].RestartFor != "") {
		p.waitAtMost(waitMySQL)
		return waits("settings are taken out: " + why.String())
	}
	in := m.CurrentInstance()
	if in != nil && p.CloudReachable && !p.busy(m.Name) && m.Ordinal < p.Replicas && p.Now.Sub(in.LaunchTime) >= replacePause {
		p.retry(waitEC2, TerminateInstance{m.Name, in.ID})
		return waits("ending instance " + in.ID + ": " + why.String())
	}
	p.waitAtMost(waitReady)
	return waits("no voter: " + why.String())
}

// reportUnsound says which members run with settings that the promise of no lost commit does not allow, and that one does not show enough of itself.
func (p *soundness) reportUnsound() {
	if unread := firstUnread(p.ordered()); unread != nil && unread.drifted(mysql.ClonePlugin) {
		p.degraded(v1alpha1.ReasonMemberUntrusted, saysUnread(unread)+". The operator loads the plug-in clone again; look for why it is missing in the error log of mysqld if this stays")
	}
	for _, m := range p.ordered() {
		if why := m.unsound(); why != nil {
			p.degraded(v1alpha1.ReasonMemberUntrusted, fmt.Sprintf("%s: %s; it was changed on the instance or with SET PERSIST. A replica loses its vote and gets a new instance; switch over from a primary to have the same done there", m.Name, why))
		}
	}
}
