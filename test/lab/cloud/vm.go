package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/host"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
)

const (
	// instanceMemory caps all processes of an instance together (bytes).
	instanceMemory = 1 << 30
	// initTimeout bounds the wait for a machine's first process.
	initTimeout = time.Minute
	// killTimeout bounds the wait for the end of a killed machine.
	killTimeout = time.Minute
	// Signals by which systemd powers off or reboots: SIGRTMIN+4 and +5.
	signalPowerOff = syscall.Signal(38)
	signalReboot   = syscall.Signal(39)
)

// vm is a machine that has power.
type vm struct {
	id, address string
	process     *host.Process // unshare, the parent of the machine's first process
	init        int           // pid of that, as the host sees it
	group       string        // its cgroup (version 2)
	groups      []uint64      // in the ledger
	faulted     atomic.Bool   // a fault takes its power

	mu    sync.Mutex
	disks []plugged
}

// plugs returns a copy of the volumes in the machine.
func (v *vm) plugs() []plugged {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.disks)
}

// powerOn boots an instance with the volumes attached to it.
func (h *hypervisor) powerOn(ctx context.Context, i moto.Instance, volumes []moto.Volume, c *console) (*vm, error) {
	v := &vm{id: i.ID, address: i.Address}
	begin := time.Now()
	if err := h.assemble(ctx, v, i, volumes, c); err != nil {
		return nil, errors.Join(fmt.Errorf("power on %s: %w", i.ID, err), h.dispose(ctx, v))
	}
	h.log.Info("powered on", "instance", i.ID, "address", i.Address, "took", time.Since(begin).Round(time.Millisecond))
	return v, nil
}

func (h *hypervisor) assemble(ctx context.Context, v *vm, i moto.Instance, volumes []moto.Volume, c *console) error {
	dirs, err := h.makeGroups(v)
	if err != nil {
		return fmt.Errorf("make control groups: %w", err)
	}
	for _, volume := range volumes {
		p, err := h.disks.plug(ctx, volume.ID, v.freeName())
		if err != nil {
			return fmt.Errorf("plug %s: %w", volume.ID, err)
		}
		v.disks = append(v.disks, p)
	}
	settings, err := h.launch(ctx, v, c, dirs)
	if err != nil {
		return err
	}
	defer settings.Close()
	if v.init, err = awaitChild(ctx, v.process); err != nil {
		return err
	}
	if err := h.fabric.plug(ctx, i.ID, i.MAC, i.Address, v.init); err != nil {
		return fmt.Errorf("plug the network: %w", err)
	}
	s := bootSettings{
		ID: i.ID, Hostname: i.Hostname, Address: i.Address, Dir: h.instanceDir(i.ID), Lower: h.layers(i.Image),
	}
	for _, p := range v.disks {
		s.Devices = append(s.Devices, p.device)
	}
	return json.NewEncoder(settings).Encode(s)
}

// makeGroups makes the machine's control groups and returns them: one to kill
// and freeze by, and one that caps memory.
func (h *hypervisor) makeGroups(v *vm) ([]string, error) {
	v.group = filepath.Join(h.groupV2, v.id)
	dirs := []string{v.group}
	limit := filepath.Join(v.group, "memory.max")
	if h.groupMemory != "" {
		dirs = append(dirs, filepath.Join(h.groupMemory, v.id))
		limit = filepath.Join(h.groupMemory, v.id, "memory.limit_in_bytes")
	}
	for _, d := range dirs {
		id, err := h.disks.ledger.Add(host.Entry{Kind: host.KindCgroup, Path: d})
		if err != nil {
			return nil, err
		}
		v.groups = append(v.groups, id)
		if err := os.Mkdir(d, 0o755); err != nil {
			return nil, err
		}
	}
	return dirs, os.WriteFile(limit, []byte(strconv.Itoa(instanceMemory)), 0)
}

// launch starts the machine's first process in fresh namespaces; it waits for
// its settings, which the caller writes and closes. The terminal belongs to
// the parent's session, so that no process in the machine can hang it up.
func (h *hypervisor) launch(ctx context.Context, v *vm, c *console, groups []string) (settings *os.File, err error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	ended := make(chan struct{})
	tty, err := c.terminal(ended)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a terminal: %w", err), writer.Close())
	}
	defer tty.Close()
	v.process, err = h.disks.ledger.StartProcess(ctx, host.Spec{
		Name: "unshare",
		Args: []string{
			"--fork", "--kill-child", "--pid", "--mount", "--uts", "--ipc", "--net", "--cgroup",
			h.program, bootCommand,
		},
		Stdin: tty, Stdout: tty, Stderr: tty,
		ExtraFiles: []*os.File{reader},
		Cgroups:    groups,
		SysProcAttr: &syscall.SysProcAttr{
			Setsid: true, Setctty: true, Ctty: 0,
			Pdeathsig: syscall.SIGKILL, // a machine without its hypervisor is off
		},
	})
	if err != nil {
		close(ended)
		return nil, errors.Join(err, writer.Close())
	}
	go func() {
		<-v.process.Done()
		close(ended)
	}()
	return writer, nil
}

// awaitChild returns the pid of a process's only child.
func awaitChild(ctx context.Context, p *host.Process) (int, error) {
	path := fmt.Sprintf("/proc/%d/task/%d/children", p.PID, p.PID)
	for deadline := time.Now().Add(initTimeout); time.Now().Before(deadline) && p.Running(); {
		content, err := os.ReadFile(path)
		if err == nil && len(content) > 0 {
			return strconv.Atoi(strings.Fields(string(content))[0])
		}
		if !pause(ctx, loopPoll/4) {
			return 0, ctx.Err()
		}
	}
	return 0, errors.New("the machine's first process did not come up")
}

// freeName is the next name for a volume in the machine; nvme0n1 is the root.
func (v *vm) freeName() string {
	for n := 1; ; n++ {
		name := fmt.Sprintf("nvme%dn1", n)
		if !slices.ContainsFunc(v.disks, func(p plugged) bool { return p.Name == name }) {
			return name
		}
	}
}

// plug adds a volume to the machine while it runs.
func (h *hypervisor) plug(ctx context.Context, v *vm, volume string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if slices.ContainsFunc(v.disks, func(p plugged) bool { return p.Volume == volume }) {
		return nil
	}
	p, err := h.disks.plug(ctx, volume, v.freeName())
	if err != nil {
		return err
	}
	if err := addDevice(v.root(), p.device); err != nil {
		return errors.Join(err, h.disks.unplug(ctx, p))
	}
	v.disks = append(v.disks, p)
	return nil
}

// unplug takes a volume from the machine while it runs, and says whether it
// could: not while it is mounted, as in EC2.
func (h *hypervisor) unplug(ctx context.Context, v *vm, volume string) (done bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := slices.IndexFunc(v.disks, func(p plugged) bool { return p.Volume == volume })
	if at < 0 {
		return true, nil
	}
	p := v.disks[at]
	point, err := mountOf(v.init, p.device)
	if err != nil || point != "" {
		return false, err
	}
	for _, path := range p.paths() {
		if err := os.RemoveAll(v.root(path)); err != nil {
			return false, err
		}
	}
	v.disks = slices.Delete(v.disks, at, at+1)
	return true, h.disks.unplug(ctx, p)
}

// root is a path inside the machine.
func (v *vm) root(path ...string) string {
	return filepath.Join(append([]string{"/proc", strconv.Itoa(v.init), "root"}, path...)...)
}

// shutdown asks systemd to power the machine off or to reboot it.
func (v *vm) shutdown(how syscall.Signal) error {
	if err := unix.Kill(v.init, how); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal %s: %w", v.id, err)
	}
	return nil
}

// cut takes the power away: the network is silent first, then what is not on
// the disks is lost, then everything dies.
func (h *hypervisor) cut(ctx context.Context, v *vm) error {
	var errs []error
	if v.process == nil {
		return nil
	}
	errs = append(errs, h.fabric.isolate(ctx, v.id, true), h.fabric.silence(ctx, v.address), v.freeze(true))
	for _, p := range v.plugs() {
		if _, err := onMount(v.init, p.device, ioctlShutdown, shutdownNoFlush); err != nil && v.process.Running() {
			errs = append(errs, err)
		}
	}
	errs = append(errs, v.kill(ctx))
	if !v.process.Running() {
		return nil // what failed before was about a machine that was going down
	}
	return errors.Join(errs...)
}

// kill ends all of the machine's processes and waits for it.
func (v *vm) kill(ctx context.Context) error {
	if err := os.WriteFile(filepath.Join(v.group, "cgroup.kill"), []byte("1"), 0); err != nil {
		return fmt.Errorf("kill %s: %w", v.id, err)
	}
	select {
	case <-v.process.Done():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(killTimeout):
		return fmt.Errorf("%s is still there %s after it was killed", v.id, killTimeout)
	}
}

// freeze stops or continues all of the machine's processes; its kernel still
// accepts connections.
func (v *vm) freeze(on bool) error {
	value := "0"
	if on {
		value = "1"
	}
	if err := os.WriteFile(filepath.Join(v.group, "cgroup.freeze"), []byte(value), 0); err != nil {
		return fmt.Errorf("freeze %s: %w", v.id, err)
	}
	return nil
}

// dispose removes what is left of a machine that has no power, or that was
// never fully made.
func (h *hypervisor) dispose(ctx context.Context, v *vm) error {
	var errs []error
	if v.process != nil && v.process.Running() {
		errs = append(errs, v.kill(ctx))
	}
	errs = append(errs, h.fabric.unplug(ctx, v.id), h.fabric.silence(ctx, v.address))
	for _, p := range v.plugs() {
		errs = append(errs, h.disks.unplug(ctx, p))
	}
	for _, id := range v.groups {
		errs = append(errs, h.disks.ledger.Undo(ctx, id))
	}
	return errors.Join(errs...)
}

// ending tells why a machine without power has none.
type ending int

const (
	endedCrash ending = iota
	endedPowerOff
	endedReboot
)

// ended reads how the guest ended: the kernel ends a pid namespace's init by
// SIGINT for power off and SIGHUP for reboot, and unshare passes it on.
func (v *vm) ended() ending {
	state := v.process.State()
	if state == nil {
		return endedCrash
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok {
		return endedCrash
	}
	const bySignal = 128
	signal := syscall.Signal(0)
	switch {
	case status.Signaled():
		signal = status.Signal()
	case status.ExitStatus() > bySignal:
		signal = syscall.Signal(status.ExitStatus() - bySignal)
	}
	switch signal {
	case syscall.SIGINT:
		return endedPowerOff
	case syscall.SIGHUP:
		return endedReboot
	default:
		return endedCrash
	}
}
