// Package pod is what runs in the pods that back clusters up and restore them: it reads the task, does it, and reports.
package pod

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/pitr"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// Names of the subcommands.
const (
	CommandInstall = "install"
	CommandBackup  = "backup"
	CommandRemove  = "remove-backup"
	CommandRestore = "restore"
	CommandVerify  = "verify"
	CommandArchive = "archive"
)

const (
	// statementTimeout bounds a short statement of a pod: a member that is dumped may be busy.
	statementTimeout = 30 * time.Second
	// dialTimeout bounds connecting to a member.
	dialTimeout = 10 * time.Second
	// cleanupTimeout bounds what is taken back after a failure. A pod has 30 seconds to end.
	cleanupTimeout = 20 * time.Second
)

// ErrFailed says that the task failed for good, and that this was reported: trying it again is of no use.
var ErrFailed = errors.New("the task failed")

// IsCommand says whether the first argument of the binary is one of a pod.
func IsCommand(name string) bool {
	switch name {
	case CommandInstall, CommandBackup, CommandRemove, CommandRestore, CommandVerify, CommandArchive:
		return true
	}
	return false
}

// worker is a pod at work.
type worker struct {
	task   task.Task
	client client.Client
	place  backup.Place
	log    logr.Logger
	clock  clock.Clock
	// runner is the Job that the pod belongs to, jobUID its UID.
	runner, jobUID string
	// attemptPause is the pause between two attempts to dump a member.
	attemptPause time.Duration
	// workDir is where a verification may keep a whole data set.
	workDir string
	// skipped is what a restore left out.
	skipped string
	// reach says how a member is reached as a user, and credentials are the pod's own for MySQL's programs.
	reach       func(name, user string) backup.Member
	credentials backup.Credentials
	// program makes the command of one of them; nil means that it is in the path.
	program func(ctx context.Context, name string, arguments ...string) *exec.Cmd
}

// Run does what a subcommand says and returns the process's exit code.
func Run(ctx context.Context, arguments []string, log logr.Logger, version string) int {
	err := run(ctx, arguments, log, version)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrFailed):
		log.Error(err, "failed for good")
		return task.ExitFailed
	}
	log.Error(err, "failed")
	return 1
}

func run(ctx context.Context, arguments []string, log logr.Logger, version string) error {
	if arguments[0] == CommandInstall {
		if len(arguments) != 2 {
			return errors.New("usage: install PATH")
		}
		return install(arguments[1])
	}
	w, err := newWorker(ctx, log, version)
	if err != nil {
		return err
	}
	switch arguments[0] {
	case CommandBackup:
		return w.backup(ctx)
	case CommandRemove:
		return w.remove(ctx)
	case CommandRestore:
		return w.restore(ctx)
	case CommandVerify:
		return w.verify(ctx)
	case CommandArchive:
		return w.archive(ctx)
	}
	return fmt.Errorf("there is no subcommand %q", arguments[0])
}

// install copies this very binary to where the main container finds it: its image is MySQL's and has none of ours.
func install(to string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the own binary: %w", err)
	}
	from, err := os.Open(self) //nolint:gosec // our own binary
	if err != nil {
		return fmt.Errorf("read the own binary: %w", err)
	}
	defer from.Close()
	file, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755) //nolint:gosec // it is run by any user
	if err != nil {
		return fmt.Errorf("install the binary: %w", err)
	}
	_, err = io.Copy(file, from)
	return errors.Join(err, file.Close())
}

func newWorker(ctx context.Context, log logr.Logger, version string) (*worker, error) {
	t, err := task.Decode(os.Getenv(task.Variable))
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("build the scheme: %w", err)
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	w := &worker{task: t, client: c, log: log, clock: clock.RealClock{}, runner: os.Getenv(task.RunnerVariable), jobUID: os.Getenv(task.JobUIDVariable), credentials: credentials(), attemptPause: attemptPause, workDir: task.WorkDir}
	w.reach = w.member
	if t.Destination != nil {
		s, err := openStore(ctx, *t.Destination, task.S3Dir, t.Region, version)
		if err != nil {
			// It is reported by whoever needs the store, like any other trouble with it.
			s = broken{err}
		}
		w.place = backup.Place{Store: s, Root: backup.RootOf(t.Namespace, t.Cluster, t.ClusterUID)}
	}
	return w, nil
}

// openStore opens a destination, with the credentials in a directory where it names a Secret, and with those only: nobody else's
// take the place of keys that are missing.
func openStore(ctx context.Context, d v1alpha1.BackupDestination, keys, region, version string) (store.Store, error) {
	if d.PersistentVolumeClaim != nil {
		return store.NewFolder(task.ClaimDir, "pvc://"+d.PersistentVolumeClaim.ClaimName)
	}
	o := store.S3Options{
		Bucket: d.S3.Bucket, Prefix: d.S3.Prefix, Region: region, Endpoint: d.S3.Endpoint, CABundle: d.S3.CABundle, KMSKeyID: d.S3.KMSKeyID,
		UserAgent: "nairobi-mysql-operator/" + version,
	}
	if d.S3.Region != "" {
		o.Region = d.S3.Region
	}
	if d.S3.CredentialsSecretRef != nil {
		var err error
		if o.AccessKeyID, err = key(keys, task.KeyAccessKeyID); err == nil {
			o.SecretAccessKey, err = key(keys, task.KeySecretAccessKey)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: Secret %s: %w", store.ErrDenied, d.S3.CredentialsSecretRef.Name, err)
		}
		o.SessionToken, _ = key(keys, task.KeySessionToken) // it is optional
	}
	return store.NewS3(ctx, o)
}

// key reads a key of the user's Secret. A line break at its end is how it was made, not what it says.
func key(dir, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	value := task.ValueOf(text)
	if err != nil || value == "" {
		return "", fmt.Errorf("it has no key %s", name)
	}
	return value, nil
}

// host is a member's name under the headless Service.
func (w *worker) host(name string) string {
	return name + "." + w.task.Cluster + "." + w.task.Namespace + ".svc"
}

// member is a member as this pod reaches it: by its own DNS name under the headless Service.
func (w *worker) member(name, user string) backup.Member {
	host := w.host(name)
	return backup.Member{Name: name, Host: host, Connect: func(ctx context.Context) (*podclient.Visit, error) {
		o, err := visit(host, user)
		if err != nil {
			return nil, err
		}
		return podclient.OpenVisit(ctx, o)
	}}
}

// visit is how a host is reached, with the pod's identity as it is now.
func visit(host, user string) (podclient.VisitOptions, error) {
	identity, err := conn.ReadIdentity(task.TLSDir)
	return podclient.VisitOptions{
		Endpoint: mysql.Endpoint{Key: host, Address: fmt.Sprintf("%s:%d", host, v1alpha1.MySQLPort), ServerName: host},
		Identity: identity, User: user,
		Options: conn.Options{DialTimeout: dialTimeout, StatementTimeout: statementTimeout},
	}, err
}

// credentials are the pod's own, as files.
func credentials() backup.Credentials {
	return backup.Credentials{
		CAFile: filepath.Join(task.TLSDir, conn.CAFile), CertFile: filepath.Join(task.TLSDir, conn.CertFile), KeyFile: filepath.Join(task.TLSDir, conn.KeyFile),
	}
}

// reasons are the words for what goes wrong. The first that fits is taken.
var reasons = []struct {
	err  error
	word string
}{
	{mysql.ErrBlocked, v1alpha1.BackupReasonBlocked}, // also one that was given up for being blocked too long
	{backup.ErrStalled, v1alpha1.BackupReasonStalled},
	{store.ErrDenied, v1alpha1.BackupReasonAccessDenied},
	{store.ErrNoBucket, v1alpha1.BackupReasonNoBucket},
	{store.ErrFull, v1alpha1.BackupReasonStoreFull},
	{store.ErrUnavailable, v1alpha1.BackupReasonStoreUnavailable},
	{backup.ErrNoMember, v1alpha1.BackupReasonNoMember},
	{backup.ErrLost, v1alpha1.BackupReasonMemberLost},
	{backup.ErrProgram, v1alpha1.BackupReasonDumpFailed},
	{backup.ErrIncomplete, v1alpha1.BackupReasonDumpIncomplete},
	{backup.ErrMoved, v1alpha1.BackupReasonDumpIncomplete},
	{backup.ErrCorrupt, v1alpha1.BackupReasonDamaged},
	{backup.ErrVersion, v1alpha1.BackupReasonWrongVersion},
	{backup.ErrSettings, v1alpha1.BackupReasonWrongSettings},
	{podclient.ErrNotEmpty, v1alpha1.BackupReasonNotEmpty},
	{podclient.ErrServes, v1alpha1.BackupReasonNotEmpty},
	{backup.ErrDiffers, v1alpha1.BackupReasonDiffers},
	{backup.ErrTooOld, v1alpha1.BackupReasonTooOld},
	{backup.ErrServer, v1alpha1.BackupReasonServerFailed},
	{backup.ErrRejected, v1alpha1.BackupReasonLoadRejected},
	{backup.ErrLoad, v1alpha1.BackupReasonLoadFailed},
	{pitr.ErrGap, v1alpha1.BackupReasonArchiveGap},
	{pitr.ErrBeyond, v1alpha1.BackupReasonOutOfReach},
	{pitr.ErrBefore, v1alpha1.BackupReasonOutOfReach},
	{pitr.ErrClock, v1alpha1.BackupReasonOutOfReach},
	{pitr.ErrTooLarge, v1alpha1.BackupReasonTransactionTooLarge},
	{mysql.ErrUnreachable, v1alpha1.BackupReasonMemberLost},
	{pitr.ErrReplay, v1alpha1.BackupReasonReplayFailed},
	{store.ErrNotFound, v1alpha1.BackupReasonNotFound},
}

// reasonOf is the word for an error.
func reasonOf(err error) string {
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.word
		}
	}
	return v1alpha1.BackupReasonError
}

// remove deletes a backup's folder. One that is in use is tried again later.
func (w *worker) remove(ctx context.Context) error {
	root, folder, found := strings.Cut(w.task.Path, "/backups/")
	if !found || folder == "" || strings.Contains(folder, "/") {
		return fmt.Errorf("%w: %q is no backup's folder", ErrFailed, w.task.Path)
	}
	w.place.Root = root
	return w.place.RemoveUnused(ctx, folder, w.clock.Now())
}
