// Package kube runs a Kubernetes control plane and one real node on this machine, inside network and mount
// namespaces that play the node.
package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/build"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/host"
)

// Addresses of the lab. The host and the node are the two ends of one virtual cable.
const (
	HostAddress = "10.200.0.1"
	NodeAddress = "10.200.0.2"
	// APIServer is what kubeconfigs point to; the host reaches it too.
	APIServer = "https://" + NodeAddress + ":6443"

	cablePrefix    = "/24"
	serviceRange   = "10.96.0.0/16"
	firstServiceIP = "10.96.0.1"
	dnsServiceIP   = "10.96.0.10"
	podRange       = "10.244.0.0/16"
	nodePodRange   = "10.244.0.0/24"
	clusterDomain  = "cluster.local"
)

// NodeName is the name of the one node.
const NodeName = "nairobi-lab"

const (
	// hostLink is the host's end of the cable.
	hostLink = "nairobi-k8s"
	// nodeCgroup holds every process of the node, so that all can be killed at once.
	nodeCgroup = "nairobi-lab-node"
	// podsCgroup is where the kubelet puts pods.
	podsCgroup = "nairobi-lab-pods"
)

// Options of Start.
type Options struct {
	// Dir is the lab's directory; the cluster keeps its state in Dir/kube and Dir/log.
	Dir string
	// Self is the lab's own program, which starts again as the node's first process.
	Self   string
	Build  build.Config
	Ledger *host.Ledger
	Log    io.Writer
	// ClientRootFS gives the directory of the instances' root file system, from which the mysql client's image
	// is taken. Nil: no such image.
	ClientRootFS func(context.Context) (string, error)
	// Step runs one named step of the start; the owner uses it to show progress. Nil: it is just run.
	Step func(name string, run func() error) error
}

// Cluster is a running cluster.
type Cluster struct {
	opts    Options
	paths   map[string]string
	layout  layout
	nodePID int
	// nodeGroups are the control groups of the node's own processes.
	nodeGroups []string
	registry   *registryServer
	// admin is the administrator's kubeconfig, api a client made from it.
	admin []byte
	api   kubernetes.Interface

	mu        sync.Mutex
	processes []*host.Process
}

// layout is where the files of a cluster are; the node sees them under the same paths.
type layout struct{ state, pki, config, log string }

// Start brings up the cluster and returns when the API server, the node and the cluster's DNS are ready. On an
// error everything that was made stays in the ledger.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	if opts.Step == nil {
		opts.Step = func(_ string, run func() error) error { return run() }
	}
	state := filepath.Join(opts.Dir, "kube")
	c := &Cluster{opts: opts, layout: layout{
		state: state, pki: filepath.Join(state, "pki"), config: filepath.Join(state, "config"),
		log: filepath.Join(opts.Dir, "log"),
	}}
	steps := []struct {
		name string
		run  func(context.Context) error
	}{
		{"programs of the cluster", c.ensurePrograms},
		{"node's machine", c.makeNode},
		{"registry", c.startRegistry},
		{"keys and configuration", c.writeFiles},
	}
	for _, step := range steps {
		if err := opts.Step(step.name, func() error { return step.run(ctx) }); err != nil {
			return c, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return c, c.startAll(ctx)
}

// startAll runs the branches that do not need each other side by side: images, container runtime, control plane.
func (c *Cluster) startAll(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(ctx)
	branch := func(name string, run func(context.Context) error) {
		group.Go(func() error {
			if err := c.opts.Step(name, func() error { return run(groupCtx) }); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	branch("images", c.pushImages)
	branch("containerd", c.startContainerd)
	branch("control plane", c.startControlPlane)
	if err := group.Wait(); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{{"node", c.startNode}, {"volumes", c.makeVolumes}, {"cluster DNS", c.startDNS}} {
		if err := c.opts.Step(step.name, func() error { return step.run(ctx) }); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

func (c *Cluster) ensurePrograms(ctx context.Context) error {
	paths, err := build.Ensure(ctx, c.opts.Build, build.Kubernetes, build.Etcd, build.CoreDNS, build.Node)
	c.paths = paths
	return err
}

// NodePID is the process whose network and mount namespaces are the node's.
func (c *Cluster) NodePID() int { return c.nodePID }

// Kubectl is the path of the kubectl that fits the cluster.
func (c *Cluster) Kubectl() string { return c.paths["kubectl"] }

// Ended names the processes of the cluster that are not running any more, with how they ended; empty when all is well.
func (c *Cluster) Ended() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ended []string
	for _, process := range c.processes {
		if !process.Running() {
			ended = append(ended, fmt.Sprintf("%s (%s)", filepath.Base(process.Name), process.State()))
		}
	}
	return ended
}

// Signal sends a signal to one of the cluster's own programs, for example SIGSTOP to kube-apiserver.
func (c *Cluster) Signal(program string, signal syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, process := range c.processes {
		if filepath.Base(process.Name) == program && process.Running() {
			return process.Signal(signal)
		}
	}
	return fmt.Errorf("no program %s runs", program)
}

// stopGrace is enough for the kubelet and etcd to end by themselves; nothing is lost when they do not.
const stopGrace = 3 * time.Second

// Stop ends the cluster's processes and pods. What else it made is undone by the ledger's Clean.
func (c *Cluster) Stop(ctx context.Context) error {
	c.mu.Lock()
	processes := c.processes
	c.mu.Unlock()
	var group errgroup.Group
	for _, process := range processes {
		group.Go(func() error { return process.Stop(ctx, stopGrace) })
	}
	err := group.Wait()
	if c.registry != nil {
		err = errors.Join(err, c.registry.Close())
	}
	return err
}

// run starts a program in the node's namespaces and control group; its output goes to log/<name>.log.
func (c *Cluster) run(ctx context.Context, name string, args ...string) (*host.Process, error) {
	program, found := c.paths[name]
	if !found {
		program = name // part of the node's own root file system
	}
	process, err := c.opts.Ledger.StartProcess(ctx, host.Spec{
		Name: program, Args: args, NSPid: c.nodePID, Cgroups: c.nodeGroups, LogFile: c.logFile(name),
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"},
	})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.processes = append(c.processes, process)
	c.mu.Unlock()
	return process, nil
}

func (c *Cluster) logFile(name string) string { return filepath.Join(c.layout.log, name+".log") }

// logTail is how many last lines of a program's log an error quotes.
const logTail = 5

// orDead waits until the condition holds; it gives up when the process ends, and quotes its log.
func (c *Cluster) orDead(ctx context.Context, process *host.Process, limit time.Duration, condition func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := condition(ctx)
		if err == nil {
			return nil
		}
		name := filepath.Base(process.Name)
		select {
		case <-process.Done():
			return fmt.Errorf("%s ended (%s): %s", name, process.State(), tail(c.logFile(name), logTail))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready after %s: %w", name, limit, err)
		case <-time.After(pollEvery):
		}
	}
}

// pollEvery is short because most steps take well under a second.
const pollEvery = 100 * time.Millisecond

func tail(path string, lines int) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
