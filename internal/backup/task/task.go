// Package task is what the operator tells a backup pod: one JSON document in the pod's environment, and where the pod
// finds what it is given as files.
package task

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// Variable is the environment variable with the task.
const Variable = "NAIROBI_MYSQL_TASK"

// RunnerVariable is the environment variable with the name of the pod's Job.
const RunnerVariable = "NAIROBI_MYSQL_JOB"

// JobUIDVariable is the environment variable with the UID of the pod's Job.
const JobUIDVariable = "NAIROBI_MYSQL_JOB_UID"

// Places in a pod.
const (
	// ToolsDir is where the init container puts our own binary.
	ToolsDir = "/nairobi-mysql"
	// Binary is that binary.
	Binary = ToolsDir + "/manager"
	// TLSDir holds ca.crt, tls.crt and tls.key.
	TLSDir = "/var/run/nairobi-mysql/tls"
	// S3Dir holds the keys below of the user's Secret, when there is one.
	S3Dir = "/var/run/nairobi-mysql/s3"
	// ClaimDir is where the claim is mounted that backups are kept on.
	ClaimDir = "/backups"
	// WorkDir is for what has to be on a disk for a while.
	WorkDir = "/work"
	// SpoolDir is where the archive's claim is mounted.
	SpoolDir = "/spool"
)

// Keys of the ConfigMap in which a pod reports that has no MySQLBackup to report in.
const (
	ReportState   = "state"
	ReportReason  = "reason"
	ReportMessage = "message"
	// ReportBackup is the backup that was verified last, ReportAt when that ended; ReportPassedBackup and ReportPassedAt
	// are the last that was found whole. Times are as RFC 3339 has them.
	ReportBackup       = "backup"
	ReportAt           = "at"
	ReportPassedBackup = "passedBackup"
	ReportPassedAt     = "passedAt"
	// ReportSkipped says what a restore left out. It stays when another pod goes on.
	ReportSkipped = "skipped"
	// ReportFailure is why the last attempt failed, with its reason. It stays while another pod of the Job tries again.
	ReportFailure = "failure"
	// ReportJob is the UID of the Job whose pod reported.
	ReportJob = "job"
	// ReportCopy is the volume into which the pod replays; empty for a dump.
	ReportCopy = "copy"
	// ReportArchive is how the archive is, in JSON.
	ReportArchive = "archive"
)

// ExitFailed is the exit code of a task that failed for good: the Job must not try it again.
const ExitFailed = 42

// Task is what a pod is to do.
type Task struct {
	// Namespace, Cluster and ClusterUID name the cluster that the pod works for.
	Namespace  string `json:"namespace"`
	Cluster    string `json:"cluster"`
	ClusterUID string `json:"clusterUID"`
	// Members are the names of its members.
	Members []string `json:"members,omitempty"`
	// Primary is the host name under which the primary takes connections.
	Primary string `json:"primary,omitempty"`
	// Destination is where backups are, Region that of its bucket.
	Destination *v1alpha1.BackupDestination `json:"destination,omitempty"`
	Region      string                      `json:"region,omitempty"`
	// Backup is the MySQLBackup to work on; a pod of a schedule makes one itself.
	Backup   string                `json:"backup,omitempty"`
	Schedule string                `json:"schedule,omitempty"`
	Method   v1alpha1.BackupMethod `json:"method,omitempty"`
	ArchiveBase
	Retention
	// StallTimeout is how long no progress may be made.
	StallTimeout time.Duration `json:"stallTimeout,omitempty"`
	// Path is a folder below the destination's prefix: of the backup to remove, or of what is restored.
	Path string `json:"path,omitempty"`
	Recovery
	Verification
	// SpoolBytes is how large the claim is on which binary logs wait for their upload.
	SpoolBytes int64 `json:"spoolBytes,omitempty"`
	// Report is the ConfigMap to report in.
	Report string `json:"report,omitempty"`
}

// ArchiveBase is what has to be known of a backup that the archive of binary logs begins with.
type ArchiveBase struct {
	// Base is true for such a backup.
	Base bool `json:"base,omitempty"`
	// Required is the GTID set that it has to hold.
	Required string `json:"required,omitempty"`
}

// Retention is that of a schedule; 0 is no limit.
type Retention struct {
	Keep    int           `json:"keep,omitempty"`
	KeepFor time.Duration `json:"keepFor,omitempty"`
	// Bases is true where the retention is also that of the archive's bases that no schedule owns.
	Bases bool `json:"bases,omitempty"`
}

// Recovery is what a restore has to know.
type Recovery struct {
	// Target is the member that is restored into.
	Target string `json:"target,omitempty"`
	// Copy is the volume of Target when that is a copy of another cluster's, which the archive leads on from; empty for a server that a
	// dump is restored into.
	Copy string `json:"copy,omitempty"`
	// UntilTime and UntilGTID are how far the source's history is restored; as far as its backup reaches without them.
	UntilTime *time.Time `json:"untilTime,omitempty"`
	UntilGTID string     `json:"untilGTID,omitempty"`
}

// Verification is what a verification has to know.
type Verification struct {
	// MaxAge is how old what the newest dump shows may be.
	MaxAge time.Duration `json:"maxAge,omitempty"`
	// Settings are those of the cluster, v1alpha1.MySQLClusterSpec.Settings.
	Settings map[string]string `json:"settings,omitempty"`
}

// Encode writes a task.
func (t Task) Encode() (string, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return "", fmt.Errorf("write the task: %w", err)
	}
	return string(text), nil
}

// Decode reads one.
func Decode(text string) (Task, error) {
	var t Task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return Task{}, fmt.Errorf("read the task: %w", err)
	}
	return t, nil
}
