package insights

import (
	"context"
	"fmt"
	"net"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
)

// finder finds what a job scrapes. Debian's Prometheus is built without its own discovery of Kubernetes.
type finder func(context.Context) ([]target, error)

// target is one address with the labels that prometheus-operator gives its samples, in the format of
// https://prometheus.io/docs/prometheus/latest/http_sd/.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

func targetAt(address string, port int32, namespace, pod string) target {
	return target{[]string{net.JoinHostPort(address, fmt.Sprint(port))}, map[string]string{"namespace": namespace, "pod": pod}}
}

// endpointsOf finds the addresses behind a port of the Services that a ServiceMonitor selects.
func endpointsOf(lab *deploy.Lab, selector map[string]string, port string) finder {
	return func(ctx context.Context) ([]target, error) {
		slices, err := lab.Kube.DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{LabelSelector: labels.FormatLabels(selector)})
		if err != nil {
			return nil, err
		}
		found := []target{}
		for _, slice := range slices.Items {
			for _, p := range slice.Ports {
				if ptr.Deref(p.Name, "") != port {
					continue
				}
				for _, e := range slice.Endpoints {
					for _, address := range e.Addresses {
						found = append(found, targetAt(address, *p.Port, slice.Namespace, e.TargetRef.Name))
					}
				}
			}
		}
		return found, nil
	}
}

// podsOf finds the running pods that a PodMonitor selects.
func podsOf(lab *deploy.Lab, selector map[string]string, port string) finder {
	return func(ctx context.Context) ([]target, error) {
		pods, err := lab.Kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: labels.FormatLabels(selector), FieldSelector: "status.phase=Running"})
		if err != nil {
			return nil, err
		}
		found := []target{}
		for _, pod := range pods.Items {
			for _, container := range pod.Spec.Containers {
				for _, p := range container.Ports {
					if p.Name == port && p.Protocol == corev1.ProtocolTCP {
						found = append(found, targetAt(pod.Status.PodIP, p.ContainerPort, pod.Namespace, pod.Name))
					}
				}
			}
		}
		return found, nil
	}
}
