package engine

import (
	"context"
	"time"

	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/steps"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// Ports are what an execution reaches its world through.
type Ports struct {
	// Cloud is nil while the cluster's AWS account must not or cannot be used.
	Cloud    Cloud
	Database Database
	Records  Records
	Threads  Threads
	Reporter Reporter
	Clock    clock.PassiveClock
	// Lease takes a fresh look at the leader's lease, and fails unless this process holds it. Nil: there is no election.
	Lease func(context.Context) error
	// Wake has another pass made now.
	Wake func()
}

// Cloud is EC2, for one cluster. Its errors are those of internal/ec2, or Problems.
type Cloud interface {
	EnsureSecurityGroup(ctx context.Context) error
	DeleteSecurityGroup(ctx context.Context, a topology.DeleteSecurityGroup) error
	// PrepareVolume and PrepareLaunch copy what the request needs, and return it: it may go on while the cluster's object changes.
	PrepareVolume(a topology.CreateVolume) (request func(context.Context) error, err error)
	PrepareLaunch(a topology.LaunchInstance) (request func(context.Context) error, err error)
	AttachVolume(ctx context.Context, a topology.AttachVolume) error
	DetachVolume(ctx context.Context, a topology.DetachVolume) error
	// ModifyVolume says whether EC2 counts a modification; it does not where the volume is as it should be.
	ModifyVolume(ctx context.Context, a topology.ModifyVolume) (modified bool, err error)
	StartInstance(ctx context.Context, a topology.StartInstance) error
	StopInstance(ctx context.Context, a topology.StopInstance) error
	TerminateInstance(ctx context.Context, a topology.TerminateInstance) error
	DeleteVolume(ctx context.Context, a topology.DeleteVolume) error
	RetireVolume(ctx context.Context, a topology.RetireVolume) error
	TakeSnapshot(ctx context.Context, a topology.TakeSnapshot) error
	CopyVolume(ctx context.Context, a topology.CopyVolume) error
	DeleteSnapshot(ctx context.Context, a topology.DeleteSnapshot) error
	// RestoreTags puts tags back that a resource has lost.
	RestoreTags(ctx context.Context, id string, tags map[string]string) error
	// TagVersion tags a volume with the newest version of MySQL that opened it.
	TagVersion(ctx context.Context, volumeID, version string) error
}

// Database is mysqld on the cluster's members.
type Database interface {
	// Member returns the handle of a member as it was observed.
	Member(ctx context.Context, name string) (Member, error)
	// Recover restores a dump or the archive into the first member, and records when that is done.
	Recover(ctx context.Context, a topology.Recover) error
}

// Member is the mysqld of one member.
type Member interface {
	steps.Server
	// DemotePatiently is Demote of a primary whose clients get time to finish before, and are ended after it.
	DemotePatiently(ctx context.Context) error
	// DisconnectClients ends the sessions of clients, so that they look for the primary. One that cannot be ended only gets errors.
	DisconnectClients(ctx context.Context)
	// PrepareCertificate signs the certificate that the member asks for. It returns which key that is of, and what installs it.
	PrepareCertificate(ctx context.Context, a topology.SignCertificate) (key string, install func(context.Context) error, err error)
	// Adopt makes a copied volume's data this cluster's own, and records it.
	Adopt(ctx context.Context, a topology.Adopt) error
	CloneFrom(ctx context.Context, donorAddress string) error
	SetRelaySync(ctx context.Context, value string) error
	PinSettings(ctx context.Context, a topology.PinSettings) error
	// ApplySettings persists settings, and says whether they wait for a restart. It calls before ahead of the first that does.
	// mysql.ErrSettingRefused: mysqld did not take some.
	ApplySettings(ctx context.Context, a topology.ApplySettings, before func(context.Context) error) (restart bool, err error)
	SetMaxConnections(ctx context.Context, limit int) error
	// PurgeBinaryLogs removes binary logs that no member needs any more.
	PurgeBinaryLogs(ctx context.Context) error
	// EnsureDatabase makes the application's database and its owner, and records it.
	EnsureDatabase(ctx context.Context) error
}

// Records are the cluster's records.
type Records interface {
	Now() topology.ClusterRecord
	// Save changes them by compare-and-swap. Actions of several members save in parallel.
	Save(ctx context.Context, change func(*topology.ClusterRecord)) error
}

// Threads runs what goes on side by side.
type Threads interface {
	// All runs the tasks side by side, and returns when all are over.
	All(ctx context.Context, tasks []func(context.Context))
	// Start begins a task that may outlast the pass, for at most limit.
	Start(ctx context.Context, limit time.Duration, task func(context.Context)) Task
}

// Task is what Threads began.
type Task interface {
	// Await waits for the end of the task, for at most patience, and says whether it is over.
	Await(ctx context.Context, patience time.Duration) (over bool)
}

// Reporter is where people see what comes of a plan.
type Reporter interface {
	Begins(a topology.Action)
	Succeeded(a topology.Action)
	// Failed is called for each failure; news says whether the last try did not fail in the same way.
	Failed(a topology.Action, p *Problem, news bool)
	TagsRestored(id string)
	// PromotionBegins is called when nobody can acknowledge for the old primary any more, Promoted when the new one takes writes.
	PromotionBegins()
	Promoted()
	// SwitchedOver is called when a switchover is over; closed is when the old primary took its last write.
	SwitchedOver(a topology.Switchover, closed time.Time)
}
