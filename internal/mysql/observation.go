package mysql

import (
	"fmt"
	"strings"
	"time"
)

// Access says how far a member could be reached.
type Access string

const (
	// AccessSilent: no answer in time, to the dial or to a statement.
	AccessSilent Access = "Silent"
	// AccessRefused: the instance answers, but nothing takes connections on the port, or it closed ours.
	AccessRefused Access = "Refused"
	// AccessUnverified: something answers that does not prove to be the member: the bootstrap certificate, or a stranger.
	AccessUnverified Access = "Unverified"
	// AccessDenied: MySQL answers and turns us away, or has no place for one more connection.
	AccessDenied Access = "Denied"
	// AccessVerified: everything below was read over verified TLS.
	AccessVerified Access = "Verified"
)

// Start is a start of mysqld.
type Start struct {
	// StartedAt is when it was, to the second, by the operator's clock and the server's uptime.
	StartedAt time.Time
	// Run tells it from another: the second in which it was, by the server's own clock. Every answer until the next start has the same
	// one, also after a clock was set. 0 while unknown.
	Run int64
	// Memory names the memory of the run, by a random token that whoever observes it first gives it. Empty while it has no name.
	Memory string
	// Boot names the boot of the instance in which the run began. Empty when the instance does not report it.
	Boot string
	// ShutDown is true when the run of mysqld in front of this one ended with a complete shutdown.
	ShutDown bool
}

// Observation is what a member said of itself in one pass. Unless Access is AccessVerified only Access and Reason are set.
type Observation struct {
	Access Access
	// Reason says why Access is not AccessVerified, for people.
	Reason string

	ServerUUID, Version string
	ServerID            uint32
	Start
	ReadOnly, SuperReadOnly bool
	// Refusing are the dynamic variables that make the server turn clients or their writes away, with the value that does not.
	// read_only, which belongs to a member's role, is none of them.
	Refusing map[string]string
	// Executed and Purged are GTID sets as text, without white space.
	Executed, Purged string
	// Replication is nil when no channel is configured.
	Replication *Replication
	SemiSync    SemiSync
	// Membership is nil when there is no row. That is only so when MembershipKnown.
	Membership      *Membership
	MembershipKnown bool
	// Settings are the present values of the pinned variables, of RedoLog, of ClonePlugin, of ReadOnlyPins and of those asked for by WatchSettings.
	// A variable that the server does not know is missing.
	Settings map[string]string
	// Persisted is everything in mysqld-auto.cnf: what SET PERSIST and SET PERSIST_ONLY left there.
	Persisted map[string]string
	// PersistedIgnored is true when the server was started without what is persisted.
	PersistedIgnored bool
	// Clone is nil when the member was never a recipient. What the server refuses to show is CloneUnread, and not nil.
	Clone *CloneProgress
	// Disk is nil while it is unknown: the instance has not reported yet, or not for two minutes.
	Disk *Disk
	// ClockSkew is how far the member's clock is ahead of the operator's, negative when behind. It is right to half the
	// time that one statement takes.
	ClockSkew time.Duration
	// CertSerial is the serial of the certificate that the member presents, in lower-case hex without leading zeros.
	CertSerial                  string
	CertNotBefore, CertNotAfter time.Time
	// PendingCommits counts the sessions that wait for a semi-sync acknowledgement. More may queue behind them uncounted:
	// only zero and not zero mean something.
	PendingCommits int
	// Waiting are the GTIDs, as a set, of transactions that are in the binary log or on their way there and not executed: of a source
	// those that wait for an acknowledgement. It is read after Executed.
	Waiting string
	// Connections counts the clients of the server, ours included; MaxConnections is how many it takes.
	Connections, MaxConnections int
	// AnsweredCommits counts the commits that got the acknowledgements which they waited for, since the server started.
	AnsweredCommits int
}

// States of Replication.IOState.
const (
	IOOn         = "ON"
	IOConnecting = "CONNECTING"
	IOOff        = "OFF"
)

// SourceRefusal says why the last attempt of a replica to connect failed.
type SourceRefusal struct {
	// SourceIsFull is true when all of its connections are taken, AccountRefused when it does not take the account of its replicas.
	SourceIsFull, AccountRefused bool
	// ConnectError is what the source, or the network, answered to the last attempt of a receiver that is not connected; empty for nothing.
	ConnectError string
}

// Tampering is what somebody changed of a replica's replication, in the words of SHOW REPLICA STATUS and CHANGE REPLICATION SOURCE TO.
type Tampering struct {
	// Filters are the rules by which the replica leaves out or changes what it receives.
	Filters []string
	// Options are those that are not as the operator sets them, with their values.
	Options []string
	// Channels are the names of others: their appliers write to the replica, read-only or not.
	Channels []string
}

// Tampered says whether something was changed.
func (t Tampering) Tampered() bool { return len(t.Filters)+len(t.Options)+len(t.Channels) > 0 }

// Replication is the member's one channel.
type Replication struct {
	SourceHost string
	SourcePort int
	SourceUUID string
	// IOState is IOOn, IOConnecting or IOOff. A frozen source shows as IOConnecting after replica_net_timeout (fact 14).
	IOState    string
	SQLRunning bool
	// Retrieved is the GTID set received since the relay log was made. A member's position is Retrieved ∪ Executed (fact 24).
	Retrieved string
	// LastIOError is the last error of the receiver (IO) thread, LastSQLError that of the applier (SQL) thread. A thread that
	// STOP REPLICA stopped keeps the error that it had before.
	LastIOError, LastSQLError string
	// RelayLogMissing is true when the applier did not start because the relay log that its metadata name is missing. Retrieved is
	// empty then, and only RESET REPLICA repairs that (fact 31).
	RelayLogMissing bool
	// ReceiverRetries is true when LastIOError is of a connection that was lost or could not be made. The receiver retries after
	// such an error and never stops because of it: SOURCE_RETRY_COUNT is 0.
	ReceiverRetries bool
	SourceRefusal
	// LagSeconds is nil when MySQL does not know: a thread is not running.
	LagSeconds *float64
	Tampering
	// SourceSilence is how long ago the source last sent something, by the member's own clock: a heartbeat, which comes
	// every second while there is nothing else, or a transaction. While one large transaction arrives it grows, and after
	// the thread has connected it shows what came before for up to a second, also what came from another source.
	// Negative: nothing since the server started.
	SourceSilence time.Duration
}

// SemiSync is the state of semi-synchronous replication on both sides of the member.
type SemiSync struct {
	// SourceEnabled is the variable, and belongs to the primary alone: on a replica it makes the applier wait (fact 7). SourceActive is
	// what the source does: once a commit has waited for too long it waits for nobody, until a replica has caught up (fact 38).
	SourceEnabled, SourceActive bool
	// ReplicaEnabled is the variable, ReplicaActive what the running IO thread does: a change of the variable
	// counts only from the next start of the thread on (fact 8).
	ReplicaEnabled, ReplicaActive bool
	// WaitCount is how many acknowledgements a commit waits for.
	WaitCount int
	// Clients is the source's count of acknowledging replicas, never too low. After a freeze it can be too high: prove nothing by it (fact 26).
	Clients int
	// Strangers are the sessions, in order, that read this source's binary log with semi-sync on and do not belong to the
	// replication account of the members. The source counts their acknowledgements like a voter's.
	Strangers []Stranger
	// OffTimes counts how often semi-sync was switched off on the source since the server started.
	OffTimes int
}

// Waits says whether commits on the source wait for acknowledgements.
func (s SemiSync) Waits() bool { return s.SourceEnabled && s.SourceActive }

// Membership is the one row that says who votes: its content at one epoch.
type Membership struct {
	// Epoch grows by one with every change and every promotion.
	Epoch uint64
	// Primary is the member that was promoted last. A member that is writable under a row that names another has not
	// had its own promotion acknowledged yet.
	Primary string
	// Voters are the members whose acknowledgements count, the primary included.
	Voters []string
	// Previous are the voters before the last change, until a second row confirms that the change was acknowledged: a row
	// that only crash recovery committed must not be believed alone. Meanwhile whatever is proven is proven under both.
	Previous []string
	// W is how many replicas must acknowledge a commit before its client is answered.
	W int
	// Memory is, by voter, the name of the memory in which it held all that it had acknowledged. A voter that is not in it acknowledges
	// only what is on its disk.
	Memory map[string]string
}

// States of CloneProgress.
const (
	CloneInProgress = "In Progress"
	CloneCompleted  = "Completed"
	CloneFailed     = "Failed"
	// CloneInterrupted is ours: the recipient was killed. MySQL goes on to say "In Progress" then (fact 19).
	CloneInterrupted = "Interrupted"
	// CloneUnread is ours: the server refuses to show it, and no CLONE is known to run. Error is what the server answered.
	CloneUnread = "Unread"
)

// CloneProgress is how far the member's last CLONE as a recipient came.
type CloneProgress struct {
	// State is one of the constants above, or MySQL's "Not Started".
	State string
	// Stage is the stage that runs, or ran last, for example "FILE COPY".
	Stage  string
	Source string
	Error  string
	// Began is when it began, as the member says, in seconds since 1970. It tells one CLONE from another and is no time to reckon with.
	Began string
	// BytesDone and BytesTotal count what the data stages copied and expect to copy.
	BytesDone, BytesTotal uint64
}

// String is how far it came, or the error with which it ended.
func (c CloneProgress) String() string {
	switch {
	case c.Error != "":
		return c.Error
	case c.BytesTotal > 0:
		return fmt.Sprintf("%s, %d%% of %d MiB", strings.ToLower(c.Stage), c.BytesDone*100/c.BytesTotal, c.BytesTotal>>20)
	}
	return strings.ToLower(c.Stage)
}

// Disk is how full the file system of the member's data volume is, as its instance reported at At, by the member's clock.
type Disk struct {
	SizeBytes, FreeBytes uint64
	At                   time.Time
}

// Stranger is the session of a replica that acknowledges and is no member.
type Stranger struct {
	// Session is its connection id on the source: a replica that connects again has another one.
	Session uint64
	// Account is whose session it is, as user@host.
	Account string
}
