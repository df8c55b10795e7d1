package kube

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/host"
)

//go:embed coredns.yaml
var dnsManifest string

// startDNS installs CoreDNS and waits until it serves. Through it, the first pod of the cluster is shown to run.
func (c *Cluster) startDNS(ctx context.Context) error {
	manifest := strings.NewReplacer("@IMAGE@", dnsImage, "@DOMAIN@", clusterDomain, "@ADDRESS@", dnsServiceIP).Replace(dnsManifest)
	if err := c.writeConfig("coredns.yaml", []byte(manifest)); err != nil {
		return err
	}
	if err := c.writeKubeconfig(); err != nil {
		return err
	}
	_, err := host.Run(ctx, c.Kubectl(), "--kubeconfig", c.Kubeconfig(), "apply", "--server-side", "-f", c.configFile("coredns.yaml"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := c.dnsReady(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready after %s: %w; %s", startLimit, err, strings.Join(c.Ended(), ", "))
		case <-time.After(pollEvery):
		}
	}
}

func (c *Cluster) dnsReady(ctx context.Context) error {
	deployment, err := c.api.AppsV1().Deployments("kube-system").Get(ctx, "coredns", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if deployment.Status.AvailableReplicas > 0 {
		return nil
	}
	pods, err := c.api.CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{LabelSelector: "k8s-app=kube-dns"})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		for _, container := range pod.Status.ContainerStatuses {
			if waiting := container.State.Waiting; waiting != nil {
				return fmt.Errorf("pod %s waits: %s %s", pod.Name, waiting.Reason, waiting.Message)
			}
		}
	}
	return errors.New("no pod is available yet")
}

// Kubeconfig is the administrator's kubeconfig, usable from the host.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.opts.Dir, "kubeconfig") }

func (c *Cluster) writeKubeconfig() error {
	if err := c.opts.Ledger.WriteFile(c.Kubeconfig(), c.admin, 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return os.Chmod(c.Kubeconfig(), 0o600)
}
