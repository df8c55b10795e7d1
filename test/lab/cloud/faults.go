package cloud

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
)

// State is what the hypervisor knows of an instance.
type State struct {
	moto.Instance
	// Power says that the machine is on, PID its first process on the host.
	Power bool `json:"power"`
	PID   int  `json:"pid,omitempty"`
}

// Instances lists the instances that are not terminated, without user data.
func (c *Cloud) Instances() []State {
	c.machines.mu.Lock()
	defer c.machines.mu.Unlock()
	states := []State{}
	for _, i := range c.machines.world.Instances {
		s := State{Instance: i}
		s.UserData = nil
		if m := c.machines.machines[i.ID]; m != nil {
			if v := m.running(); v != nil {
				s.Power, s.PID = true, v.init
			}
		}
		states = append(states, s)
	}
	return states
}

// Console returns the last 64 KiB of what an instance printed.
func (c *Cloud) Console(id string) (string, error) {
	m, err := c.machines.machine(id)
	if err != nil {
		return "", err
	}
	c.machines.mu.Lock()
	console := m.console
	c.machines.mu.Unlock()
	if console == nil {
		return "", nil
	}
	console.mu.Lock()
	defer console.mu.Unlock()
	return string(console.text), nil
}

// powered returns a machine that has power.
func (c *Cloud) powered(id string) (*machine, *vm, error) {
	m, err := c.machines.machine(id)
	if err != nil {
		return nil, nil, err
	}
	v := m.running()
	if v == nil {
		return nil, nil, fmt.Errorf("instance %s has no power", id)
	}
	return m, v, nil
}

// PowerCut makes an instance silent and takes its power: what was not on its
// disks is lost. EC2 goes on to call it running, with status checks impaired,
// until it is stopped and started or PowerOn.
func (c *Cloud) PowerCut(ctx context.Context, id string) error {
	m, v, err := c.powered(id)
	if err != nil {
		return err
	}
	v.faulted.Store(true)
	m.setDark(true)
	return c.machines.cut(ctx, v)
}

// Crash kills all processes of an instance at once; its peers see connections
// reset. Otherwise as PowerCut.
func (c *Cloud) Crash(ctx context.Context, id string) error {
	m, v, err := c.powered(id)
	if err != nil {
		return err
	}
	v.faulted.Store(true)
	m.setDark(true)
	return v.kill(ctx)
}

// PowerOn ends PowerCut and Crash: the instance boots.
func (c *Cloud) PowerOn(_ context.Context, id string) error {
	m, err := c.machines.machine(id)
	if err != nil {
		return err
	}
	m.setDark(false)
	return nil
}

// KillUnit kills all processes of one systemd unit inside an instance, as if
// they had crashed.
func (c *Cloud) KillUnit(_ context.Context, id, unit string) error {
	_, v, err := c.powered(id)
	if err != nil {
		return err
	}
	file := filepath.Join(v.group, "system.slice", filepath.Base(unit), "cgroup.kill")
	if err := os.WriteFile(file, []byte("1"), 0); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("unit %s does not run in %s", unit, id)
		}
		return fmt.Errorf("kill %s in %s: %w", unit, id, err)
	}
	return nil
}

// Freeze stops an instance's processes; its kernel still accepts connections.
func (c *Cloud) Freeze(_ context.Context, id string) error {
	_, v, err := c.powered(id)
	if err != nil {
		return err
	}
	return v.freeze(true)
}

// Thaw ends Freeze.
func (c *Cloud) Thaw(_ context.Context, id string) error {
	_, v, err := c.powered(id)
	if err != nil {
		return err
	}
	return v.freeze(false)
}

// Isolate cuts an instance off from everybody; connections time out.
func (c *Cloud) Isolate(ctx context.Context, id string) error {
	if _, _, err := c.powered(id); err != nil {
		return err
	}
	return c.fabric.isolate(ctx, id, true)
}

// Rejoin ends Isolate.
func (c *Cloud) Rejoin(ctx context.Context, id string) error {
	if _, _, err := c.powered(id); err != nil {
		return err
	}
	return c.fabric.isolate(ctx, id, false)
}

// PowerOff asks the guest to shut down, as somebody who is logged in would; EC2 stops the instance when it has.
func (c *Cloud) PowerOff(_ context.Context, id string) error {
	_, v, err := c.powered(id)
	if err != nil {
		return err
	}
	return v.shutdown(signalPowerOff)
}
