package build

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Versions. hack/tools pins the same ones with their checksums; a test compares.
const (
	KubernetesVersion = "1.36.3"
	EtcdVersion       = "3.6.8"
	CoreDNSVersion    = "1.12.4"
)

// module is a set of programs built from one tools module.
type module struct {
	// folder below hack/tools.
	folder string
	// programs: name of the binary to package path.
	programs map[string]string
	// variables are set by the linker; without them the programs do not know their own version.
	variables map[string]string
}

func kubernetesModule() module {
	programs := map[string]string{}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"} {
		programs[name] = "k8s.io/kubernetes/cmd/" + name
	}
	const base, client = "k8s.io/component-base/version.", "k8s.io/client-go/pkg/version."
	minor := strings.Split(KubernetesVersion, ".")[1]
	return module{folder: "kubernetes", programs: programs, variables: map[string]string{
		base + "gitVersion": "v" + KubernetesVersion, client + "gitVersion": "v" + KubernetesVersion,
		base + "gitMajor": "1", base + "gitMinor": minor, base + "gitTreeState": "clean",
	}}
}

func etcdModule() module {
	return module{folder: "etcd", programs: map[string]string{"etcd": "go.etcd.io/etcd/server/v3"}}
}

func coreDNSModule() module {
	return module{folder: "coredns", programs: map[string]string{"coredns": "github.com/coredns/coredns"}}
}

// entries lists all that the cache can hold.
func entries() map[string]entry {
	return map[string]entry{
		Kubernetes: kubernetesModule().entry(Kubernetes, KubernetesVersion, "6 to 10 minutes on two cores"),
		Etcd:       etcdModule().entry(Etcd, EtcdVersion, "about a minute"),
		CoreDNS:    coreDNSModule().entry(CoreDNS, CoreDNSVersion, "about two minutes"),
		Node:       nodeEntry(),
		Envtest: {
			name: Envtest, version: KubernetesVersion, takes: "a moment", needs: []string{Kubernetes, Etcd},
			make: linkEnvtest, paths: map[string]string{Envtest: "."},
		},
	}
}

func (m module) entry(name, version, takes string) entry {
	paths := map[string]string{}
	for program := range m.programs {
		paths[program] = filepath.Join("bin", program)
	}
	return entry{name: name, version: version, takes: takes, make: m.build, paths: paths}
}

// oneBuild keeps two large compilations from running side by side: each uses all processors anyway, and
// linking two Kubernetes programs at once needs more memory than a small machine has.
var oneBuild sync.Mutex

func (m module) build(ctx context.Context, cfg Config, dir string) error {
	oneBuild.Lock()
	defer oneBuild.Unlock()
	flags := []string{"-s", "-w"}
	for _, name := range slices.Sorted(maps.Keys(m.variables)) {
		flags = append(flags, "-X "+name+"="+m.variables[name])
	}
	for _, program := range slices.Sorted(maps.Keys(m.programs)) {
		pkg := m.programs[program]
		cmd := exec.CommandContext(ctx, "go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false",
			"-ldflags", strings.Join(flags, " "), "-o", filepath.Join(dir, "bin", program), pkg)
		cmd.Dir = filepath.Join(cfg.RepoDir, "hack", "tools", m.folder)
		// A compiler that collects garbage less often is an eighth faster; the limit keeps it small on a small machine. Without the
		// debugging information, which the linker would leave out, it is a seventh faster.
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOGC=400", "GOMEMLIMIT=1536MiB")
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go build %s: %w\n%s", pkg, err, output)
		}
		fmt.Fprintf(cfg.Log, "    %s built\n", program)
	}
	return nil
}

// linkEnvtest links the three programs of envtest. The links are relative, so that the cache can be moved.
func linkEnvtest(_ context.Context, _ Config, dir string) error {
	known := entries()
	for program, from := range map[string]string{"kube-apiserver": Kubernetes, "kubectl": Kubernetes, "etcd": Etcd} {
		target := filepath.Join("..", known[from].dirName(), known[from].paths[program])
		if err := os.Symlink(target, filepath.Join(dir, program)); err != nil {
			return err
		}
	}
	return nil
}
