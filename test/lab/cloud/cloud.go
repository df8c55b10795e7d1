package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/host"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/iam"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/rootfs"
)

// Where the cloud's services listen.
const (
	// EndpointAddress is the EC2 API, with SSM, STS and S3, behind the fault
	// proxy.
	EndpointAddress = hostAddress + ":4566"
	// ControlAddress is the control API of instances and their faults.
	ControlAddress = hostAddress + ":4567"
	// ProxyControlAddress is the control API of the fault proxy.
	ProxyControlAddress = hostAddress + ":4568"
)

// BackupBucket and BackupPrefix are where the policy of the backup pods (whose
// access key is iam.BackupKeyID) lets them write.
const BackupBucket, BackupPrefix = "lab-backups", "team/mysql"

// stopTimeout bounds cleaning up after a failed start.
const stopTimeout = time.Minute

// Options of a cloud. Dir, Ledger are required.
type Options struct {
	// Dir holds the instances' and volumes' files. It is the caller's; what is
	// made in it is entered in the ledger.
	Dir string
	// CacheDir of root file systems; empty means build.DefaultCacheDir.
	CacheDir string
	Ledger   *host.Ledger
	// Log receives the story line by line. Nil: it is thrown away.
	Log io.Writer
	// Program is what instances boot through: a binary whose Commands include
	// ours. Empty: this process's own.
	Program string
	// Faults are offered by the control API beside the cloud's own.
	Faults []Fault
	// CheckDelay is how long a machine is without power until its status checks say so; 0: at once.
	CheckDelay time.Duration
}

// Cloud is a running cloud.
type Cloud struct {
	options  Options
	log      *slog.Logger
	base     string // instance root file system
	fabric   *fabric
	server   *moto.Server
	proxy    *proxy.Proxy
	seeded   moto.Seeded
	machines *hypervisor
	control  *http.Server
	imds     *http.Server
	site     *http.Server

	stopOnce sync.Once
	stopErr  error
	entries  []uint64 // of the ledger, to undo at Stop, in the order they were made
}

// Start builds what is missing in the cache (two root file systems, about two
// minutes), starts the network, the EC2 API and the hypervisor, and seeds the
// account. It needs root. One cloud runs on a machine at a time.
func Start(ctx context.Context, o Options) (*Cloud, error) {
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.Program == "" {
		o.Program = "/proc/self/exe"
	}
	c := &Cloud{options: o, log: slog.New(slog.NewTextHandler(o.Log, nil))}
	if err := c.start(ctx); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("start the cloud: %w", err), c.Stop(ctx))
	}
	return c, nil
}

func (c *Cloud) start(ctx context.Context) error {
	program, err := filepath.EvalSymlinks(c.options.Program)
	if err != nil {
		return fmt.Errorf("find the program to boot through: %w", err)
	}
	c.options.Program = program
	if c.base, err = rootfs.Ensure(ctx, c.options.CacheDir, c.options.Log, rootfs.Instance); err != nil {
		return err
	}
	layer, err := c.prepareDirs()
	if err != nil {
		return err
	}
	if err := c.addOtherBuild(ctx, layer); err != nil {
		return err
	}
	if c.fabric, err = c.startFabric(ctx); err != nil {
		return fmt.Errorf("start the network: %w", err)
	}
	if err := c.prepareBare(ctx); err != nil {
		return err
	}
	c.server, err = moto.Start(ctx, moto.Options{CacheDir: c.options.CacheDir, Hypervisor: true, Log: c.options.Log})
	if err != nil {
		return err
	}
	if c.seeded, err = c.server.Seed(ctx); err != nil {
		return err
	}
	if c.machines, err = c.startHypervisor(layer); err != nil {
		return fmt.Errorf("start the hypervisor: %w", err)
	}
	if c.imds, err = c.startIMDS(); err != nil {
		return fmt.Errorf("start the metadata service: %w", err)
	}
	pods, err := proxy.BackupPods(BackupBucket, BackupPrefix)
	if err != nil {
		return err
	}
	c.proxy, err = proxy.Start(ctx, proxy.Options{
		Upstream: c.server.Endpoint(), Address: EndpointAddress, ControlAddress: ProxyControlAddress,
		Principals: map[string]iam.Principal{iam.BackupKeyID: pods},
		Always:     slices.Concat(proxy.Buckets(), proxy.Latency()),
	})
	if err != nil {
		return fmt.Errorf("start the fault proxy: %w", err)
	}
	if c.control, err = c.startControl(ctx); err != nil {
		return fmt.Errorf("start the control API: %w", err)
	}
	return nil
}

// Directories below Options.Dir.
const (
	dirLayer     = "layer"
	dirBare      = "bare"
	dirSite      = "site"
	dirInstances = "instances"
	dirVolumes   = "volumes"
	dirSnapshots = "snapshots"
)

// prepareDirs makes our directories and the image layer.
func (c *Cloud) prepareDirs() (layer string, err error) {
	for _, d := range []string{dirLayer, dirBare, dirSite, dirInstances, dirVolumes, dirSnapshots} {
		path := filepath.Join(c.options.Dir, d)
		if err := c.note(host.Entry{Kind: host.KindDir, Path: path}); err != nil {
			return "", err
		}
		// What a killed cloud left is of no use: EC2's memory of it is gone.
		if err := os.RemoveAll(path); err != nil {
			return "", fmt.Errorf("empty %s: %w", path, err)
		}
		if err := os.MkdirAll(path, 0o755); err != nil {
			return "", fmt.Errorf("make %s: %w", path, err)
		}
	}
	layer = filepath.Join(c.options.Dir, dirLayer)
	return layer, writeLayer(layer)
}

// addOtherBuild puts the second build of mysqld into the image, if it can be made.
func (c *Cloud) addOtherBuild(ctx context.Context, layer string) error {
	version, err := c.MySQLVersion(ctx)
	if err != nil {
		return err
	}
	if next := NextVersion(version); next != "" {
		return writeOtherBuild(layer, c.base, version, next)
	}
	return nil
}

// note enters a resource that lives as long as the cloud in the ledger.
func (c *Cloud) note(e host.Entry) error {
	id, err := c.options.Ledger.Add(e)
	if err != nil {
		return err
	}
	c.entries = append(c.entries, id)
	return nil
}

// Endpoint is the base URL of the AWS APIs.
func (c *Cloud) Endpoint() string { return "http://" + EndpointAddress }

// Seeded is what the account held at the start.
func (c *Cloud) Seeded() moto.Seeded { return c.seeded }

// Server is the EC2 API behind the proxy, for its status checks and events.
func (c *Cloud) Server() *moto.Server { return c.server }

// Proxy is the fault proxy in front of the EC2 API.
func (c *Cloud) Proxy() *proxy.Proxy { return c.proxy }

// MySQLVersion is what the instances' mysqld says it is (x.y.z).
func (c *Cloud) MySQLVersion(ctx context.Context) (string, error) {
	return rootfs.MySQLVersion(ctx, c.base)
}

// Stop cuts every instance's power, forgets everything and removes what the
// cloud made on the machine. It goes on after errors; what it could not undo
// stays in the ledger. It may be called twice.
func (c *Cloud) Stop(ctx context.Context) error {
	c.stopOnce.Do(func() { c.stopErr = c.stop(ctx) })
	return c.stopErr
}

func (c *Cloud) stop(ctx context.Context) error {
	var errs []error
	for _, s := range []*http.Server{c.control, c.imds, c.site} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	if c.proxy != nil {
		errs = append(errs, c.proxy.Stop())
	}
	if c.machines != nil {
		errs = append(errs, c.machines.stop(ctx))
	}
	if c.server != nil {
		errs = append(errs, c.server.Stop())
	}
	for i := len(c.entries) - 1; i >= 0; i-- {
		errs = append(errs, c.options.Ledger.Undo(ctx, c.entries[i]))
	}
	return errors.Join(errs...)
}
