package moto

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// World is what should exist by the API calls made so far: the hypervisor's
// orders. Terminated instances and root volumes are not in it.
type World struct {
	Instances []Instance `json:"instances"`
	Volumes   []Volume   `json:"volumes"`
	Snapshots []Snapshot `json:"snapshots"`
}

// Instance as EC2 sees it.
type Instance struct {
	ID      string `json:"id"`
	Account string `json:"account"`
	Region  string `json:"region"`
	// State is EC2's: pending, running, stopping, stopped, shutting-down.
	State string `json:"state"`
	// Launched is when it was last launched or started: who looks seldom sees by it that the instance was off meanwhile.
	Launched time.Time `json:"launched"`
	// Force and SkipShutdown are the options of the call that stops it.
	Force        bool `json:"force"`
	SkipShutdown bool `json:"skipShutdown"`
	// Reboots counts the calls of RebootInstances.
	Reboots    int      `json:"reboots"`
	Address    string   `json:"address"`
	MAC        string   `json:"mac"`
	Interface  string   `json:"interface"`
	Subnet     string   `json:"subnet"`
	SubnetCIDR string   `json:"subnetCIDR"`
	VPC        string   `json:"vpc"`
	Zone       string   `json:"zone"`
	Type       string   `json:"type"`
	Image      string   `json:"image"`
	RootDevice string   `json:"rootDevice"`
	Hostname   string   `json:"hostname"`
	Groups     []string `json:"groups"`
	// UserData as decoded bytes.
	UserData []byte `json:"userData"`
	// Tags are filled when the metadata service shows them.
	Tags map[string]string `json:"tags"`
}

// Volume as EC2 sees it.
type Volume struct {
	ID      string `json:"id"`
	SizeGiB int64  `json:"sizeGiB"`
	// State is creating, available or in-use.
	State string `json:"state"`
	// Snapshot is what it is made from, if anything.
	Snapshot string `json:"snapshot"`
	// Modifying says that ModifyVolume waits for a report.
	Modifying bool `json:"modifying"`
	// Instance, Device and Attachment (attaching, attached, detaching) are
	// empty when it is not attached.
	Instance   string `json:"instance"`
	Device     string `json:"device"`
	Attachment string `json:"attachment"`
}

// Snapshot as EC2 sees it; State is pending or completed.
type Snapshot struct {
	ID     string `json:"id"`
	Volume string `json:"volume"`
	State  string `json:"state"`
}

// Report is what has happened to the world. What no longer fits is ignored.
type Report struct {
	Instances []InstanceReport `json:"instances,omitempty"`
	Volumes   []VolumeReport   `json:"volumes,omitempty"`
	// Snapshots lists those that are complete.
	Snapshots []string `json:"snapshots,omitempty"`
}

// InstanceReport tells an instance's new state (running, stopped, terminated;
// empty: unchanged) and its console's text (nil: unchanged).
type InstanceReport struct {
	ID      string  `json:"id"`
	State   string  `json:"state,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	Console *string `json:"console,omitempty"`
}

// Events of a VolumeReport.
const (
	VolumeCreated  = "created"
	VolumeAttached = "attached"
	VolumeDetached = "detached"
	VolumeGrown    = "grown"
)

// VolumeReport tells what happened to a volume. Instance is the one that it was
// attached to or detached from.
type VolumeReport struct {
	ID       string `json:"id"`
	Event    string `json:"event"`
	Instance string `json:"instance,omitempty"`
}

// Status of an instance: its checks ("ok", "impaired", …; empty means ok), its
// scheduled events, and whether it can be stopped.
type Status struct {
	ID       string `json:"id"`
	System   string `json:"system,omitempty"`
	Instance string `json:"instance,omitempty"`
	// Volumes is the check of the attached EBS volumes.
	Volumes string  `json:"volumes,omitempty"`
	Events  []Event `json:"events,omitempty"`
	// Stuck is how many calls of StopInstances leave it stopping for good.
	Stuck int `json:"stuck,omitempty"`
}

// Event is a scheduled event, such as instance-retirement. NotBefore is now
// when it is zero.
type Event struct {
	Code        string    `json:"code"`
	Description string    `json:"description"`
	NotBefore   time.Time `json:"notBefore,omitzero"`
}

// World reads what should exist.
func (s *Server) World(ctx context.Context) (World, error) { return s.read(ctx, "/lab/world") }

// WorldOf reads what should exist in one account.
func (s *Server) WorldOf(ctx context.Context, account string) (World, error) {
	return s.read(ctx, "/lab/world?account="+url.QueryEscape(account))
}

func (s *Server) read(ctx context.Context, path string) (World, error) {
	var w World
	if err := s.call(ctx, http.MethodGet, path, nil, &w); err != nil {
		return World{}, fmt.Errorf("read the world: %w", err)
	}
	return w, nil
}

// Report tells what has happened.
func (s *Server) Report(ctx context.Context, r Report) error {
	if err := s.call(ctx, http.MethodPost, "/lab/report", r, nil); err != nil {
		return fmt.Errorf("report to moto: %w", err)
	}
	return nil
}

// SetStatus sets what DescribeInstanceStatus says of a running instance, and
// how many of its stops get stuck.
func (s *Server) SetStatus(ctx context.Context, st Status) error {
	if err := s.call(ctx, http.MethodPost, "/lab/status", st, nil); err != nil {
		return fmt.Errorf("set the status of %s: %w", st.ID, err)
	}
	return nil
}

// Hold says whether states that change by themselves are held as they are. What came due meanwhile happens as soon as they
// are not. So a test sees what lasts moments, however slow its machine.
func (s *Server) Hold(ctx context.Context, held bool) error {
	body := map[string]bool{"held": held}
	if err := s.call(ctx, http.MethodPost, "/lab/hold", body, nil); err != nil {
		return fmt.Errorf("hold the states: %w", err)
	}
	return nil
}

// setParameters makes public SSM parameters, which PutParameter refuses.
func (s *Server) setParameters(ctx context.Context, region string, values map[string]string) error {
	body := map[string]any{"region": region, "values": values}
	if err := s.call(ctx, http.MethodPost, "/lab/parameters", body, nil); err != nil {
		return fmt.Errorf("set public parameters: %w", err)
	}
	return nil
}

func (s *Server) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		encoded, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, s.endpoint+path, body)
	if err != nil {
		return err
	}
	response, err := s.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %.200s", method, path, response.Status, answer)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}
