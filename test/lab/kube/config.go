package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// renderKubeconfig makes a kubeconfig that holds its keys, so that it can be copied anywhere.
func renderKubeconfig(user string, ca, certificate, key []byte) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["lab"] = &clientcmdapi.Cluster{Server: APIServer, CertificateAuthorityData: ca}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key}
	config.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: user}
	config.CurrentContext = "lab"
	return clientcmd.Write(*config)
}

// document is a configuration in JSON, which every reader of YAML understands.
type document = map[string]any

func (c *Cluster) configFile(name string) string { return filepath.Join(c.layout.config, name) }
func (c *Cluster) pkiFile(name string) string    { return filepath.Join(c.layout.pki, name) }

// writeFiles makes the keys and the configuration of all programs.
func (c *Cluster) writeFiles(_ context.Context) error {
	admin, err := writePKI(c.layout.pki, time.Now())
	if err != nil {
		return err
	}
	c.admin = admin
	if err := c.connect(); err != nil {
		return err
	}
	for name, content := range map[string]document{
		"audit.json":      auditPolicy(),
		"kubelet.json":    c.kubeletConfig(),
		"kube-proxy.json": c.proxyConfig(),
		"net.d/10-lab.conflist": {
			"cniVersion": "1.0.0", "name": "lab", "plugins": []document{bridgePlugin(), portMapPlugin()},
		},
	} {
		encoded, err := json.MarshalIndent(content, "", "  ")
		if err != nil {
			return err
		}
		if err := c.writeConfig(name, encoded); err != nil {
			return err
		}
	}
	for name, content := range map[string]string{
		"containerd.toml":             c.containerdConfig(),
		"certs.d/_default/hosts.toml": registryMirror,
		// Pods with the node's own resolver have no name server: the lab has no other names than the cluster's.
		"resolv.conf": "",
	} {
		if err := c.writeConfig(name, []byte(content)); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) writeConfig(name string, content []byte) error {
	path := c.configFile(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

func (c *Cluster) kubeletConfig() document {
	return document{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"authentication": document{
			"anonymous": document{"enabled": false}, "webhook": document{"enabled": true},
			"x509": document{"clientCAFile": c.pkiFile("ca.crt")},
		},
		"authorization":            document{"mode": "Webhook"},
		"tlsCertFile":              c.pkiFile("kubelet-server.crt"),
		"tlsPrivateKeyFile":        c.pkiFile("kubelet-server.key"),
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"clusterDNS":               []string{dnsServiceIP},
		"clusterDomain":            clusterDomain,
		"resolvConf":               c.configFile("resolv.conf"),
		"podLogsDir":               "/var/log/pods",
		"cgroupDriver":             "cgroupfs",
		"cgroupRoot":               "/" + podsCgroup,
		// Machines of developers and of CI may still have version 1, and swap.
		"failCgroupV1": false,
		"failSwapOn":   false,
		// The lab shares its disk with everything else on the machine: only a nearly full one is an emergency.
		"evictionHard": document{
			"nodefs.available": "1%", "imagefs.available": "1%", "memory.available": "100Mi",
		},
		"imageGCHighThresholdPercent": 99,
		"imageGCLowThresholdPercent":  98,
		"serializeImagePulls":         false,
		// Changed ConfigMaps and Secrets reach pods within this time.
		"syncFrequency": "10s",
	}
}

func (c *Cluster) proxyConfig() document {
	return document{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"mode": "nftables", "clusterCIDR": podRange, "hostnameOverride": NodeName,
		"clientConnection": document{"kubeconfig": c.pkiFile("kube-proxy.kubeconfig")},
		// The connection table's limits belong to the whole machine: leave all of them alone.
		"conntrack": document{
			"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s",
		},
	}
}

// bridgePlugin joins pods to one bridge. What leaves the pods' network gets the node's address, so that
// instances on the EC2 fabric can answer without knowing that there are pods.
func bridgePlugin() document {
	return document{
		"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
		"ipam": document{
			"type": "host-local", "dataDir": "/run/cni-ipam",
			"ranges": [][]document{{{"subnet": nodePodRange}}},
			"routes": []document{{"dst": "0.0.0.0/0"}},
		},
	}
}

func portMapPlugin() document {
	return document{"type": "portmap", "capabilities": document{"portMappings": true}}
}

// registryMirror sends containerd to the lab's registry whatever registry an image's name starts with.
const registryMirror = `[host."http://` + Registry + `"]
  capabilities = ["pull", "resolve"]
`

const (
	containerdSocket = "/run/containerd/containerd.sock"
	cniPlugins       = "/usr/lib/cni"
)

func (c *Cluster) containerdConfig() string {
	return fmt.Sprintf(`version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
  address = %q

[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = %q

[plugins.'io.containerd.cri.v1.images'.registry]
  config_path = %q

[plugins.'io.containerd.cri.v1.runtime']
  # The lab may run without CAP_SYS_RESOURCE, which lowering the score would need.
  restrict_oom_score_adj = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = [%q]
  conf_dir = %q

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  BinaryName = "/usr/sbin/runc"
  SystemdCgroup = false
`, containerdSocket, PauseImage, c.configFile("certs.d"), cniPlugins, c.configFile("net.d"))
}
