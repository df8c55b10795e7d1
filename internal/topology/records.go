package topology

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// settling is how long EC2's lists may not show what it has made. AWS promises "a few minutes at most" in its text on
// eventual consistency and usually needs seconds. For so long nothing is created after the records were lost and rebuilt
// from tags, and no deletion is over.
const settling = 2 * time.Minute

// RecordsSchema is the newest schema of the records that this operator knows. It goes up when an operator that knows the one before
// would misread records, or drop from them what must not be forgotten.
const RecordsSchema = 2

// Needed is the schema that records are written in: the oldest that loses nothing of them, so that an older operator can go on with the
// cluster. One that knows schema 1 alone would begin with a copy as it is, whatever point was asked for.
func (r ClusterRecord) Needed() int {
	if r.SourceArchive != nil && !r.Recovered {
		return 2
	}
	return 1
}

// ClusterRecord is what must be remembered and cannot be read from anywhere else. It is written by compare-and-swap
// before the call that it is about.
type ClusterRecord struct {
	// Schema is the schema that they are written in; 0 where the operator that wrote them did not say.
	Schema int `json:"schema,omitempty"`
	// Members are the incarnations used up so far, by member.
	Members map[string]MemberRecord `json:"members,omitempty"`
	// Bootstrapped names the member that the cluster began on. Once it is set, no other member is ever made
	// the first primary of an empty cluster.
	Bootstrapped string `json:"bootstrapped,omitempty"`
	// RebuiltAt is when the records were lost and rebuilt from tags; zero when they never were.
	RebuiltAt time.Time `json:"rebuiltAt,omitzero"`
	FinalSnapshots
	// BootstrappedVolume is the volume on which the cluster began. An empty volume in its place is no place to begin again.
	BootstrappedVolume string `json:"bootstrappedVolume,omitempty"`
	Heritage
	// Database identifies the application database that was made; see the controller.
	Database string `json:"database,omitempty"`
	// PasswordUntil is when, in Unix seconds, the application's password of before stops to log in; 0 when none does.
	PasswordUntil int64 `json:"passwordUntil,omitempty"`
	Failovers
	PowerOffs
	// Epoch is the highest that was planned for a membership row. No two rows are ever written with the same one.
	Epoch uint64 `json:"epoch,omitempty"`
	// Established is true once a membership row was seen: from then on no member is made the first primary any more.
	Established bool `json:"established,omitempty"`
	// Leaving is the voter whose removal was begun. It acknowledges nothing until that is done.
	Leaving string `json:"leaving,omitempty"`
	// Removing is the voter whose removal may have been written into a row that waits to be acknowledged.
	Removing string `json:"removing,omitempty"`
	// MayAckNonVoters are members that may acknowledge although no row makes them voters: one that was about to be the second voter
	// acknowledges before, and of those who were left out of sight when the primary went on alone it is not certain.
	MayAckNonVoters []string `json:"unsilenced,omitempty"`
	Term
	// Alone is the member that may have acknowledged commits by itself from the membership row of epoch AloneSince on,
	// because it was the last voter left. Under an older row nobody is promoted without it.
	Alone      string `json:"alone,omitempty"`
	AloneSince uint64 `json:"aloneSince,omitempty"`
	// AloneUnknown is true after the records were lost, until a primary's own row tells whether it is alone: a primary may
	// have been, and only these records knew.
	AloneUnknown bool `json:"aloneUnknown,omitempty"`
	// Uncovered are the times in which primaries may have answered commits that no voter holds.
	Uncovered UncoveredTimes `json:"uncovered,omitempty"`
	// Account is the id of the AWS account in which everything of the cluster is; it is written down before the first of it
	// is made. Empty while nothing was made, or by a release that did not ask for it.
	Account string `json:"account,omitempty"`
	// Held are the users' Secrets, by name, that carry our finalizer for this cluster's sake: the one with its AWS
	// credentials, and those before it that were not let go yet.
	Held []string `json:"held,omitempty"`
	// Rolling is the member whose instance is being replaced, or that is being taken away: one at a time.
	Rolling string `json:"rolling,omitempty"`
	// RollingAt is when its turn began, in Unix seconds: no older snapshot is the one that is taken for it.
	RollingAt int64 `json:"rollingAt,omitempty"`
	// Nearest is by how many seconds it was behind when it was least so on its new instance, and NearestAt since when, in Unix seconds.
	Nearest   int64 `json:"nearest,omitempty"`
	NearestAt int64 `json:"nearestAt,omitempty"`
	Milestones
	// Restarts and Volumes are the restarts of mysqld, and the changes of volumes, that are under way.
	Restarts RolloutProgress `json:"restarts,omitzero"`
	Volumes  RolloutProgress `json:"volumes,omitzero"`
	// Template is Desired.Template of when all members were last well on instances made from it.
	Template string `json:"template,omitempty"`
	// WriterID is the operator's process that wrote them last. A new leader writes them before it does anything, also when it changes
	// nothing else: what one before it decides, which stood still between its look at the cluster and this write, is refused then.
	WriterID string `json:"hand,omitempty"`
}

// Heritage is how far a cluster is that begins with what another left behind.
type Heritage struct {
	// Recovering is the volume into which a recovery goes, and Recovered is true once it is done: from then on the member on
	// it is the one that the cluster begins on.
	Recovering string `json:"recovering,omitempty"`
	Recovered  bool   `json:"recovered,omitempty"`
	// Source is the snapshot that the first member's volume is made from, in a cluster that begins with a copy of a volume. Once
	// it is chosen no other is. SourceArchive is where the binary logs are that lead on from it, nil where no point in time is asked for.
	Source        string                  `json:"source,omitempty"`
	SourceArchive *v1alpha1.ArchiveSource `json:"sourceArchive,omitempty"`
	// Replayed is the volume, a copy, that was taken on to the point in time that is asked for. It is made the cluster's own after that.
	Replayed string `json:"replayed,omitempty"`
}

// Shortfall is what a member's data lacks.
type Shortfall struct {
	// Tail is the GTID set of the transactions that the member had committed under its own UUID and lost when it was rebuilt.
	// Another member may hold some of them still; as a primary it would use their GTIDs for others.
	Tail string `json:"tail,omitempty"`
	// Gap is why it may lack what its GTIDs say that it holds.
	Gap Gap `json:"gap,omitzero"`
}

// MemberRecord is what is remembered of one member.
type MemberRecord struct {
	// Instance and Volume are the incarnations of the newest instance and volume, 0 when there never was one.
	Instance int `json:"instance,omitempty"`
	Volume   int `json:"volume,omitempty"`
	// ZoneShift counts how often the member's zone was given up for another.
	ZoneShift int `json:"zoneShift,omitempty"`
	// SignedInstance and SignedKey are the instance that was given a certificate last, and the SHA-256 of its
	// public key: an instance gets a certificate for one key only.
	SignedInstance string `json:"signedInstance,omitempty"`
	SignedKey      string `json:"signedKey,omitempty"`
	// RestartDue is when, in Unix seconds, a setting was persisted that needs a restart; 0 for never. A mysqld that
	// started before still has to be restarted.
	RestartDue int64 `json:"restartDue,omitempty"`
	// RestartFor are the settings, separated by commas, that were persisted since mysqld last started with all that is
	// persisted; "*" when it started without them and nobody knows why. Undone are those with which it did not start, a line
	// name=value for each, and UndoneWhy is what mysqld said. They are persisted nowhere until the spec says something else.
	RestartFor string `json:"restartFor,omitempty"`
	Undone     string `json:"undone,omitempty"`
	UndoneWhy  string `json:"undoneWhy,omitempty"`
	// MaxConnections is the server's own limit of connections while a higher one lets its replicas in again; 0 otherwise.
	MaxConnections int `json:"maxConnections,omitempty"`
	Shortfall
	// Opened is the newest version of MySQL that may have opened the member's volume; empty while none is known. No older one
	// is ever started on it.
	Opened string `json:"opened,omitempty"`
	// Launched is the version that the newest instance was made for, and LaunchedAs that instance's incarnation.
	Launched   string `json:"launched,omitempty"`
	LaunchedAs int    `json:"launchedAs,omitempty"`
	// ToSeed is the incarnation of the newest instance that was launched with the previous MySQL version because those run it that the
	// member is to be seeded from; 0 for none.
	ToSeed int `json:"toSeed,omitempty"`
	// Rebuilding is true while the member is taken away because it can only be seeded with an older version than it has.
	Rebuilding bool `json:"anew,omitempty"`
	// RebuiltFor is the version for which that happened last, and RebuiltTimes how often in a row.
	RebuiltFor   string `json:"anewFor,omitempty"`
	RebuiltTimes int    `json:"anewTimes,omitempty"`
	// VolumeID is the volume that carries the member's data, once EC2 showed it.
	VolumeID string `json:"volumeID,omitempty"`
	// PendingVolume is the volume that EC2 shows for the newest incarnation, until an instance has it. AbandonedVolume is the last one that was
	// given up before anything had it: EC2 took the order for it and did not make it, which was known at VolumeFailedAt, in Unix seconds
	// (0 once there is a volume again), or its zone had no room for an instance (VolumeFailedAt is 0).
	PendingVolume   string `json:"made,omitempty"`
	AbandonedVolume string `json:"unmade,omitempty"`
	VolumeFailedAt  int64  `json:"unmadeAt,omitempty"`
	// Rebuild is a person's request to rebuild the member, from when it is first seen until it is gone.
	Rebuild RebuildRequest `json:"rebuild,omitzero"`
	// Modified are the last modifications of the member's volume.
	Modified Modifications `json:"modified,omitzero"`
}

// Term is who led last, as far as the records know.
type Term struct {
	// Leader is the member that was to be promoted last, noted before it is opened for writes, or a later primary of which every
	// voter showed that it lacks nothing. Empty when nobody ever was, or when that was forgotten.
	Leader string `json:"leader,omitempty"`
	// LeaderDoubted says that another member was found writable and led on since Leader was noted: commits may have been
	// acknowledged that Leader lacks. It ends with the next proof.
	LeaderDoubted bool `json:"leaderDoubted,omitempty"`
	// LeaderEpoch is the lowest epoch of a row that Leader can have written since it is noted, and LeaderServer the UUID of its server.
	// Both are empty when nobody is noted, or by a release that did not know them.
	LeaderEpoch  uint64 `json:"leaderEpoch,omitempty"`
	LeaderServer string `json:"leaderServer,omitempty"`
	// LeaderVoid is the GTID set of the transactions that count no more as acknowledged until Leader has written a row, as long as
	// nobody else is opened for writes: a proof for it found that nobody acknowledged them, and Leader lacks them.
	LeaderVoid string `json:"leaderVoid,omitempty"`
	// LeaderAcknowledged is the GTID set of what may have been acknowledged when a proof named Leader last. As long as nobody else is opened
	// for writes, nothing else was acknowledged but what Leader committed since. Empty when it is not known.
	LeaderAcknowledged string `json:"leaderAcknowledged,omitempty"`
	// LossAccepted is the epoch of the row of which a person gave up the voters that do not come back.
	LossAccepted uint64 `json:"lossAccepted,omitempty"`
	// Promotion is the term that the promotion of Leader is to end. It goes on if Leader is seen not to have been opened.
	Promotion Promotion `json:"handOver,omitzero"`
	// HandOverFailed is the target of a hand-over that ended in a promotion of another member, as long as a person asks for that target.
	HandOverFailed string `json:"handOverFailed,omitempty"`
}

// Promotion is a promotion that was planned, and the term that it ends. Zero when none was, or when of that term nothing is known.
type Promotion struct {
	To string `json:"to"`
	// Failover is true when the primary had failed, false when it hands over.
	Failover     bool   `json:"failover,omitempty"`
	Leader       string `json:"leader,omitempty"`
	Server       string `json:"server,omitempty"`
	Epoch        uint64 `json:"epoch,omitempty"`
	Void         string `json:"void,omitempty"`
	Acknowledged string `json:"acknowledged,omitempty"`
	Doubted      bool   `json:"doubted,omitempty"`
}

// FinalSnapshots are those that a deletion takes.
type FinalSnapshots struct {
	// FinalVolumes are the volumes of which a deletion takes its final snapshot, chosen before anything is stopped.
	FinalVolumes []string `json:"finalVolumes,omitempty"`
	// FinalAt is when they were chosen, in Unix seconds: no older snapshot counts as the final one.
	FinalAt int64 `json:"finalAt,omitempty"`
	// FinalChosen is true once FinalVolumes was decided, also when it is empty.
	FinalChosen bool `json:"finalChosen,omitempty"`
}

// Milestones are there for people who follow the cluster. Nothing is decided by them.
type Milestones struct {
	// ReadyMembers is how many members the cluster had when all of them were Ready last; 0 until they are, since it was made or last
	// hibernated.
	ReadyMembers int `json:"readyMembers,omitempty"`
	// RollingDone are the members that were changed since RollingSince, in Unix seconds, when a change that goes from member to
	// member began.
	RollingDone  []string `json:"rollingDone,omitempty"`
	RollingSince int64    `json:"rollingSince,omitempty"`
}

// Clone returns a deep copy.
func (r ClusterRecord) Clone() ClusterRecord {
	r.Members = maps.Clone(r.Members)
	if r.Members == nil {
		r.Members = map[string]MemberRecord{}
	}
	r.FinalVolumes, r.Held, r.PoweredOff, r.Forced = slices.Clone(r.FinalVolumes), slices.Clone(r.Held), slices.Clone(r.PoweredOff), slices.Clone(r.Forced)
	r.MayAckNonVoters, r.Uncovered = slices.Clone(r.MayAckNonVoters), slices.Clone(r.Uncovered)
	r.SourceArchive = r.SourceArchive.DeepCopy()
	r.RollingDone, r.Restarts, r.Volumes = slices.Clone(r.RollingDone), r.Restarts.clone(), r.Volumes.clone()
	return r
}

// ledLast says whether nobody was opened for writes, or led on, since a member was: it is the one that was promoted last, or the
// one that the cluster began on and nobody ever was promoted.
func (r ClusterRecord) ledLast(member string) bool {
	return !r.LeaderDoubted && (r.Leader == member || r.Leader == "" && r.RebuiltAt.IsZero() && r.Bootstrapped == member)
}

// recordLeader notes the member that a proof, or every voter, names as the one that writes go to. The next row that it writes has at
// least the given epoch.
func (r *ClusterRecord) recordLeader(m *Member, epoch uint64) {
	if r.LeaderDoubted {
		r.Leader, r.LeaderDoubted = "", false // what was noted of it before counts no more
	}
	r.recordOpened(m, epoch)
}

// recordOpened notes a member that is to be opened for writes. A doubt stays. One that is noted again, with nobody opened in between,
// goes on as it was: all of its rows since the first time are of the one term.
func (r *ClusterRecord) recordOpened(m *Member, epoch uint64) {
	r.Promotion, r.LeaderAcknowledged = Promotion{}, ""
	if r.Leader != m.Name || r.LeaderServer != m.SQL.ServerUUID || r.LeaderEpoch == 0 || r.LeaderDoubted {
		r.Leader, r.LeaderServer, r.LeaderEpoch, r.LeaderVoid = m.Name, m.SQL.ServerUUID, epoch, ""
	}
}

// recordHandOver records the member that a hand-over is to open for writes. The term of the one that leads goes on if it does not come to
// that.
func (r *ClusterRecord) recordHandOver(to *Member, epoch uint64) {
	ended := r.ending(to)
	r.recordOpened(to, epoch)
	r.Promotion = ended
}

// recordPromotion records the member that a failover is to open for writes; see recordProven. The term of the one that led last goes on if
// it does not come to that, unless that term is in doubt or forgotten: then the proof says more.
func (r *ClusterRecord) recordPromotion(to *Member, epoch uint64, proof Proof) {
	ended := r.Promotion
	if ended.To != to.Name || r.Leader != to.Name {
		ended = r.ending(to)
		ended.Failover = true
	}
	if r.LeaderDoubted || r.Leader == "" && !r.RebuiltAt.IsZero() {
		ended = Promotion{}
	}
	r.recordProven(to, epoch, proof)
	r.Promotion = ended
}

// ending is the present term, which a promotion is to end.
func (r ClusterRecord) ending(to *Member) Promotion {
	return Promotion{
		To: to.Name, Leader: r.Leader, Server: r.LeaderServer, Epoch: r.LeaderEpoch,
		Void: r.LeaderVoid, Acknowledged: r.LeaderAcknowledged, Doubted: r.LeaderDoubted,
	}
}

// unopened says whether a member shows that it was not opened for writes since it was recorded as Leader: it still has its replication
// channel, which a promotion drops first. It gets another one only under another primary, which is recorded or casts doubt.
func (r ClusterRecord) unopened(m *Member) bool {
	return counts(m) && m.Name == r.Leader && !m.SQL.Writable && m.SQL.Replication != nil && m.SQL.Membership.Epoch < r.LeaderEpoch
}

// takeBack continues the term that a promotion was to end, when the member that was to be promoted shows that it was not opened. After a
// failover it does so once the member that led in that term is reached: without it the proof of the failover says more.
func (r *ClusterRecord) takeBack(members map[string]*Member) {
	ended := r.Promotion
	if ended.To == "" || ended.To != r.Leader || !r.unopened(members[r.Leader]) || ended.Failover && !counts(members[cmp.Or(ended.Leader, r.Bootstrapped)]) {
		return
	}
	r.Leader, r.LeaderServer, r.LeaderEpoch, r.LeaderVoid, r.LeaderAcknowledged = ended.Leader, ended.Server, ended.Epoch, ended.Void, ended.Acknowledged
	r.LeaderDoubted, r.Promotion = r.LeaderDoubted || ended.Doubted, Promotion{}
}

// recordProven records the member that a proof names; see recordLeader. On what the proof has stood its repetition can stand.
func (r *ClusterRecord) recordProven(m *Member, epoch uint64, proof Proof) {
	if to := r.Promotion.To; to != "" && to != m.Name && !r.Promotion.Failover {
		r.HandOverFailed = to
	}
	r.recordLeader(m, epoch)
	r.LeaderVoid = recordable(r.void().Union(proof.Void).Subtract(m.position()))
	r.LeaderAcknowledged = recordable(proof.MayBeAcknowledged)
}

// maxRecordedSet is how long a GTID set of Term may be, in bytes. Term has four, which must leave room in the records.
const maxRecordedSet = 48 << 10

// recordable is the text of a GTID set of Term, empty for one that is too long: then it is not known. A failover must not wait for a
// record that only helps to repeat it.
func recordable(set gtid.Set) string {
	if text := set.String(); len(text) <= maxRecordedSet {
		return text
	}
	return ""
}

// void is LeaderVoid. In doubt nothing is void.
func (r ClusterRecord) void() gtid.Set {
	set, _ := r.setOf(r.LeaderVoid)
	return set
}

// setOf reads a GTID set that is recorded of Leader. It is false when none is, or in doubt, or by a text that is no GTID set, which nobody
// wrote.
func (r ClusterRecord) setOf(text string) (gtid.Set, bool) {
	if text == "" || r.LeaderDoubted {
		return gtid.Set{}, false
	}
	set, err := gtid.Parse(text)
	if err != nil {
		return gtid.Set{}, false
	}
	return set, true
}

// inTerm says whether a row is one that Leader wrote since it is noted.
func (r ClusterRecord) inTerm(row Membership) bool {
	return r.LeaderEpoch != 0 && row.Primary == r.Leader && row.Epoch >= r.LeaderEpoch
}

// Equal says whether two records are written as the same text, whatever fields there are.
func (r ClusterRecord) Equal(o ClusterRecord) bool {
	if reflect.DeepEqual(r, o) {
		return true
	}
	one, err := json.Marshal(r)
	other, otherErr := json.Marshal(o)
	return err == nil && otherErr == nil && bytes.Equal(one, other)
}

// Empty says whether nothing is recorded.
func (r ClusterRecord) Empty() bool {
	return len(r.Members) == 0 && r.Equal(ClusterRecord{Schema: r.Schema})
}

// Unbegun says that nothing was ever made for the cluster: the account is recorded before the first thing is.
func (r ClusterRecord) Unbegun() bool { return r.Account == "" && len(r.Members) == 0 }

// Rebuild makes new records from what EC2's tags tell, after the old ones were lost.
func Rebuild(o Observed) ClusterRecord {
	r := ClusterRecord{Members: map[string]MemberRecord{}, RebuiltAt: o.Now, AloneUnknown: true}
	for _, m := range o.Members {
		var rec MemberRecord
		for _, i := range m.Instances {
			rec.Instance = max(rec.Instance, i.Incarnation)
		}
		for _, v := range m.Volumes {
			rec.Volume = max(rec.Volume, v.Incarnation)
		}
		if v := m.volume(); v != nil {
			rec.VolumeID, rec.Opened = v.ID, v.Opened
		}
		if rec != (MemberRecord{}) {
			r.Members[m.Name] = rec
		}
	}
	return r
}
