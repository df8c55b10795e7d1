package cloud

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
)

// How long a guest has to shut down before its power is cut. AWS gives minutes;
// ours are short, so that a test of a hanging guest stays short.
const (
	graceStop      = 60 * time.Second
	graceForce     = 10 * time.Second // StopInstances with Force
	graceTerminate = 15 * time.Second
	graceReboot    = 30 * time.Second
)

// machine is one instance: what EC2 wants of it, and its vm while it has power.
// One goroutine works on it; faults come from outside.
type machine struct {
	h    *hypervisor
	wake chan struct{}

	mu      sync.Mutex
	desired moto.Instance
	volumes []moto.Volume
	gone    bool // vanished from the world
	vm      *vm  // nil: no power
	dark    bool // a fault keeps it without power

	console *console // set once, before the machine is shared
	reboots int      // of those asked for, how many were done
	booted  bool
	// checksFail is when the status checks of a machine without power say so; zero when they need not, or did.
	checksFail time.Time
}

// want tells the machine what it should be. The caller holds h.mu.
func (m *machine) want(i moto.Instance, volumes []moto.Volume) {
	m.mu.Lock()
	m.desired, m.volumes = i, volumes
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// vanish tells the machine that EC2 does not know it any more.
func (m *machine) vanish() {
	m.mu.Lock()
	m.gone = true
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *machine) running() *vm {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.vm
}

func (m *machine) setVM(v *vm) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.vm = v
}

func (m *machine) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		}
		m.mu.Lock()
		desired, volumes, gone := m.desired, m.volumes, m.gone
		m.mu.Unlock()
		if gone {
			desired.State = "shutting-down"
		}
		done, err := m.step(ctx, desired, volumes)
		if err != nil && ctx.Err() == nil {
			m.h.log.Error("a machine is not as it should be", "instance", desired.ID, "error", err)
			pause(ctx, retryPause)
		}
		if done {
			return
		}
	}
}

// step takes the machine where EC2 wants it; done says that it is no more.
func (m *machine) step(ctx context.Context, i moto.Instance, volumes []moto.Volume) (done bool, err error) {
	if err := m.notice(ctx, i); err != nil {
		return false, err
	}
	switch i.State {
	case "pending":
		m.setDark(false)
		if err := m.on(ctx, i, volumes); err != nil {
			return false, err
		}
		if err := m.report(ctx, i.ID, "running"); err != nil {
			return false, err
		}
	case "running":
		if err := m.keep(ctx, i, volumes); err != nil {
			return false, err
		}
	case "stopping":
		if err := m.off(ctx, i.ID, graceStop); err != nil {
			return false, err
		}
		return false, m.report(ctx, i.ID, "stopped")
	case "shutting-down":
		if err := m.off(ctx, i.ID, graceTerminate); err != nil {
			return false, err
		}
		if err := m.destroy(ctx); err != nil {
			return false, err
		}
		if err := m.report(ctx, i.ID, "terminated"); err != nil {
			return false, err
		}
		m.h.forget(i.ID)
		return true, nil
	}
	return false, m.connect(ctx, i.ID, volumes)
}

func (m *machine) report(ctx context.Context, id, state string) error {
	m.h.log.Info("instance "+state, "instance", id)
	return m.h.server.Report(ctx, moto.Report{Instances: []moto.InstanceReport{{ID: id, State: state}}})
}

// notice looks whether the guest has ended by itself, and does what EC2 does
// then.
func (m *machine) notice(ctx context.Context, i moto.Instance) error {
	v := m.running()
	if v == nil || v.process.Running() {
		return nil
	}
	how := v.ended()
	if err := m.h.dispose(ctx, v); err != nil {
		return err
	}
	m.setVM(nil)
	if i.State != "running" {
		return nil
	}
	switch how {
	case endedPowerOff:
		m.setDark(true) // until EC2's state follows
		return m.report(ctx, i.ID, "stopped")
	case endedReboot:
		m.h.log.Info("the guest reboots", "instance", i.ID)
		return nil
	default:
		m.h.log.Info("the machine has lost its power", "instance", i.ID)
		if !v.faulted.Load() { // a fault said so itself, and may be over already
			m.setDark(true)
		}
		m.checksFail = time.Now().Add(m.h.checkDelay)
		return m.check(ctx, i.ID)
	}
}

// check lets the status checks of a machine without power fail, once their time has come.
func (m *machine) check(ctx context.Context, id string) error {
	if m.checksFail.IsZero() || time.Now().Before(m.checksFail) {
		return nil
	}
	m.checksFail = time.Time{}
	return m.h.server.SetStatus(ctx, moto.Status{ID: id, System: "impaired", Instance: "impaired"})
}

func (m *machine) setDark(dark bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dark = dark
}

func (m *machine) isDark() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dark
}

// keep is for a running instance: it has power unless a fault took it, and
// reboots when asked.
func (m *machine) keep(ctx context.Context, i moto.Instance, volumes []moto.Volume) error {
	if m.isDark() {
		return m.check(ctx, i.ID)
	}
	if m.running() == nil {
		if err := m.on(ctx, i, volumes); err != nil {
			return err
		}
		return m.h.server.SetStatus(ctx, moto.Status{ID: i.ID})
	}
	if i.Reboots == m.reboots {
		return nil
	}
	m.reboots = i.Reboots
	v := m.running()
	if err := v.shutdown(signalReboot); err != nil {
		return err
	}
	select {
	case <-v.process.Done():
	case <-ctx.Done():
	case <-time.After(graceReboot):
		if err := v.kill(ctx); err != nil {
			return err
		}
	}
	if err := m.h.dispose(ctx, v); err != nil {
		return err
	}
	m.setVM(nil)
	return m.on(ctx, i, volumes)
}

// on gives the machine power.
func (m *machine) on(ctx context.Context, i moto.Instance, volumes []moto.Volume) error {
	if m.running() != nil {
		return nil
	}
	if err := m.prepare(i.ID); err != nil {
		return err
	}
	if !m.booted {
		m.booted, m.reboots = true, i.Reboots
	}
	m.console.clear()
	var present []moto.Volume
	for _, v := range volumes {
		if v.Attachment != "detaching" {
			present = append(present, v)
		}
	}
	v, err := m.h.powerOn(ctx, i, present, m.console)
	if err != nil {
		return err
	}
	m.setVM(v)
	m.checksFail = time.Time{}
	return nil
}

// prepare makes the machine's directory and console on its first start.
func (m *machine) prepare(id string) error {
	if m.console != nil {
		return nil
	}
	dir := m.h.instanceDir(id)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the machine's directory: %w", err)
	}
	c, err := newConsole(filepath.Join(dir, "console.log"))
	if err != nil {
		return fmt.Errorf("open the console: %w", err)
	}
	m.h.mu.Lock()
	defer m.h.mu.Unlock()
	m.console = c
	return nil
}

// off shuts the guest down and takes its power when it is down, when its time
// is over, or at once if EC2's caller has said so meanwhile.
func (m *machine) off(ctx context.Context, id string, grace time.Duration) error {
	v := m.running()
	if v == nil {
		return nil
	}
	if err := v.shutdown(signalPowerOff); err != nil {
		return err
	}
	begin := time.Now()
	for v.process.Running() && !m.impatient(time.Since(begin), grace) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-v.process.Done():
		case <-time.After(loopPoll):
		}
	}
	if v.process.Running() {
		m.h.log.Info("power cut by the hypervisor", "instance", id)
		if err := m.h.cut(ctx, v); err != nil {
			return err
		}
	}
	if err := m.h.dispose(ctx, v); err != nil {
		return err
	}
	m.setVM(nil)
	return nil
}

func (m *machine) impatient(waited, grace time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.desired.SkipShutdown || m.desired.Force && waited > graceForce || waited > grace
}

// connect plugs and unplugs volumes and reports it.
func (m *machine) connect(ctx context.Context, id string, volumes []moto.Volume) error {
	var report moto.Report
	v := m.running()
	for _, volume := range volumes {
		done, event := true, ""
		var err error
		switch volume.Attachment {
		case "attaching":
			event = moto.VolumeAttached
			if v != nil {
				err = m.h.plug(ctx, v, volume.ID)
			}
		case "detaching":
			event = moto.VolumeDetached
			if v != nil {
				done, err = m.h.unplug(ctx, v, volume.ID)
			}
		default:
			continue
		}
		if err != nil {
			return fmt.Errorf("volume %s: %w", volume.ID, err)
		}
		if done {
			report.Volumes = append(report.Volumes, moto.VolumeReport{ID: volume.ID, Event: event, Instance: id})
		}
	}
	if len(report.Volumes) == 0 {
		return nil
	}
	return m.h.server.Report(ctx, report)
}

// destroy removes all that there is of the machine.
func (m *machine) destroy(ctx context.Context) error {
	var errs []error
	if v := m.running(); v != nil {
		errs = append(errs, m.h.cut(ctx, v), m.h.dispose(ctx, v))
		m.setVM(nil)
	}
	m.mu.Lock()
	id, address := m.desired.ID, m.desired.Address
	m.mu.Unlock()
	m.h.fabric.release(ctx, address)
	if m.console != nil {
		errs = append(errs, m.console.close())
	}
	errs = append(errs, os.RemoveAll(m.h.instanceDir(id)))
	return errors.Join(errs...)
}
