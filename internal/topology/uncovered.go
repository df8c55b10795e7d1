package topology

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// Uncovered is a time in which a primary may have answered commits without the acknowledgements of voters. It ends when enough
// voters hold all that the primary had executed once nothing allowed that any more. If the primary is lost before, a promotion proves
// nothing about those commits, and must not claim to.
type Uncovered struct {
	// Primary is the member that answered.
	Primary string `json:"primary"`
	// Since is when it was found, in Unix seconds; Cause is what allowed it.
	Since int64 `json:"since,omitempty"`
	// Earlier is true when it may have begun before: nobody observed the primary until then, or something else had allowed it.
	Earlier bool `json:"earlier,omitempty"`
	Cause
	// Volatile is true when the primary itself may lose in a loss of power what it answered.
	Volatile bool `json:"volatile,omitempty"`
	// Fenced is true when the primary answers nothing once voters receive nothing from it.
	Fenced bool `json:"fenced,omitempty"`
}

// Cause is what lets a primary answer commits without the acknowledgements of voters. The zero value is none.
type Cause struct {
	// Kind is what is decided by. Records of older operators have none.
	Kind CauseKind `json:"cause,omitempty"`
	// Why is what people read.
	Why string `json:"why,omitempty"`
}

// CauseKind is one of the causes.
type CauseKind string

const (
	CauseSemiSyncOff CauseKind = "SemiSyncOff" // semi-synchronous replication is off, or was
	CauseWaitCount   CauseKind = "WaitCount"   // commits wait for fewer acknowledgements than the row asks for
	CauseStranger    CauseKind = "Stranger"    // a replica that is no member, or has no vote, acknowledges, or did
	CauseNotDurable  CauseKind = "NotDurable"  // a loss of power takes from a voter what it acknowledged
	CauseStatements  CauseKind = "Statements"  // what replicas hold of a statement may not be what the primary holds
	CauseNoGTID      CauseKind = "NoGTID"      // replicas pass over transactions without a GTID
	CauseNotKept     CauseKind = "NotKept"     // voters acknowledge what they do not keep
	CauseUnwatched   CauseKind = "Unwatched"   // nobody observed whether commits waited
	CauseAsync       CauseKind = "Async"       // durability was Async
	CauseAccepted    CauseKind = "Accepted"    // a person gave up what only members held that did not come back
)

var (
	unwatched = Cause{CauseUnwatched, "nobody observed until then whether it waited for them"}
	asyncOnly = Cause{CauseAsync, "durability was Async"}
)

func (c Cause) found() bool { return c != Cause{} }

// longestUncovered is how long status.lastPromotion.uncovered may be, in bytes.
const longestUncovered = 512

// String is what people read.
func (u Uncovered) String() string {
	since := time.Unix(u.Since, 0).UTC().Format(time.RFC3339)
	if u.Earlier || u.Kind == CauseUnwatched {
		since += " or earlier"
	}
	return atMost(longestUncovered, fmt.Sprintf("since %s %s may have answered commits that no voter holds: %s", since, u.Primary, u.Why))
}

// atMost cuts a text after a number of bytes.
func atMost(bytes int, text string) string {
	return strings.ToValidUTF8(text[:min(len(text), bytes)], "")
}

// UncoveredTimes are those of all members, one for each, the oldest first.
type UncoveredTimes []Uncovered

// MarshalJSON writes a single time as older operators do, which read no list.
func (t UncoveredTimes) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]Uncovered(t))
}

// UnmarshalJSON reads a list, or a single time.
func (t *UncoveredTimes) UnmarshalJSON(text []byte) error {
	if text = bytes.TrimSpace(text); len(text) == 0 || text[0] != '{' {
		return json.Unmarshal(text, (*[]Uncovered)(t))
	}
	var one Uncovered
	if err := json.Unmarshal(text, &one); err != nil {
		return err
	}
	*t = nil
	if one.Primary != "" {
		*t = UncoveredTimes{one}
	}
	return nil
}

// Of returns the uncovered time of a member, nil for none.
func (t UncoveredTimes) Of(member string) *Uncovered {
	if i := slices.IndexFunc(t, func(u Uncovered) bool { return u.Primary == member }); i >= 0 {
		return &t[i]
	}
	return nil
}

// LostWith returns the times of which commits may be lost when a member takes writes: another one answered them, or it may have lost
// its own.
func (t UncoveredTimes) LostWith(member string) UncoveredTimes {
	var lost UncoveredTimes
	for _, u := range t {
		if u.Primary != member || u.Volatile {
			lost = append(lost, u)
		}
	}
	return lost
}

// NotIn returns the times that status does not report: of a member, it reports that of a second.
func (t UncoveredTimes) NotIn(reported map[string]int64) UncoveredTimes {
	var news UncoveredTimes
	for _, u := range t {
		if since, ok := reported[u.Primary]; !ok || since != u.Since {
			news = append(news, u)
		}
	}
	return news
}

// String is what people read.
func (t UncoveredTimes) String() string { return t.After("") }

// After is what people read where a text about others stands already.
func (t UncoveredTimes) After(text string) string {
	for _, u := range t {
		switch {
		case text == "":
			text = u.String()
		case !strings.Contains(text, u.String()): // an operator that named no members may have written it
			text += "; " + u.String()
		}
	}
	return atMost(longestUncovered, text)
}

// Without returns the times of all members but one.
func (t UncoveredTimes) Without(member string) UncoveredTimes {
	var others UncoveredTimes
	for _, u := range t {
		if u.Primary != member {
			others = append(others, u)
		}
	}
	return others
}

// recordRivals remembers since when one of several writable members may have answered commits without voters: it may be the one that
// does not lead on.
func (p *acks) recordRivals() {
	rivals := p.primaries()
	if !p.Lossless || len(rivals) < 2 {
		return
	}
	for _, m := range rivals {
		if cause := m.exposed(0); cause.found() {
			p.beginUncovered(Uncovered{Primary: m.Name, Cause: cause})
		}
	}
}

// beginUncovered remembers an uncovered time that is found now. Of one member's the worst is remembered.
func (p *acks) beginUncovered(u Uncovered) {
	times := &p.plan.Records.Uncovered
	known := times.Of(u.Primary)
	u.Since = p.Now.Unix()
	u.Earlier = u.Kind == CauseUnwatched || p.Exposure.Unwatched.Equal(p.Now)
	switch {
	case known == nil:
		*times = append(*times, u)
	case known.Fenced && !u.Fenced:
		u.Volatile, u.Earlier = u.Volatile || known.Volatile, true
		*times = append(times.Without(u.Primary), u)
	default:
		known.Volatile = known.Volatile || u.Volatile
	}
}

// coverCommits remembers since when the primary may have answered commits without voters, and forgets it once enough voters hold them.
func (p *acks) coverCommits(primary *Member) {
	rec, row := &p.plan.Records, p.plan.Membership
	alone := row.WaitCount() == 0 || rec.goesAlone(primary) // without it nobody is promoted
	p.forgetOthersUncovered(primary)
	switch {
	case p.unconfirmed:
	case alone && !p.Exposure.Volatile:
		rec.Uncovered = rec.Uncovered.Without(primary.Name)
	case alone:
		p.beginUncovered(Uncovered{Primary: primary.Name, Cause: p.Exposure.Cause, Volatile: true, Fenced: true})
	case !p.Lossless:
		p.beginUncovered(Uncovered{Primary: primary.Name, Cause: asyncOnly})
	default:
		p.coverExposure(primary)
	}
	p.reportUncovered(primary)
}

// forgetOthersUncovered forgets the uncovered times of other members than the primary: once the primary's own row says that it leads,
// and status reports them, or when it is certain that nothing of them is lost.
func (p *acks) forgetOthersUncovered(primary *Member) {
	rec := &p.plan.Records
	unreported := rec.Uncovered.NotIn(p.UncoveredReported)
	for _, u := range rec.Uncovered.Without(primary.Name) {
		former := p.Members[u.Primary]
		reached := former != nil && former.verified()
		switch {
		case reached && !former.SQL.Writable && !u.Volatile && primary.SQL.Executed.Contains(former.position()): // as after a switchover
		case p.unconfirmed, p.Lossless && unreported.Of(u.Primary) != nil, reached && former.SQL.Writable:
			continue
		}
		rec.Uncovered = rec.Uncovered.Without(u.Primary)
	}
}

// coverExposure does that for a primary that is to wait for voters.
func (p *acks) coverExposure(primary *Member) {
	rec, row, e := &p.plan.Records, p.plan.Membership, p.Exposure
	if !e.Unwatched.IsZero() {
		p.waitAtMost(waitMySQL)
	}
	switch own := rec.Uncovered.Of(primary.Name) != nil; {
	case e.Cause.found():
		p.beginUncovered(Uncovered{Primary: primary.Name, Cause: e.Cause, Volatile: e.Volatile, Fenced: e.Fenced})
	case own && e.MustHold != nil && row.holders(primary, p.Members, *e.MustHold) >= row.WaitCount():
		rec.Uncovered = rec.Uncovered.Without(primary.Name)
	case !own && e.Past.found(): // the records that knew are lost
		p.beginUncovered(Uncovered{Primary: primary.Name, Cause: e.Past, Fenced: e.Fenced})
	case !e.Unwatched.IsZero() && p.Now.Sub(e.Unwatched) >= waitingPatience:
		p.beginUncovered(Uncovered{Primary: primary.Name, Cause: unwatched, Fenced: true})
	}
}

// reportUncovered reports the uncovered times.
func (p *acks) reportUncovered(primary *Member) {
	if !p.Lossless {
		return
	}
	for _, u := range p.plan.Records.Uncovered {
		p.waitAtMost(waitMySQL)
		help := ". The operator puts it right and waits until voters hold everything; find out who changed it"
		switch {
		case u.Primary != primary.Name:
			help = ". They are lost if it does not return"
		case u.Kind == CauseUnwatched || u.Kind == CauseAsync:
			help = ". It lasts until voters hold everything; bring those back that do not answer"
		}
		p.degraded(v1alpha1.ReasonCommitsUncovered, u.String()+help)
	}
}

// goesAlone says whether the primary is the only voter by the records already, or may be, and its row does not say so yet.
func (r ClusterRecord) goesAlone(primary *Member) bool {
	return r.AloneUnknown || r.Alone == primary.Name && r.AloneSince > primary.SQL.Membership.Epoch
}

// outwaitStrangers has the primary wait for one acknowledgement more for each replica that acknowledges and is no member, so that
// as many voters as the row asks for are always among them. It says so, and disconnects those that commits wait for. A row that waits
// itself asks for as many as its predecessor, at least.
func (p *acks) outwaitStrangers(primary *Member) {
	s, newest := primary.SQL.SemiSync, p.newestMembership()
	if !p.Lossless || !s.SourceEnabled || newest == nil || max(newest.WaitCount(), p.plan.Membership.WaitCount()) == 0 {
		return
	}
	p.reportStrangers(primary)
	voters := max(newest.WaitCount(), p.plan.Membership.WaitCount())
	foreign, suffice := len(s.Strangers)+p.Exposure.Departed, p.acknowledgers(primary, "") >= voters
	inVain := suffice && p.stalledFor(primary, strangerPatience) // for strangers that are slow, or have left
	switch {
	case foreign > 0 && s.WaitCount < voters+foreign:
		p.first(waitMySQL/2, SetSourceWait{Member: primary.Name, Enabled: true, W: voters + p.Exposure.Departed})
	case p.busy(primary.Name):
	case inVain && s.WaitCount > voters+foreign && p.mayWaitForFewer(primary, voters):
		p.retry(waitMySQL/2, LowerSourceWait{primary.Name, voters + p.Exposure.Departed, len(s.Strangers)})
	case len(s.Strangers) > 0 && inVain:
		p.retry(waitMySQL, DisconnectStrangers{primary.Name})
	}
}

// reportStrangers reports replicas that acknowledge and are no members.
func (p *acks) reportStrangers(primary *Member) {
	strangers := primary.SQL.SemiSync.Strangers
	if len(strangers) == 0 {
		return
	}
	p.waitAtMost(waitMySQL)
	p.degraded(v1alpha1.ReasonForeignReplica, fmt.Sprintf("%s is no member and acknowledges commits of %s; each commit waits for one acknowledgement more. Set rpl_semi_sync_replica_enabled=OFF there and restart its replication",
		strangers[0].Account, primary.Name))
}

// mayWaitForFewer says whether enough voters that acknowledge have received all that replicas which are no members and have left may have
// acknowledged: lowering the wait count answers what has that many acknowledgements, theirs included.
func (p *acks) mayWaitForFewer(primary *Member, voters int) bool {
	if p.Exposure.Binlog == nil {
		return false
	}
	n := 0
	for _, m := range p.ordered() {
		if m != primary && p.mayAcknowledge(m) && p.receives(m, primary) && m.SQL.SemiSync.ReplicaActive && m.position().Contains(p.Exposure.Binlog.Subtract(primary.SQL.Purged)) {
			n++
		}
	}
	return n >= voters
}

// stalledFor says whether commits have waited for a time, and none was answered.
func (o Observed) stalledFor(primary *Member, d time.Duration) bool {
	return primary.SQL.PendingCommits > 0 && !primary.StalledSince.IsZero() && o.Now.Sub(primary.StalledSince) >= d
}
