package topology

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Action is one small, idempotent step. Each re-reads what it needs before it writes, may run twice, and may be cut
// off half way. internal/engine and internal/cluster/execute give each its effect.
type Action interface {
	// Target is the member that the action is about, or "" for the cluster as a whole. Actions of one target run in order.
	Target() string
	// String describes the action for logs and events. Nothing is decided by it.
	String() string
}

// Identity returns what tells one attempt at an action from another: a comparable value. It leaves out what may change from pass
// to pass while the same is tried, so that two actions with the same identity share one back-off.
func Identity(action Action) any {
	switch a := action.(type) {
	case LaunchInstance:
		return LaunchInstance{Member: a.Member, Incarnation: a.Incarnation, Previous: a.Previous}
	case StopInstance:
		return StopInstance{Member: a.Member, InstanceID: a.InstanceID}
	case SignCertificate, ApplyReceived, Promote, RecordPrimary, RemoveAllVoters, AdmitVoter, Certify, RetireGTIDs:
		return ofMember{kind: reflect.TypeOf(a), member: a.Target()}
	case Switchover:
		return ofMember{reflect.TypeOf(a), a.Member, a.To + " " + a.Why}
	case SettleVoters:
		return ofMember{reflect.TypeOf(a), a.Member, strings.Join(a.Next.Voters, " ")}
	case RemoveVoter:
		return ofMember{reflect.TypeOf(a), a.Member, ""}
	case AdoptHarmless:
		return ofMember{reflect.TypeOf(a), a.Member, a.Replica + " " + strings.Join(a.GTIDs, " ")}
	case CloneFrom:
		return CloneFrom{Member: a.Member, Donor: a.Donor}
	case ReplicateFrom:
		return ReplicateFrom{Member: a.Member, Source: a.Source}
	case SetAcknowledging:
		return SetAcknowledging{Member: a.Member, On: a.On}
	case SetSourceWait:
		return SetSourceWait{Member: a.Member, W: a.W}
	case LowerSourceWait:
		return LowerSourceWait{Member: a.Member, W: a.W}
	case PinSettings:
		return ofMember{reflect.TypeOf(a), a.Member, strings.Join(sortedKeys(a.Settings), " ")}
	case ApplySettings: // other values for the same settings are another attempt
		return ofMember{reflect.TypeOf(a), a.Member, fmt.Sprintf("%q %q", a.Want, a.Drop)}
	}
	return action
}

// ofMember is the identity of an action that is not comparable itself.
type ofMember struct {
	kind   reflect.Type
	member string
	object string
}

type (
	// EnsureSecurityGroup makes the cluster's own security group with its rules, and the groups that the members' instances have, agree
	// with the spec.
	EnsureSecurityGroup struct{}

	// CreateVolume makes a member's data volume, of the incarnation that the records hold: from a snapshot, or empty.
	CreateVolume struct {
		Member      string
		Incarnation int
		Zone        string
		SnapshotID  string
	}
	// DeleteVolume deletes a volume that carries no data, or whose data the deletion policy gives up.
	DeleteVolume struct{ Member, VolumeID string }
	// LaunchInstance launches a member's instance, of the incarnation that the records hold.
	LaunchInstance struct {
		Member      string
		Ordinal     int
		Incarnation int
		SubnetID    string
		VolumeID    string
		// VolumeIncarnation is that of the volume, from 1 on: what the source knows the member by.
		VolumeIncarnation int
		// Previous asks for one made from Desired.PreviousTemplate and not from the present spec.
		Previous bool
	}
	// StartInstance starts a stopped instance.
	StartInstance struct{ Member, InstanceID string }
	// StopInstance powers an instance off: at once, or Gracefully by shutting it down, which only an instance may be of which
	// nobody's commits wait for an acknowledgement. With Force EC2 calls it stopped in the end, whatever its host does.
	StopInstance struct {
		Member, InstanceID string
		Gracefully, Force  bool
	}
	// TerminateInstance ends an instance for good.
	TerminateInstance struct{ Member, InstanceID string }
	// AttachVolume gives an instance its data volume.
	AttachVolume struct{ Member, VolumeID, InstanceID string }
	// DetachVolume takes its data volume from an instance that is stopped.
	DetachVolume struct{ Member, VolumeID, InstanceID string }
	// ModifyVolume makes a volume's size, type and performance agree with the spec, while it is in use.
	ModifyVolume struct{ Member, VolumeID string }
	// TakeSnapshot takes a snapshot of a volume, once for each purpose.
	TakeSnapshot struct{ Member, VolumeID, Purpose string }
	// CopyVolume takes a snapshot of a volume that another cluster left behind, for a member that is to begin with its data.
	CopyVolume struct{ Member, VolumeID, Purpose string }
	// DeleteSnapshot deletes a snapshot that the operator took and that was kept long enough.
	DeleteSnapshot struct{ Member, SnapshotID string }
	// RetireVolume tags a volume as no longer its member's, and keeps it.
	RetireVolume struct{ Member, VolumeID string }
	// DeleteSecurityGroup deletes the cluster's own security group.
	DeleteSecurityGroup struct{ ID string }

	// SignCertificate answers a member's sealed request with a certificate, or renews the one that it has.
	SignCertificate struct {
		Member, InstanceID string
		Incarnation        int
		Address            string
	}
	// Recover restores a dump into a member, or replays into Copy, its volume, what was archived up to the point in time that is asked
	// for. The member stays read-only meanwhile.
	Recover struct{ Member, Copy string }
	// Adopt makes the data on a member's volume, a copy, this cluster's own. The member stays read-only.
	Adopt struct{ Member, VolumeID string }
	// Bootstrap makes a virgin member the first primary and writes the first membership row.
	Bootstrap struct{ Member string }
	// Fence stops the IO threads of the voters that are reached, so that a primary that is not can acknowledge no more.
	Fence struct{ Member string }
	// ApplyReceived starts the applier of a member that is to be promoted and whose applier stopped, and waits a while for it to
	// execute a GTID set.
	ApplyReceived struct{ Member, MustHold string }
	// Promote makes a member the primary, with the next epoch of the membership.
	Promote struct {
		Member     string
		Membership Membership // the row that the proof stands on; without a primary nobody shows one
		Next       Membership // the row that names the member
		SemiSync   bool
		// MustHold is the text of the GTID set that the member must have executed before it is promoted.
		MustHold string
	}
	// RecordPrimary writes the membership row that names a promoted member, after a promotion that was cut off before it, or that somebody
	// has dropped.
	RecordPrimary struct {
		Member   string
		Next     Membership
		SemiSync bool
	}
	// SettleVoters writes the row that confirms a change of the voters, after the one that made it was acknowledged.
	SettleVoters struct {
		Member   string     // the primary
		From     Membership // the row that is in force
		Next     Membership
		SemiSync bool
	}
	// RemoveAllVoters makes the primary the only voter, when nobody is left to acknowledge.
	RemoveAllVoters struct {
		Member   string
		Next     Membership
		SemiSync bool
	}
	// Switchover hands the writes of a primary that is well to another voter, or leaves everything as it was.
	Switchover struct {
		Member, To string
		From       Membership // the row that is in force
		Next       Membership
		SemiSync   bool
		Why        string
	}
	// Demote makes a writable member read-only that must not be writable.
	Demote struct{ Member string }
	// CloneFrom seeds a member from a donor, replacing whatever it holds.
	CloneFrom struct{ Member, Donor, DonorAddress string }
	// ReplicateFrom points a member at its source. Acknowledging says that it acknowledges from the first thing on that it
	// receives there: what it received before would stay unacknowledged. It is said only of one that receives nothing yet:
	// others would acknowledge to the source that they have.
	ReplicateFrom struct {
		Member, Source, SourceAddress string
		Acknowledging                 bool
	}
	// ResetRelayLog throws away the relay log of a member whose applier cannot start because a file of it is missing.
	ResetRelayLog struct{ Member string }
	// AdmitVoter makes a caught-up replica a voter.
	AdmitVoter struct {
		Member, Primary string
		From            Membership // the row that is in force
		Next, Settled   Membership // the row with the change, and the one that confirms it
		SemiSync        bool
	}
	// RemoveVoter takes the vote of a member that can no longer acknowledge. It is an action on the primary: who leaves may
	// not be there any more.
	RemoveVoter struct {
		Member, Primary     string
		From, Next, Settled Membership
		SemiSync            bool
	}
	// SetAcknowledging switches a replica's acknowledgements on or off.
	SetAcknowledging struct {
		Member string
		On     bool
		// Primary is the member whose commits may wait for what the replica received before it was switched on.
		Primary string
	}
	// CommitEmptyTransaction commits an empty transaction on the primary: voters acknowledge only what they receive from now on, and that
	// covers what they received before.
	CommitEmptyTransaction struct{ Member string }
	// AdoptHarmless commits on the primary, empty, the transactions that a replica committed itself and that change no data.
	AdoptHarmless struct {
		Member  string // the primary
		Replica string
		Epoch   uint64 // of the row that is in force
		GTIDs   []string
		What    string // what the last of them is, for people
	}
	// RetireGTIDs commits on the primary, empty, under GTIDs that a member has lost and nobody has any more: no other transaction gets them.
	RetireGTIDs struct {
		Member string // the primary
		Of     string
		Epoch  uint64 // of the row that is in force
		GTIDs  []string
	}
	// RestoreReplicationAccount makes the account of replicas on a member, their source, what it has to be.
	RestoreReplicationAccount struct{ Member string }
	// DisconnectStrangers ends the replication sessions of replicas that acknowledge to the primary and are no members.
	DisconnectStrangers struct{ Member string }
	// SetSourceWait sets for how many acknowledgements of members the primary waits at least.
	SetSourceWait struct {
		Member  string
		Enabled bool
		W       int
		// Alone is true when nobody's acknowledgement counts: the primary is the only voter, replication is
		// asynchronous, or the member is a replica whose applier waits. Commits that wait for one are released.
		Alone bool
	}
	// LowerSourceWait has the primary wait for fewer acknowledgements of members. Nothing else lowers the count of a primary that
	// waits.
	LowerSourceWait struct {
		Member string
		W      int
		// Strangers is how many replicas acknowledged that are no members when this was planned: one that has left since counts.
		Strangers int
	}
	// Certify writes the row that says in which memory voters hold what they acknowledged, once Voter, if there is one, has executed all that
	// it can have acknowledged.
	Certify struct {
		Member, Voter string
		From, Next    Membership
	}
	// SetRelaySync sets after how many events a member syncs its relay log, until its next start.
	SetRelaySync struct{ Member, Value string }
	// PinSettings puts pinned variables back that drifted.
	PinSettings struct {
		Member   string
		Settings map[string]string
	}
	// ApplySettings makes the persisted variables agree with the spec.
	ApplySettings struct {
		Member string
		Want   map[string]string
		Drop   []string
	}
	// Restart restarts a replica's mysqld, so that persisted values take effect.
	Restart struct{ Member string }
	// SetMaxConnections sets how many connections a server takes, until its next start.
	SetMaxConnections struct {
		Member string
		Limit  int
	}
	// PurgeBinaryLogs removes the oldest binary logs of a primary whose disk fills up, none that a replica still needs.
	PurgeBinaryLogs struct{ Member string }
	// EnsureDatabase makes the application's database and its owner on the primary.
	EnsureDatabase struct{ Member string }
)

func (a EnsureSecurityGroup) Target() string       { return "" }
func (a CreateVolume) Target() string              { return a.Member }
func (a DeleteVolume) Target() string              { return a.Member }
func (a LaunchInstance) Target() string            { return a.Member }
func (a StartInstance) Target() string             { return a.Member }
func (a StopInstance) Target() string              { return a.Member }
func (a TerminateInstance) Target() string         { return a.Member }
func (a AttachVolume) Target() string              { return a.Member }
func (a DetachVolume) Target() string              { return a.Member }
func (a ModifyVolume) Target() string              { return a.Member }
func (a TakeSnapshot) Target() string              { return a.Member }
func (a DeleteSecurityGroup) Target() string       { return "" }
func (a SignCertificate) Target() string           { return a.Member }
func (a Recover) Target() string                   { return a.Member }
func (a CopyVolume) Target() string                { return a.Member }
func (a Adopt) Target() string                     { return a.Member }
func (a Bootstrap) Target() string                 { return a.Member }
func (a Fence) Target() string                     { return a.Member }
func (a ApplyReceived) Target() string             { return a.Member }
func (a Promote) Target() string                   { return a.Member }
func (a SettleVoters) Target() string              { return a.Member }
func (a RemoveAllVoters) Target() string           { return a.Member }
func (a Demote) Target() string                    { return a.Member }
func (a CloneFrom) Target() string                 { return a.Member }
func (a ReplicateFrom) Target() string             { return a.Member }
func (a ResetRelayLog) Target() string             { return a.Member }
func (a AdmitVoter) Target() string                { return a.Member }
func (a RemoveVoter) Target() string               { return a.Primary }
func (a SetAcknowledging) Target() string          { return a.Member }
func (a SetSourceWait) Target() string             { return a.Member }
func (a LowerSourceWait) Target() string           { return a.Member }
func (a DisconnectStrangers) Target() string       { return a.Member }
func (a RestoreReplicationAccount) Target() string { return a.Member }
func (a CommitEmptyTransaction) Target() string    { return a.Member }
func (a AdoptHarmless) Target() string             { return a.Member }
func (a RetireGTIDs) Target() string               { return a.Member }
func (a Certify) Target() string                   { return a.Member }
func (a SetRelaySync) Target() string              { return a.Member }
func (a PinSettings) Target() string               { return a.Member }
func (a ApplySettings) Target() string             { return a.Member }
func (a Restart) Target() string                   { return a.Member }
func (a RecordPrimary) Target() string             { return a.Member }
func (a Switchover) Target() string                { return a.Member }
func (a DeleteSnapshot) Target() string            { return a.Member }
func (a RetireVolume) Target() string              { return a.Member }
func (a PurgeBinaryLogs) Target() string           { return a.Member }
func (a SetMaxConnections) Target() string         { return a.Member }
func (a EnsureDatabase) Target() string            { return a.Member }

func (a EnsureSecurityGroup) String() string { return "ensure the security groups" }
func (a CreateVolume) String() string {
	if a.SnapshotID != "" {
		return fmt.Sprintf("create volume %d of %s in %s from %s", a.Incarnation, a.Member, a.Zone, a.SnapshotID)
	}
	return fmt.Sprintf("create volume %d of %s in %s", a.Incarnation, a.Member, a.Zone)
}
func (a DeleteVolume) String() string {
	return fmt.Sprintf("delete volume %s of %s", a.VolumeID, a.Member)
}
func (a LaunchInstance) String() string {
	if a.Previous {
		return fmt.Sprintf("launch instance %d of %s with the previous MySQL version", a.Incarnation, a.Member)
	}
	return fmt.Sprintf("launch instance %d of %s", a.Incarnation, a.Member)
}
func (a StartInstance) String() string {
	return fmt.Sprintf("start instance %s of %s", a.InstanceID, a.Member)
}
func (a StopInstance) String() string {
	if a.Force {
		return fmt.Sprintf("stop instance %s of %s by force", a.InstanceID, a.Member)
	}
	return fmt.Sprintf("stop instance %s of %s", a.InstanceID, a.Member)
}
func (a TerminateInstance) String() string {
	return fmt.Sprintf("terminate instance %s of %s", a.InstanceID, a.Member)
}
func (a AttachVolume) String() string {
	return fmt.Sprintf("attach volume %s to instance %s of %s", a.VolumeID, a.InstanceID, a.Member)
}
func (a DetachVolume) String() string {
	return fmt.Sprintf("detach volume %s from instance %s of %s", a.VolumeID, a.InstanceID, a.Member)
}
func (a ModifyVolume) String() string {
	return fmt.Sprintf("modify volume %s of %s", a.VolumeID, a.Member)
}
func (a TakeSnapshot) String() string {
	return fmt.Sprintf("take snapshot %s of volume %s of %s", a.Purpose, a.VolumeID, a.Member)
}
func (a DeleteSecurityGroup) String() string { return "delete security group " + a.ID }
func (a SignCertificate) String() string     { return "sign the certificate of " + a.Member }
func (a Recover) String() string {
	if a.Copy != "" {
		return "replay the archive into " + a.Copy + " of " + a.Member
	}
	return "restore into " + a.Member
}
func (a CopyVolume) String() string {
	return fmt.Sprintf("take a snapshot of volume %s for %s to begin with", a.VolumeID, a.Member)
}
func (a Adopt) String() string {
	return fmt.Sprintf("adopt the data on volume %s of %s", a.VolumeID, a.Member)
}
func (a Bootstrap) String() string     { return "bootstrap the cluster on " + a.Member }
func (a Fence) String() string         { return "stop acknowledgements of " + a.Member }
func (a ApplyReceived) String() string { return "start the applier of " + a.Member }
func (a Promote) String() string       { return "promote " + a.Member }
func (a RecordPrimary) String() string { return fmt.Sprintf("record %s as the primary", a.Member) }
func (a Switchover) String() string {
	return fmt.Sprintf("switch over from %s to %s: %s", a.Member, a.To, a.Why)
}
func (a DeleteSnapshot) String() string {
	return fmt.Sprintf("delete snapshot %s of %s", a.SnapshotID, a.Member)
}
func (a RetireVolume) String() string {
	return fmt.Sprintf("retire volume %s of %s", a.VolumeID, a.Member)
}
func (a SetMaxConnections) String() string {
	return fmt.Sprintf("let %s take %d connections", a.Member, a.Limit)
}
func (a PurgeBinaryLogs) String() string { return "purge the oldest binary logs of " + a.Member }
func (a SettleVoters) String() string {
	return "confirm the voters " + strings.Join(a.Next.Voters, ", ")
}
func (a RemoveAllVoters) String() string { return fmt.Sprintf("let %s go on alone", a.Member) }
func (a Demote) String() string          { return "demote " + a.Member }
func (a CloneFrom) String() string       { return fmt.Sprintf("clone %s from %s", a.Member, a.Donor) }
func (a ReplicateFrom) String() string {
	return fmt.Sprintf("replicate %s from %s", a.Member, a.Source)
}
func (a ResetRelayLog) String() string {
	return fmt.Sprintf("reset the relay log of %s, of which a file is missing", a.Member)
}
func (a AdmitVoter) String() string  { return fmt.Sprintf("admit %s as a voter", a.Member) }
func (a RemoveVoter) String() string { return fmt.Sprintf("remove %s from the voters", a.Member) }
func (a SetAcknowledging) String() string {
	return fmt.Sprintf("switch the acknowledgements of %s %s", a.Member, onOff(a.On))
}
func (a CommitEmptyTransaction) String() string {
	return "commit an empty transaction on " + a.Member + ", which the commits that wait are acknowledged with"
}
func (a AdoptHarmless) String() string {
	what := a.What
	if len(what) > longestWhat {
		what = strings.ToValidUTF8(what[:longestWhat], "") + "..."
	}
	if n := len(a.GTIDs); n > 1 {
		what = fmt.Sprintf("%s and %d more", what, n-1)
	}
	return fmt.Sprintf("commit on %s as empty what replica %s logged and what changes no data: %s. Ask who runs it there, such as a monitoring agent, to use NO_WRITE_TO_BINLOG", a.Member, a.Replica, what)
}
func (a RetireGTIDs) String() string {
	return fmt.Sprintf("commit on %s empty transactions under %d GTIDs that %s lost when it was rebuilt, so that no other transaction gets them", a.Member, len(a.GTIDs), a.Of)
}
func (a SetSourceWait) String() string {
	return fmt.Sprintf("let %s wait for %d acknowledgements", a.Member, a.W)
}
func (a LowerSourceWait) String() string {
	return fmt.Sprintf("let %s wait for no more than %d acknowledgements", a.Member, a.W)
}
func (a RestoreReplicationAccount) String() string {
	return "put back the account nairobi_replication on " + a.Member + ", which refuses its replicas"
}
func (a DisconnectStrangers) String() string {
	return fmt.Sprintf("disconnect replicas from %s that acknowledge and are no members", a.Member)
}
func (a Certify) String() string {
	if a.Voter != "" {
		return "record that " + a.Voter + " holds all that it acknowledged"
	}
	return "record in which memory the voters acknowledge"
}
func (a SetRelaySync) String() string {
	return fmt.Sprintf("set sync_relay_log of %s to %s", a.Member, a.Value)
}
func (a PinSettings) String() string {
	return fmt.Sprintf("put %s of %s back", strings.Join(sortedKeys(a.Settings), ", "), a.Member)
}
func (a ApplySettings) String() string {
	names := append(sortedKeys(a.Want), a.Drop...)
	if len(names) > settingsNamed {
		return fmt.Sprintf("apply %d settings to %s", len(names), a.Member)
	}
	return fmt.Sprintf("apply %s to %s", strings.Join(names, ", "), a.Member)
}
func (a Restart) String() string        { return "restart mysqld of " + a.Member }
func (a EnsureDatabase) String() string { return "ensure the application database" }

// longestWhat is how much of a statement is shown, in bytes: a list of tables may be long.
const longestWhat = 60

// settingsNamed is how many settings are named one by one before they are only counted.
const settingsNamed = 5

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
