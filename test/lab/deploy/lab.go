// Package deploy puts the operator and its clusters into a running lab, the way a user would put them into his
// Kubernetes: the image, the shipped manifests, the sample. `make demo` and the scenarios of test/e2e share it.
package deploy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/build"
)

// defaultDir is where a lab keeps its state unless NAIROBI_LAB names another folder.
const defaultDir = "/var/lib/nairobi-lab"

// Lab is a running lab as its users see it.
type Lab struct {
	// Dir is the lab's state folder, Root the repository's.
	Dir, Root string
	// Kubeconfig is the file with the administrator's access.
	Kubeconfig string
	// Client reads and writes objects and can watch; Kube serves what only client-go has, such as logs.
	Client client.WithWatch
	Kube   kubernetes.Interface
	// Cloud is what the lab's EC2 holds for clusters.
	Cloud Cloud
	// NodePID is a process in the network of the node, from which pods and Services are reached.
	NodePID int

	kubectl string
}

// Cloud names what the lab's EC2 holds from the start.
type Cloud struct {
	Region       string   `json:"region"`
	SubnetIDs    []string `json:"subnetIDs"`
	ImageID      string   `json:"imageID"`
	MySQLVersion string   `json:"mysqlVersion"`
	// NextMySQLVersion is that of the image's second build of mysqld, which differs in the text of its version alone. Empty
	// when there is none.
	NextMySQLVersion string `json:"nextMySQLVersion"`
	ClientCIDR       string `json:"clientCIDR"`
	// DownloadSite is the folder of what MySQL's download site has for instances of Amazon Linux, RootFS one with an installed MySQL.
	DownloadSite string `json:"downloadSite"`
	RootFS       string `json:"rootFS"`
}

// Dir returns the lab's state folder: $NAIROBI_LAB, or the default.
func Dir() string {
	if dir := os.Getenv("NAIROBI_LAB"); dir != "" {
		return dir
	}
	return defaultDir
}

// Up runs `lab up` and returns when the stack serves. Its output goes to the process's own.
// It is safe when the lab is up already.
func Up(ctx context.Context) error {
	builds, err := build.NewConfig(os.Stderr)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "run", "./test/lab", "up")
	cmd.Dir, cmd.Stdout, cmd.Stderr = builds.RepoDir, os.Stdout, os.Stderr
	// Interrupted, the lab program takes away what it has begun; killed, it would leave that to lab-down. `go run` does
	// not pass signals on, so both get it, as a process group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("bring up the lab: %w", err)
	}
	return nil
}

// Open connects to the lab of this machine. It fails when the lab is not up.
func Open(ctx context.Context) (*Lab, error) {
	builds, err := build.NewConfig(os.Stderr)
	if err != nil {
		return nil, err
	}
	lab := &Lab{Dir: Dir(), Root: builds.RepoDir, Kubeconfig: filepath.Join(Dir(), "kubeconfig")}
	if err := lab.readStatus(); err != nil {
		return nil, err
	}
	programs, err := build.Ensure(ctx, builds, build.Kubernetes)
	if err != nil {
		return nil, fmt.Errorf("find kubectl: %w", err)
	}
	lab.kubectl = programs["kubectl"]
	config, err := clientcmd.BuildConfigFromFlags("", lab.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the lab's kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("build the scheme: %w", err)
	}
	if lab.Client, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return nil, fmt.Errorf("connect to the lab's API server: %w", err)
	}
	if lab.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("connect to the lab's API server: %w", err)
	}
	return lab, nil
}

func (l *Lab) readStatus() error {
	path := filepath.Join(l.Dir, "status.json")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the lab is not up (no %s): run `make lab-up`", path)
	}
	if err != nil {
		return fmt.Errorf("read the lab's status: %w", err)
	}
	status := struct {
		*Cloud
		NodePID *int `json:"nodePID"`
	}{&l.Cloud, &l.NodePID}
	if err := json.Unmarshal(data, &status); err != nil {
		return fmt.Errorf("read the lab's status from %s: %w", path, err)
	}
	return nil
}

// Kubectl runs the lab's own kubectl against the lab and returns what it prints.
func (l *Lab) Kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, l.kubectl, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+l.Kubeconfig)
	cmd.Stdin = strings.NewReader(stdin)
	return output(cmd)
}

// Forward opens a way from this machine to a port of a pod, or of what selects pods, such as deployment/orders-metrics. It returns the
// address, and what closes the way.
func (l *Lab) Forward(ctx context.Context, namespace, to string, port int) (address string, stop func(), err error) {
	cmd := exec.CommandContext(ctx, l.kubectl, "port-forward", "--namespace="+namespace, to, fmt.Sprintf(":%d", port))
	cmd.Env = append(os.Environ(), "KUBECONFIG="+l.Kubeconfig)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, fmt.Errorf("forward to %s: %w", to, err)
	}
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("forward to %s: %w", to, err)
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	address, _, found := strings.Cut(strings.TrimPrefix(line, "Forwarding from "), " ")
	if err != nil || !found {
		stop()
		return "", nil, fmt.Errorf("forward to %s: kubectl says %q: %w", to, line, err)
	}
	return address, stop, nil
}

// KubectlPath is the kubectl that Kubectl runs, of the same version as the lab's API server.
func (l *Lab) KubectlPath() string {
	return l.kubectl
}

// output runs a command and returns its standard output; the error holds its standard error.
func output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(out), fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", filepath.Base(cmd.Path), err)
	}
	return string(out), nil
}
