package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Phases of a lab.
const (
	phaseStarting = "starting"
	phaseReady    = "ready"
	phaseDegraded = "degraded"
	phaseStopping = "stopping"
	phaseStopped  = "stopped"
)

const (
	// statusFile is there as long as the daemon runs.
	statusFile = "status.json"
	// lastFile is the status of a daemon that has ended.
	lastFile = "last.json"
)

// status is what the daemon tells the world, in statusFile.
type status struct {
	Phase string `json:"phase"`
	// Message says what is wrong; empty when nothing is.
	Message string    `json:"message,omitempty"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Steps   []step    `json:"steps"`
	// Removed is what the daemon undid when it ended.
	Removed []string `json:"removed,omitempty"`

	Kubeconfig string `json:"kubeconfig,omitempty"`
	APIServer  string `json:"apiServer,omitempty"`
	Registry   string `json:"registry,omitempty"`
	// NodePID is a process in the node's namespaces: from there Services are reached as pods reach them.
	NodePID int `json:"nodePID,omitempty"`
	cloudStatus
}

// step is one step of the start.
type step struct {
	Name string `json:"name"`
	// State is running, done or failed.
	State   string        `json:"state"`
	Began   time.Time     `json:"began"`
	Took    time.Duration `json:"took,omitempty"`
	Failure string        `json:"failure,omitempty"`
}

// States of a step.
const (
	stepRunning = "running"
	stepDone    = "done"
	stepFailed  = "failed"
)

// statusWriter keeps the status and writes every change to the file. Safe for concurrent use.
type statusWriter struct {
	mu   sync.Mutex
	path string
	now  status
	log  io.Writer
}

func newStatusWriter(dir string, log io.Writer) *statusWriter {
	return &statusWriter{
		path: filepath.Join(dir, statusFile), log: log,
		now: status{Phase: phaseStarting, PID: os.Getpid(), Started: time.Now()},
	}
}

func (w *statusWriter) change(edit func(*status)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	edit(&w.now)
	if err := writeJSON(w.path, w.now); err != nil {
		fmt.Fprintf(w.log, "write the status: %v\n", err)
	}
}

// step runs one step of the start and shows it while it runs.
func (w *statusWriter) step(name string, run func() error) error {
	began := time.Now()
	var index int
	w.change(func(s *status) {
		index = len(s.Steps)
		s.Steps = append(s.Steps, step{Name: name, State: stepRunning, Began: began})
	})
	err := run()
	w.change(func(s *status) {
		s.Steps[index].Took = time.Since(began)
		s.Steps[index].State = stepDone
		if err != nil {
			s.Steps[index].State, s.Steps[index].Failure = stepFailed, err.Error()
		}
	})
	return err
}

// finish moves the status to where it does not look like a running lab's.
func (w *statusWriter) finish(dir string, failure error, removed []string) error {
	w.change(func(s *status) {
		s.Phase, s.Removed = phaseStopped, removed
		if failure != nil {
			s.Message = failure.Error()
		}
	})
	return os.Rename(w.path, filepath.Join(dir, lastFile))
}

// writeJSON replaces the file in one step, so that readers never see half of it.
func writeJSON(path string, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(content, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// errNotUp says that there is no running lab.
var errNotUp = errors.New("the lab is not up (make lab-up)")

func readStatus(dir, file string) (status, error) {
	var found status
	content, err := os.ReadFile(filepath.Join(dir, file))
	if errors.Is(err, os.ErrNotExist) {
		return found, errNotUp
	}
	if err != nil {
		return found, fmt.Errorf("read status: %w", err)
	}
	if err := json.Unmarshal(content, &found); err != nil {
		return found, fmt.Errorf("read status: %w", err)
	}
	return found, nil
}

// usage tells how to use a lab that is up.
func (s status) usage() string {
	lines := []string{}
	if s.Kubeconfig != "" {
		lines = append(lines, "Kubernetes: "+s.APIServer, "  export KUBECONFIG="+s.Kubeconfig,
			"  images go to "+s.Registry+", whatever registry their names start with")
	}
	if s.EC2Endpoint != "" {
		lines = append(lines, "EC2: "+s.EC2Endpoint+" region "+s.Region,
			"  subnets "+strings.Join(s.SubnetIDs, " ")+", image "+s.ImageID+", MySQL "+s.MySQLVersion)
	}
	return strings.Join(append(lines, "Take it away: make lab-down"), "\n")
}
