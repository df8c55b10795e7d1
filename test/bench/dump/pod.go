package dump

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

const (
	// kubeconfig is where the pod's way to the API server is.
	kubeconfig = task.ToolsDir + "/kubeconfig"
	// watchEvery is how often a process's memory is read. Its peak is the kernel's own, so nothing is missed but what
	// happens between the last look and the end.
	watchEvery = 10 * time.Millisecond
	// program is what the kernel calls the process once it is ours.
	program = "manager"
)

// machine plays the pods of a cluster: the operator's binary in a root file system with MySQL's programs, which is that of
// the server itself.
type machine struct {
	server *mysqld.Server
	// binary is the operator's, built for this.
	binary []byte
	// config is a kubeconfig.
	config []byte
}

// furnish puts into the server's root file system what a pod is given.
func (p *machine) furnish(ctx context.Context, identity mysql.Identity) error {
	hosts := fmt.Sprintf("127.0.0.1 localhost\n%s %s\n", p.server.IP(), p.server.DNSName())
	for at, content := range map[string][]byte{
		task.Binary: p.binary, kubeconfig: p.config, "/etc/hosts": []byte(hosts),
		path.Join(task.TLSDir, "ca.crt"): identity.CAPEM, path.Join(task.TLSDir, "tls.crt"): identity.CertPEM, path.Join(task.TLSDir, "tls.key"): identity.KeyPEM,
	} {
		write := p.server.Program(ctx, "sh", "-c", `mkdir -p "$(dirname "$1")" && cat >"$1" && chmod 755 "$1"`, "sh", at)
		write.Stdin = bytes.NewReader(content)
		if out, err := write.CombinedOutput(); err != nil {
			return fmt.Errorf("write %s: %w: %s", at, err, out)
		}
	}
	return nil
}

// spent is what a run of the pod's process took.
type spent struct {
	took time.Duration
	memory
}

// run does a task as a subcommand of the binary.
func (p *machine) run(ctx context.Context, subcommand, job string, t task.Task) (spent, error) {
	text, err := t.Encode()
	if err != nil {
		return spent{}, err
	}
	var said bytes.Buffer
	cmd := p.server.Program(ctx, "env", task.Variable+"="+text, task.RunnerVariable+"="+job, task.JobUIDVariable+"="+job, "KUBECONFIG="+kubeconfig,
		"AWS_ACCESS_KEY_ID="+accessKey, "AWS_SECRET_ACCESS_KEY="+accessKey, task.Binary, subcommand)
	cmd.Stdout, cmd.Stderr = &said, &said
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return spent{}, fmt.Errorf("start the pod: %w", err)
	}
	watched := make(chan memory)
	ended := make(chan struct{})
	go func() { watched <- watch(cmd.Process.Pid, ended) }()
	err = cmd.Wait()
	took := time.Since(began)
	close(ended)
	s := spent{took: took, memory: <-watched}
	switch {
	case err != nil:
		return s, fmt.Errorf("the pod's %s: %w\n%s", subcommand, err, said.String())
	case s.resident == 0:
		return s, errors.New("the pod's memory was never seen")
	}
	return s, nil
}

// memory is the most that a process had of it, in bytes: resident all together, anonymous what is not a mapped file, as
// the program itself is one. The first is the kernel's own mark, the second the most that was seen.
type memory struct{ resident, anonymous int64 }

// watch looks at a process's memory until it ended. Its children do not count.
func watch(pid int, ended <-chan struct{}) memory {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	var most memory
	for {
		select {
		case <-ended:
			return most
		case <-ticker.C:
		}
		status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
		if err != nil {
			continue // it has ended, or is about to be waited for
		}
		now := parseMemory(string(status))
		most.resident, most.anonymous = max(most.resident, now.resident), max(most.anonymous, now.anonymous)
	}
}

// parseMemory reads proc(5)'s status. What the process was before it became ours does not count.
func parseMemory(status string) memory {
	fields := map[string]string{}
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.TrimSuffix(strings.TrimSpace(value), " kB")
	}
	if fields["Name"] != program {
		return memory{}
	}
	kibibytes := func(name string) int64 {
		n, err := strconv.ParseInt(fields[name], 10, 64)
		if err != nil {
			return 0 // a process that ends has none of these any more
		}
		return n << 10
	}
	return memory{resident: kibibytes("VmHWM"), anonymous: kibibytes("RssAnon")}
}

// buildOperator builds the operator as it is released.
func buildOperator(ctx context.Context, root string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "nairobi-bench-")
	if err != nil {
		return nil, fmt.Errorf("build the operator: %w", err)
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, program)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, ".")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the operator: %w: %s", err, out)
	}
	return os.ReadFile(binary)
}
