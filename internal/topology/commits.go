package topology

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

const (
	// upToDateSince is the least age of the observation of the primary by which its replicas are judged. One of the same moment
	// would find what is on its way to them missing. An older one asks for less.
	upToDateSince = 200 * time.Millisecond
	// rateWindow is the time over which the rate is measured at which a late replica catches up.
	rateWindow = 5 * time.Second
)

// CommitHistory remembers what the primary had committed when it was observed last. From that it judges the replicas: one that
// still receives what was committed long ago acknowledges nothing new before it has it all. And it finds the times in which commits
// may have been answered without the acknowledgements of voters. The zero value knows of no primary. It is not safe for concurrent use.
type CommitHistory struct {
	observedServer
	looks [2]pastCommits      // the older one first
	late  map[string]lateness // the replicas that lack what the primary had committed, by member

	began     bool      // there was an observation
	seen      time.Time // when the primary was observed last
	closed    []string  // the servers that the last one saw before they take writes
	unwatched time.Time // see Exposure.Unwatched

	claims claimHistory
	acknowledgedBesides
	departed int       // see Exposure.Departed
	binlog   *gtid.Set // see Exposure.Binlog
	offTimes int
	counted  bool      // offTimes is known
	clean    bool      // the last observation found no exposure
	mustHold *gtid.Set // see Exposure
	pastCause
}

// pastCause is why commits were uncovered last, until enough voters hold them.
type pastCause struct {
	past   Cause // see Exposure.Past
	fenced bool
}

// acknowledgedBesides is who acknowledged in the last observation besides voters under their own server_ids.
type acknowledgedBesides struct {
	strangers   []Stranger
	misnumbered []string // the voters with another server_id
}

// observedServer is the primary that is observed.
type observedServer struct {
	server string
	since  time.Time // of the first look
	base   gtid.Set  // what it had executed then, and its binary logs held
}

// pastCommits is what the primary had executed at a time, less what its binary logs no longer hold: no replica receives that.
type pastCommits struct {
	at       time.Time
	executed gtid.Set
	// all is with what the binary logs no longer held.
	all gtid.Set
	// epoch is that of the row under which the primary answered; 0 when it may have asked for fewer acknowledgements, or a change of the voters was under way.
	epoch uint64
}

// lateness is how far a replica is behind in receiving.
type lateness struct {
	// target is what it has lacked since then.
	target gtid.Set
	since  time.Time
	// missing is how many transactions it lacked at a time; rate is how many fewer it lacks a second since the time before that.
	at      time.Time
	missing uint64
	rate    float64
}

// Exposure says whether commits may be answered without the acknowledgements of voters.
type Exposure struct {
	// Since is when the primary was observed first, in a row: its replicas are judged from the third observation on.
	Since time.Time
	// Cause is what allows it, or did since the observation before.
	Cause Cause
	// Volatile is true when the primary itself may lose in a loss of power what it answers, Fenced when it answers nothing that
	// no voter receives.
	Volatile, Fenced bool
	// Past is what allowed it last, until enough voters hold what was committed meanwhile.
	Past Cause
	// MustHold is what the primary had executed when nothing did any more: who holds it holds all that was answered that way. Nil
	// while that is not known.
	MustHold *gtid.Set
	// Binlog is what the primary's binary log held when the replicas that are no members were first seen as they are now. Those that
	// have left may have acknowledged it: the primary remembers that, so that it must not wait for fewer before voters have it all.
	Binlog *gtid.Set
	// Unwatched is when a primary was found, or missed, that nobody had observed before: what it did until then is not known. Zero
	// once enough voters hold what it had committed.
	Unwatched time.Time
	// Departed is how many of those that have left, and of the server_ids that voters had, may have acknowledged what voters do not hold
	// yet. Commits wait for so many acknowledgements more.
	Departed int
}

// Record sets UpToDate, LateSince, Missing and CatchUp of every replica in an observation, and its Exposure. It remembers what the
// observation says of the primary.
func (h *CommitHistory) Record(o *Observed) {
	primary, closed := o.onlyWritable(), h.closed
	h.claims.record(o, primary)
	if !h.began {
		h.unwatched = o.Now
	}
	if !h.missedIn(o) && (primary == nil || primary.SQL.ServerUUID != h.server) {
		*h = CommitHistory{unwatched: h.unwatched, claims: h.claims}
	}
	h.began, h.closed = true, h.closedIn(o.Members)
	if primary == nil {
		o.Exposure = Exposure{Unwatched: h.unwatched}
		return
	}
	if h.server == "" {
		h.since, h.base, h.unwatched = o.Now, primary.SQL.Executed.Subtract(primary.SQL.Purged), o.Now
		if slices.Contains(closed, primary.SQL.ServerUUID) {
			h.unwatched = time.Time{}
		}
	}
	h.server, h.seen = primary.SQL.ServerUUID, o.Now
	for _, m := range o.Members {
		past, known := h.usable(m, o.Now)
		switch {
		case !m.verified() || m.SQL.Replication == nil:
			delete(h.late, m.Name)
		case known:
			h.judge(m, past, o.Now)
			m.SQL.Replication.Dropped = h.dropped(m, primary, o.Members)
		}
	}
	o.Exposure = h.exposure(primary, o)
	o.Exposure.Since = h.since
	h.remember(primary, o)
}

// remember keeps what the primary has committed, as long as the observation before is old enough to be kept as well.
func (h *CommitHistory) remember(primary *Member, o *Observed) {
	if o.Now.Sub(h.looks[1].at) < upToDateSince {
		return
	}
	present := pastCommits{o.Now, primary.SQL.Executed.Subtract(primary.SQL.Purged), primary.SQL.Executed, 0}
	if row := primary.SQL.Membership; row != nil && row.Settled() && (!o.Exposure.Cause.found() || o.Exposure.Cause.Kind == CauseNotKept) {
		present.epoch = row.Epoch
	}
	h.looks = [2]pastCommits{h.looks[1], present}
}

// onlyWritable returns the writable member, nil when there is none or more than one: then nobody knows whom to follow.
func (o *Observed) onlyWritable() *Member {
	if found := o.writable(); len(found) == 1 {
		return found[0]
	}
	return nil
}

// AnyWritable says whether a member takes writes.
func AnyWritable(o *Observed) bool { return len(o.writable()) > 0 }

// writable returns the members that take writes, in no order.
func (o *Observed) writable() []*Member {
	var found []*Member
	for _, m := range o.Members {
		if m.verified() && m.SQL.Writable {
			found = append(found, m)
		}
	}
	return found
}

// missedIn says whether the primary is not reached at the moment, for no longer than between two passes, and nobody else leads.
func (h *CommitHistory) missedIn(o *Observed) bool {
	for _, m := range o.Members {
		if m.verified() && (m.SQL.Writable || m.SQL.ServerUUID == h.server) {
			return false
		}
	}
	return h.server != "" && o.Now.Sub(h.seen) < waitReady
}

// closedIn returns the servers that take no writes, so that all is observed that they do once they take some. A former primary that
// nobody observed, and that is opened again, is none of them.
func (h *CommitHistory) closedIn(members map[string]*Member) []string {
	var found []string
	for _, m := range members {
		row := m.SQL.Membership
		if m.verified() && !m.SQL.Writable && (h.unwatched.IsZero() || row == nil || row.Primary != m.Name) {
			found = append(found, m.SQL.ServerUUID)
		}
	}
	return found
}

// judge says whether a replica holds what the primary had executed, and since when it does not.
func (h *CommitHistory) judge(m *Member, past pastCommits, now time.Time) {
	r := m.SQL.Replication
	lacks := past.executed.Subtract(m.position())
	if r.UpToDate = lacks.IsEmpty(); r.UpToDate {
		delete(h.late, m.Name)
		return
	}
	l, known := h.late[m.Name]
	r.Missing = lacks.Count()
	switch {
	case !known:
		l = lateness{target: past.executed, since: now, at: now, missing: r.Missing}
	case m.position().Contains(l.target):
		l.target, l.since = past.executed, now // it is not that far behind
	case now.Sub(l.at) >= rateWindow:
		l.rate = (float64(l.missing) - float64(r.Missing)) / now.Sub(l.at).Seconds()
		l.at, l.missing = now, r.Missing
	}
	if h.late == nil {
		h.late = map[string]lateness{}
	}
	h.late[m.Name] = l
	r.LateSince = l.since
	if l.rate > 0 {
		r.CatchUp = time.Duration(float64(r.Missing) / l.rate * float64(time.Second))
	}
}

// dropped returns what a replica lacks although it holds something that the primary committed later: what one look showed, and what came
// between that and another. What a member committed itself may be there before the primary adopts it.
func (h *CommitHistory) dropped(m, primary *Member, members map[string]*Member) gtid.Set {
	last := h.looks[1]
	if last.at.IsZero() || m.askedBefore(last.at) {
		return gtid.Set{}
	}
	held := m.position()
	for _, other := range members {
		if other != primary {
			held = held.WithoutSource(other.SQL.ServerUUID)
		}
	}
	for _, earlier := range []gtid.Set{h.base, h.looks[0].executed} {
		lacks := earlier.Subtract(primary.SQL.Purged).Subtract(m.position())
		if !lacks.IsEmpty() && !last.executed.Subtract(earlier).Intersect(held).IsEmpty() {
			return lacks
		}
	}
	return gtid.Set{}
}

// usable is the newest observation of the primary that is old enough, and from before the replica was asked.
func (h *CommitHistory) usable(m *Member, now time.Time) (pastCommits, bool) {
	past := h.looks[1]
	if now.Sub(past.at) < upToDateSince || m.askedBefore(past.at) {
		past = h.looks[0]
	}
	return past, !past.at.IsZero() && !m.askedBefore(past.at)
}

// exposure finds what lets commits of the primary be answered without voters, now or since the observation before. The server's own
// counter tells of what was over before anybody looked.
func (h *CommitHistory) exposure(primary *Member, o *Observed) Exposure {
	s, row, members := primary.SQL.SemiSync, primary.SQL.Membership, o.Members
	h.recordStrangers(primary, members)
	cause, fenced := primary.exposed(h.departed, voteless(primary, members)...), false
	volatile := primary.unsynced(primary)
	switch {
	case row == nil || row.WaitCount() == 0:
		h.counted, h.clean, h.mustHold, h.past, h.unwatched = false, false, nil, Cause{}, time.Time{} // it waits for nobody
		return Exposure{Cause: forgetful(primary.Name, volatile), Volatile: volatile != "", Fenced: true, Binlog: h.binlog, Departed: h.departed}
	case cause.found():
	case h.counted && s.OffTimes > h.offTimes: // a start of mysqld sets it to 0
		cause = Cause{CauseSemiSyncOff, "semi-synchronous replication was off for a moment (Rpl_semi_sync_source_no_times)"}
	default:
		if cause, fenced = h.notKept(primary, o), true; !cause.found() {
			cause = row.forgetful(primary, members)
		}
	}
	h.counted, h.offTimes = true, s.OffTimes
	switch {
	case cause.found():
		h.fenced = fenced && (!h.past.found() || h.fenced)
		h.mustHold, h.past = nil, cause
	case h.mustHold == nil && h.clean: // what is executed is read before the settings: so by the next observation
		h.mustHold = &primary.SQL.Executed
	}
	h.clean = !cause.found()
	if h.mustHold != nil && row.holders(primary, members, *h.mustHold) >= row.WaitCount() {
		h.unwatched, h.past = time.Time{}, Cause{}
	}
	return Exposure{Cause: cause, Past: h.past, Volatile: volatile != "", Fenced: h.fenced, MustHold: h.mustHold, Unwatched: h.unwatched, Binlog: h.binlog, Departed: h.departed}
}

// notKept returns, as a cause, that too few voters hold what was answered: who acknowledged it does not keep it, as a replica with the
// primary's server_id, which drops what it receives. What was answered is what the primary executed between two observations under one row,
// and what its binary log no longer holds: SET GLOBAL gtid_purged by a person says that of what no replica ever received. A voter whose word
// does not count at the moment may hold it.
func (h *CommitHistory) notKept(primary *Member, o *Observed) Cause {
	row, first, last := primary.SQL.Membership, h.looks[0], h.looks[1]
	if found := row.misnumbered(o.Members); len(found) > 0 {
		return Cause{CauseNotKept, found[0] + " has another member's server_id, or had: a replica drops what bears its own, and acknowledges it"}
	}
	if cause := h.claims.cause(primary, o.Members); cause.found() {
		return cause
	}
	kept := func(set gtid.Set) bool {
		return set.IsEmpty() || row.mayHold(primary, o.Members, set, last.at) >= row.WaitCount()
	}
	added := primary.SQL.Purged.Subtract(last.all) // it was never seen in a binary log
	switch sameRow := first.epoch == row.Epoch && last.epoch == row.Epoch; {
	case !last.at.IsZero() && !added.IsEmpty() && row.holders(primary, o.Members, added) < row.WaitCount(), !kept(primary.SQL.Purged):
		return Cause{CauseNotKept, "voters lack what was added to gtid_purged of the primary, and may lack more that is in no binary log"}
	case sameRow && o.Now.Sub(last.at) >= upToDateSince && !kept(last.executed.Subtract(first.executed)):
		return Cause{CauseNotKept, "voters acknowledge what they do not keep"}
	}
	return Cause{}
}

// misnumbered returns the voters whose server_id somebody changed, and that acknowledge or lead.
func (m Membership) misnumbered(members map[string]*Member) []string {
	return slices.DeleteFunc(slices.Clone(m.Voters), func(name string) bool {
		v := members[name]
		return !counts(v) || !v.drifted(mysql.ServerID) || !v.SQL.Writable && !v.SQL.SemiSync.ReplicaActive
	})
}

// mayHold counts the voters besides a primary that hold a set of transactions, or may: those that are not reached, and those that were asked
// before a time.
func (m Membership) mayHold(primary *Member, members map[string]*Member, set gtid.Set, asked time.Time) int {
	n := 0
	for _, name := range m.Voters {
		v := members[name]
		if name != primary.Name && (!counts(v) || v.askedBefore(asked) || v.keeps(set)) {
			n++
		}
	}
	return n
}

// exposed returns what lets a writable member answer commits without the acknowledgements that its row asks for. Voteless are the members
// that acknowledge and have no vote: MySQL counts them like voters.
func (m *Member) exposed(departed int, voteless ...string) Cause {
	s, row := m.SQL.SemiSync, m.SQL.Membership
	foreign := len(s.Strangers) + departed + len(voteless)
	switch {
	case row == nil || row.WaitCount() == 0: // it waits for nobody
	case m.drifted(mysql.GTIDMode):
		return Cause{CauseNoGTID, "transactions may have no GTID, and replicas pass over those (gtid_mode)"}
	case m.drifted(mysql.BinlogFormat):
		return Cause{CauseStatements, "replicas carry statements out for themselves, which may do something else there (binlog_format)"}
	case !s.SourceEnabled:
		return Cause{CauseSemiSyncOff, "semi-synchronous replication is off (rpl_semi_sync_source_enabled)"}
	case !s.SourceActive:
		return Cause{CauseSemiSyncOff, "semi-synchronous replication is enabled and off (Rpl_semi_sync_source_status), because a commit waited for longer than rpl_semi_sync_source_timeout"}
	case s.WaitCount < row.WaitCount():
		return Cause{CauseWaitCount, fmt.Sprintf("commits wait for %d acknowledgements and not for %d (rpl_semi_sync_source_wait_for_replica_count)", s.WaitCount, row.WaitCount())}
	case s.WaitCount < row.WaitCount()+foreign && len(voteless) > 0:
		return Cause{CauseStranger, "a member acknowledges that has no vote: " + voteless[0]}
	case s.WaitCount < row.WaitCount()+foreign && len(s.Strangers) == 0:
		return Cause{CauseStranger, "replicas have acknowledged that are no members, or a member under another server_id"}
	case s.WaitCount < row.WaitCount()+foreign:
		return Cause{CauseStranger, "a replica acknowledges that is no member: " + s.Strangers[0].Account}
	}
	return Cause{}
}

// voteless returns the members that acknowledge to a primary although no row lets them, by name, as after SET GLOBAL by a person.
func voteless(primary *Member, members map[string]*Member) []string {
	row, source := newestRow(primary, members), primary.CurrentInstance()
	if row == nil || source == nil {
		return nil
	}
	var found []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		m := members[name]
		r := m.SQL.Replication
		connected := m.verified() && r != nil && r.IOState == ioOn && r.SourceHost == source.Address
		if connected && m.SQL.SemiSync.ReplicaActive && !row.MayAcknowledge(name) && !primary.SQL.Membership.MayAcknowledge(name) {
			found = append(found, name)
		}
	}
	return found
}

// recordStrangers remembers which replicas that are no members acknowledge, and how many have left whose acknowledgements still count
// for something: until enough voters hold all that those can have received. One that connects again may acknowledge under
// another server_id, by which MySQL tells them apart, and counts as another. So does a voter whose server_id changes, where commits wait for
// another one besides. Who left before the first observation shows in the wait count alone.
func (h *CommitHistory) recordStrangers(primary *Member, members map[string]*Member) {
	s, row := primary.SQL.SemiSync, newestRow(primary, members)
	var misnumbered []string
	if row != nil && row.WaitCount() > 1 {
		misnumbered = row.misnumbered(members)
	}
	first := h.binlog == nil
	if first || !slices.Equal(h.strangers, s.Strangers) || !slices.Equal(h.misnumbered, misnumbered) {
		h.departed += changed(h.misnumbered, misnumbered)
		for _, known := range h.strangers {
			if !slices.Contains(s.Strangers, known) {
				h.departed++
			}
		}
		all := primary.SQL.Executed.Union(primary.SQL.Waiting)
		h.acknowledgedBesides, h.binlog = acknowledgedBesides{s.Strangers, misnumbered}, &all
	}
	left := h.binlog.Intersect(primary.SQL.Executed.Union(primary.SQL.Waiting)) // without what was rolled back
	h.binlog = &left
	if row == nil || !s.Waits() {
		h.departed = 0 // switched off, a source forgets acknowledgements
		return
	}
	wait := max(row.WaitCount(), primary.SQL.Membership.WaitCount())
	if first && wait > 0 {
		h.departed = max(h.departed, s.WaitCount-wait-len(s.Strangers))
	}
	if wait > 0 && row.holders(primary, members, h.binlog.Subtract(primary.SQL.Purged)) >= wait {
		h.departed = 0
	}
}

// changed counts what is in one of two lists alone.
func changed(before, now []string) int {
	both := 0
	for _, name := range now {
		if slices.Contains(before, name) {
			both++
		}
	}
	return len(before) + len(now) - 2*both
}

// drifted says whether somebody changed a variable of a running server.
func (m *Member) drifted(variable string) bool {
	_, changed := m.SQL.Drifted[variable]
	return changed
}

// durability are the variables without which what a replica has acknowledged does not survive a loss of power.
var durability = []string{mysql.RedoLog, "innodb_flush_log_at_trx_commit", "sync_binlog"}

// unsynced returns the variable that lets a loss of power take from a member what it has written; empty for none.
func (m *Member) unsynced(primary *Member) string {
	for _, variable := range durability {
		if m.drifted(variable) {
			return variable
		}
	}
	if m != primary && !m.mayAcknowledge() {
		return "sync_relay_log"
	}
	return ""
}

// forgetful returns which voter would lose what it commits or acknowledges, as a cause.
func (m Membership) forgetful(primary *Member, members map[string]*Member) Cause {
	for _, name := range slices.Sorted(slices.Values(m.Voters)) {
		v := members[name]
		if v == nil || !v.verified() || v != primary && !v.SQL.SemiSync.ReplicaActive {
			continue
		}
		if variable := v.unsynced(primary); variable != "" {
			return forgetful(name, variable)
		}
	}
	return Cause{}
}

// forgetful is the cause of a member that does not sync what it writes, because of a variable; none without one.
func forgetful(member, variable string) Cause {
	if variable == "" {
		return Cause{}
	}
	return Cause{CauseNotDurable, fmt.Sprintf("a loss of power may take from %s what it has written (%s)", member, variable)}
}

// holders counts the voters besides a primary that hold a set of transactions.
func (m Membership) holders(primary *Member, members map[string]*Member, set gtid.Set) int {
	n := 0
	for _, v := range members {
		if v != primary && counts(v) && m.MayAcknowledge(v.Name) && v.keeps(set) {
			n++
		}
	}
	return n
}
