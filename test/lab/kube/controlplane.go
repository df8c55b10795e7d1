package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/host"
)

const (
	// startLimit bounds the start of one program; on an idle machine each takes a few seconds at most.
	startLimit = 90 * time.Second
	etcdClient = "http://127.0.0.1:2379"
	etcdPeer   = "http://127.0.0.1:2380"
	// clientQPS lets the lab's own client poll as often as it likes.
	clientQPS = 100
)

// connect makes the client that the lab itself uses.
func (c *Cluster) connect() error {
	config, err := clientcmd.RESTConfigFromKubeConfig(c.admin)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = clientQPS, clientQPS
	c.api, err = kubernetes.NewForConfig(config)
	return err
}

// startControlPlane starts etcd, the API server, and what works through it.
func (c *Cluster) startControlPlane(ctx context.Context) error {
	if _, err := c.run(ctx, "etcd", c.etcdArgs()...); err != nil {
		return err
	}
	server, err := c.run(ctx, "kube-apiserver", c.apiServerArgs()...)
	if err != nil {
		return err
	}
	if err := c.orDead(ctx, server, startLimit, c.apiReady); err != nil {
		return err
	}
	for name, args := range map[string][]string{
		"kube-controller-manager": c.controllerManagerArgs(), "kube-scheduler": c.schedulerArgs(),
	} {
		if _, err := c.run(ctx, name, args...); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) apiReady(ctx context.Context) error {
	return c.api.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

func (c *Cluster) etcdArgs() []string {
	return []string{
		"--name=lab", "--data-dir=/var/lib/etcd/data", "--log-level=warn",
		"--listen-client-urls=" + etcdClient, "--advertise-client-urls=" + etcdClient,
		"--listen-peer-urls=" + etcdPeer, "--initial-advertise-peer-urls=" + etcdPeer, "--initial-cluster=lab=" + etcdPeer,
		// The lab never survives its machine, so nothing is gained by waiting for the disk.
		"--unsafe-no-fsync",
	}
}

func (c *Cluster) apiServerArgs() []string {
	return []string{
		"--etcd-servers=" + etcdClient, "--advertise-address=" + NodeAddress, "--secure-port=6443",
		"--service-cluster-ip-range=" + serviceRange, "--allow-privileged=true", "--profiling=false",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--client-ca-file=" + c.pkiFile("ca.crt"),
		"--tls-cert-file=" + c.pkiFile("apiserver.crt"), "--tls-private-key-file=" + c.pkiFile("apiserver.key"),
		"--kubelet-client-certificate=" + c.pkiFile("apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + c.pkiFile("apiserver-kubelet-client.key"),
		"--kubelet-certificate-authority=" + c.pkiFile("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc." + clusterDomain,
		"--service-account-key-file=" + c.pkiFile("sa.pub"), "--service-account-signing-key-file=" + c.pkiFile("sa.key"),
		"--requestheader-client-ca-file=" + c.pkiFile("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group", "--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + c.pkiFile("front-proxy-client.crt"),
		"--proxy-client-key-file=" + c.pkiFile("front-proxy-client.key"),
		// Webhooks and aggregated APIs are reached at their pods, whether or not kube-proxy is up yet.
		"--enable-aggregator-routing=true",
		"--audit-policy-file=" + c.configFile("audit.json"), "--audit-log-path=" + auditFolder + "/audit.log",
	}
}

func (c *Cluster) controllerManagerArgs() []string {
	return append(c.componentArgs("kube-controller-manager"),
		"--use-service-account-credentials=true", "--root-ca-file="+c.pkiFile("ca.crt"),
		"--service-account-private-key-file="+c.pkiFile("sa.key"),
		"--cluster-signing-cert-file="+c.pkiFile("ca.crt"), "--cluster-signing-key-file="+c.pkiFile("ca.key"),
		"--requestheader-client-ca-file="+c.pkiFile("front-proxy-ca.crt"),
		"--allocate-node-cidrs=true", "--cluster-cidr="+podRange, "--service-cluster-ip-range="+serviceRange)
}

func (c *Cluster) schedulerArgs() []string { return c.componentArgs("kube-scheduler") }

// componentArgs are the same for the scheduler and the controller manager, of which there is one each.
func (c *Cluster) componentArgs(name string) []string {
	kubeconfig := c.pkiFile(name + ".kubeconfig")
	return []string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig, "--leader-elect=false", "--bind-address=127.0.0.1",
	}
}

// startContainerd waits until containerd answers.
func (c *Cluster) startContainerd(ctx context.Context) error {
	process, err := c.run(ctx, "containerd", "-c", c.configFile("containerd.toml"))
	if err != nil {
		return err
	}
	return c.orDead(ctx, process, startLimit, func(ctx context.Context) error {
		_, err := host.RunInPid(ctx, c.nodePID, "ctr", "version")
		return err
	})
}

// startNode waits until the node is Ready.
func (c *Cluster) startNode(ctx context.Context) error {
	if _, err := c.run(ctx, "kube-proxy", "--config="+c.configFile("kube-proxy.json")); err != nil {
		return err
	}
	kubelet, err := c.run(ctx, "kubelet", "--config="+c.configFile("kubelet.json"),
		"--kubeconfig="+c.pkiFile("kubelet.kubeconfig"), "--hostname-override="+NodeName, "--node-ip="+NodeAddress,
		"--root-dir=/var/lib/kubelet", "--cert-dir=/var/lib/kubelet/pki")
	if err != nil {
		return err
	}
	return c.orDead(ctx, kubelet, startLimit, c.nodeReady)
}

func (c *Cluster) nodeReady(ctx context.Context) error {
	node, err := c.api.CoreV1().Nodes().Get(ctx, NodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
			return fmt.Errorf("node is not Ready: %s", condition.Message)
		}
		if condition.Type == corev1.NodeReady {
			return nil
		}
	}
	return errors.New("node has not said yet whether it is Ready")
}
