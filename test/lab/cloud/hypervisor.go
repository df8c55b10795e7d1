package cloud

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/host"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
)

const (
	// tick is how often the EC2 API is read and machines are looked at.
	tick = 100 * time.Millisecond
	// retryPause keeps a step that fails from being repeated at every tick.
	retryPause = time.Second
	// sweepEvery is how often files of deleted volumes are removed.
	sweepEvery = 2 * time.Second
	groupName  = "nairobi-cloud"
)

// hypervisor makes machines and disks what the EC2 API says they should be,
// and reports to it what they are.
type hypervisor struct {
	log     *slog.Logger
	server  *moto.Server
	fabric  *fabric
	disks   *disks
	program string
	layers  func(image string) []string // of root file systems, the topmost first
	dir     string                      // of instances
	// groupV2 and groupMemory are our parents in the unified hierarchy and in
	// version 1's of memory ("" where there is none).
	groupV2, groupMemory string
	checkDelay           time.Duration

	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu       sync.Mutex
	world    moto.World
	machines map[string]*machine
	busy     map[string]bool // ids of disks being worked on
}

func (c *Cloud) startHypervisor(layer string) (*hypervisor, error) {
	h := &hypervisor{
		log: c.log, server: c.server, fabric: c.fabric, program: c.options.Program,
		layers: func(image string) []string {
			if image == c.seeded.BareImage {
				return []string{filepath.Join(c.options.Dir, dirBare), layer, c.base}
			}
			return []string{layer, c.base}
		},
		dir: filepath.Join(c.options.Dir, dirInstances),
		disks: &disks{
			ledger:  c.options.Ledger,
			volumes: filepath.Join(c.options.Dir, dirVolumes), snapshots: filepath.Join(c.options.Dir, dirSnapshots),
		},
		checkDelay: c.options.CheckDelay,
		machines:   map[string]*machine{}, busy: map[string]bool{},
	}
	if err := h.findGroups(); err != nil {
		return nil, err
	}
	for _, g := range []string{h.groupV2, h.groupMemory} {
		if g == "" {
			continue
		}
		if err := c.note(host.Entry{Kind: host.KindCgroup, Path: g}); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(g, 0o755); err != nil {
			return nil, fmt.Errorf("make control group: %w", err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	h.tasks.Go(func() { h.run(ctx) })
	return h, nil
}

// findGroups names our control groups in the hierarchies of this machine.
func (h *hypervisor) findGroups() error {
	found, err := host.Hierarchies()
	if err != nil {
		return err
	}
	for _, one := range found {
		switch {
		case one.V2:
			h.groupV2 = filepath.Join(one.Mount, groupName)
		case filepath.Base(one.Mount) == "memory":
			h.groupMemory = filepath.Join(one.Mount, groupName)
		}
	}
	if h.groupV2 == "" {
		return errors.New("no version 2 hierarchy of control groups is mounted")
	}
	return nil
}

func (h *hypervisor) instanceDir(id string) string { return filepath.Join(h.dir, id) }

func (h *hypervisor) run(ctx context.Context) {
	failing, swept := false, time.Now()
	for pause(ctx, tick) {
		world, err := h.server.World(ctx)
		if err != nil {
			if !failing && ctx.Err() == nil {
				h.log.Error("the EC2 API does not answer", "error", err)
			}
			failing = true
			continue
		}
		failing = false
		h.distribute(ctx, world)
		if err := h.reportConsoles(ctx); err != nil && ctx.Err() == nil {
			h.log.Error("consoles are not reported", "error", err)
		}
		if time.Since(swept) > sweepEvery {
			swept = time.Now()
			if err := h.sweep(world); err != nil {
				h.log.Error("old disks are not removed", "error", err)
			}
		}
	}
}

// distribute gives each machine and disk its part of the world.
func (h *hypervisor) distribute(ctx context.Context, world moto.World) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.world = world
	wanted := map[string]bool{}
	for _, i := range world.Instances {
		wanted[i.ID] = true
		m := h.machines[i.ID]
		if m == nil {
			m = &machine{h: h, wake: make(chan struct{}, 1)}
			h.machines[i.ID] = m
			m.want(i, nil)
			h.tasks.Go(func() { m.run(ctx) })
		}
		var volumes []moto.Volume
		for _, v := range world.Volumes {
			if v.Instance == i.ID && v.State != "creating" {
				volumes = append(volumes, v)
			}
		}
		m.want(i, volumes)
	}
	for id, m := range h.machines {
		if !wanted[id] {
			m.vanish()
		}
	}
	for _, v := range world.Volumes {
		switch size := v.SizeGiB * gib; {
		case v.State == "creating":
			h.diskTask(ctx, v.ID, moto.VolumeCreated, func() error { return h.disks.create(ctx, v.ID, size, v.Snapshot) })
		case v.Modifying:
			h.diskTask(ctx, v.ID, moto.VolumeGrown, func() error { return h.disks.grow(ctx, v.ID, size) })
		}
	}
	for _, s := range world.Snapshots {
		if s.State == "pending" {
			h.snapshotTask(ctx, s)
		}
	}
}

// diskTask does work on a disk beside the loop, once at a time, and reports
// it. The caller holds mu.
func (h *hypervisor) diskTask(ctx context.Context, id, event string, work func() error) {
	h.task(ctx, id, func() error {
		if err := work(); err != nil {
			return err
		}
		return h.server.Report(ctx, moto.Report{Volumes: []moto.VolumeReport{{ID: id, Event: event}}})
	})
}

func (h *hypervisor) snapshotTask(ctx context.Context, s moto.Snapshot) {
	h.task(ctx, s.ID, func() error {
		thaw, err := h.freezeVolume(s.Volume)
		if err != nil {
			return err
		}
		if err := errors.Join(h.disks.snapshot(ctx, s.ID, s.Volume), thaw()); err != nil {
			return err
		}
		return h.server.Report(ctx, moto.Report{Snapshots: []string{s.ID}})
	})
}

// freezeVolume holds the writes of a file system on a volume, if a machine has
// it mounted, so that a copy of it is one of a moment.
func (h *hypervisor) freezeVolume(id string) (thaw func() error, err error) {
	nothing := func() error { return nil }
	h.mu.Lock()
	var holder *machine
	for _, v := range h.world.Volumes {
		if v.ID == id && v.Instance != "" {
			holder = h.machines[v.Instance]
		}
	}
	h.mu.Unlock()
	if holder == nil {
		return nothing, nil
	}
	v := holder.running()
	if v == nil {
		return nothing, nil
	}
	for _, p := range v.plugs() {
		if p.Volume != id {
			continue
		}
		mounted, err := onMount(v.init, p.device, ioctlFreeze, 0)
		if err != nil || !mounted {
			return nothing, err
		}
		return func() error {
			_, err := onMount(v.init, p.device, ioctlThaw, 0)
			return err
		}, nil
	}
	return nothing, nil
}

// task runs work on id unless one runs already. The caller holds mu.
func (h *hypervisor) task(ctx context.Context, id string, work func() error) {
	if h.busy[id] {
		return
	}
	h.busy[id] = true
	h.tasks.Go(func() {
		err := work()
		if err != nil && ctx.Err() == nil {
			h.log.Error("work on a disk failed", "id", id, "error", err)
			pause(ctx, retryPause)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.busy, id)
	})
}

// sweep removes the files of disks that are gone from the world.
func (h *hypervisor) sweep(world moto.World) error {
	wanted := map[string]bool{}
	for _, v := range world.Volumes {
		wanted[v.ID] = true
	}
	for _, s := range world.Snapshots {
		wanted[s.ID] = true
	}
	h.mu.Lock()
	for id := range h.busy {
		wanted[id] = true
	}
	h.mu.Unlock()
	return h.disks.sweep(func(id string) bool { return wanted[id] })
}

func (h *hypervisor) reportConsoles(ctx context.Context) error {
	var report moto.Report
	h.mu.Lock()
	for id, m := range h.machines {
		if m.console == nil {
			continue
		}
		if text, changed := m.console.news(); changed {
			report.Instances = append(report.Instances, moto.InstanceReport{ID: id, Console: &text})
		}
	}
	h.mu.Unlock()
	if len(report.Instances) == 0 {
		return nil
	}
	return h.server.Report(ctx, report)
}

// byAddress finds an instance by its private address.
func (h *hypervisor) byAddress(address string) (moto.Instance, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, i := range h.world.Instances {
		if i.Address == address {
			return i, true
		}
	}
	return moto.Instance{}, false
}

// machine returns the machine of an instance.
func (h *hypervisor) machine(id string) (*machine, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.machines[id]
	if m == nil {
		return nil, fmt.Errorf("no instance %s", id)
	}
	return m, nil
}

// forget drops a machine that is no more.
func (h *hypervisor) forget(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.machines, id)
}

// stop cuts all power and ends all work.
func (h *hypervisor) stop(ctx context.Context) error {
	h.cancel()
	h.tasks.Wait()
	var errs []error
	for _, m := range h.machines { // nobody else is left to touch it
		errs = append(errs, m.destroy(ctx))
	}
	return errors.Join(errs...)
}
