package resources

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
)

// Values of the label v1alpha1.LabelComponent of what exports metrics.
const (
	ComponentMetrics    = "metrics"
	ComponentMetricsTLS = "metrics-tls"
)

const (
	// exporterProgram is the program of the operator's image that exports metrics.
	exporterProgram = "/exporter"
	// MetricsPort is where it serves them.
	MetricsPort = 9104
	// metricsPortName names the port.
	metricsPortName = "metrics"
	// scrapeTimeout is how long Prometheus waits. It is longer than what a scrape takes on a member that does not answer.
	scrapeTimeout = "10s"
)

// MetricsName returns the name of the Deployment that exports a cluster's metrics, and of the PodMonitor.
func MetricsName(cluster string) string { return cluster + "-metrics" }

// MetricsTLSSecret holds the client certificate of the pod that exports metrics.
func MetricsTLSSecret(c *v1alpha1.MySQLCluster, cert, key, ca []byte) *corev1ac.SecretApplyConfiguration {
	return secret(c, MetricsName(c.Name)+"-tls", ComponentMetricsTLS, corev1.SecretTypeTLS).
		WithData(map[string][]byte{KeyCertificate: cert, KeyPrivateKey: key, KeyCA: ca})
}

// metricsSelector selects the pod that exports the metrics.
func metricsSelector(c *v1alpha1.MySQLCluster) map[string]string {
	return map[string]string{v1alpha1.LabelCluster: c.Name, v1alpha1.LabelComponent: ComponentMetrics}
}

// Metrics is the Deployment whose one pod exports the metrics of all members. It has no right in Kubernetes. Members are named to it, so
// that one which is gone counts as down; another number of members replaces the pod once.
func Metrics(c *v1alpha1.MySQLCluster, m *v1alpha1.MonitoringSpec, image string) *appsv1ac.DeploymentApplyConfiguration {
	var members, collectors, logs []string
	for ordinal := range c.ReplicaCount() {
		members = append(members, c.MemberName(ordinal))
	}
	for _, collector := range m.Collectors {
		collectors = append(collectors, string(collector))
	}
	for _, log := range m.Logs {
		logs = append(logs, string(log))
	}
	container := hardened(corev1ac.Container()).
		WithName(ComponentMetrics).
		WithImage(image).
		WithCommand(exporterProgram).
		WithArgs(fmt.Sprintf("--bind-address=:%d", MetricsPort), fmt.Sprintf("--port=%d", v1alpha1.MySQLPort), "--tls="+task.TLSDir, "--namespace="+c.Namespace, "--cluster="+c.Name, "--members="+strings.Join(members, ","), "--collectors="+strings.Join(collectors, ","), "--logs="+strings.Join(logs, ",")).
		// Garbage is collected early: the pod has little to do, and room is what it costs.
		WithEnv(corev1ac.EnvVar().WithName("GOMEMLIMIT").WithValue("20MiB"), corev1ac.EnvVar().WithName("GOGC").WithValue("25")).
		WithPorts(corev1ac.ContainerPort().WithName(metricsPortName).WithContainerPort(MetricsPort).WithProtocol(corev1.ProtocolTCP)).
		WithReadinessProbe(corev1ac.Probe().WithHTTPGet(corev1ac.HTTPGetAction().WithPath("/healthz").WithPort(intstr.FromString(metricsPortName)))).
		WithVolumeMounts(corev1ac.VolumeMount().WithName(tlsVolume).WithMountPath(task.TLSDir).WithReadOnly(true)).
		WithResources(corev1ac.ResourceRequirements().
			WithRequests(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("24Mi")}).
			WithLimits(corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}))
	pod := corev1ac.PodSpec().
		WithAutomountServiceAccountToken(false).
		WithEnableServiceLinks(false).
		WithSecurityContext(podSecurity()).
		WithContainers(container).
		WithVolumes(corev1ac.Volume().WithName(tlsVolume).
			WithSecret(corev1ac.SecretVolumeSource().WithSecretName(*MetricsTLSSecret(c, nil, nil, nil).Name).WithDefaultMode(0o440)))
	return ours(appsv1ac.Deployment(MetricsName(c.Name), c.Namespace), c, ComponentMetrics).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(1).
			// Two pods would export each member twice.
			WithStrategy(appsv1ac.DeploymentStrategy().WithType(appsv1.RecreateDeploymentStrategyType)).
			WithRevisionHistoryLimit(1).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(metricsSelector(c))).
			WithTemplate(corev1ac.PodTemplateSpec().WithLabels(Labels(c, ComponentMetrics)).
				WithAnnotations(map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": fmt.Sprint(MetricsPort)}).
				WithSpec(pod)))
}

// PodMonitorKind is the kind by which prometheus-operator finds pods to scrape.
var PodMonitorKind = schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "PodMonitor"}

// PodMonitor has prometheus-operator scrape the pod. The samples keep the label namespace that the exporter gives them.
func PodMonitor(c *v1alpha1.MySQLCluster, m *v1alpha1.MonitoringSpec) *unstructured.Unstructured {
	u := unstructuredOf(c, PodMonitorKind, MetricsName(c.Name), ComponentMetrics)
	matchLabels := map[string]any{}
	for name, value := range metricsSelector(c) {
		matchLabels[name] = value
	}
	u.Object["spec"] = map[string]any{
		"selector": map[string]any{"matchLabels": matchLabels},
		"podMetricsEndpoints": []any{map[string]any{
			"port": metricsPortName, "path": "/metrics", "honorLabels": true,
			"interval": fmt.Sprintf("%ds", int64(m.Interval.Seconds())), "scrapeTimeout": scrapeTimeout,
		}},
	}
	return u
}

// PrometheusRuleKind is the kind by which prometheus-operator finds alerts.
var PrometheusRuleKind = schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "PrometheusRule"}

// PrometheusRule has Prometheus evaluate rules about the cluster.
func PrometheusRule(c *v1alpha1.MySQLCluster, spec map[string]any) *unstructured.Unstructured {
	u := unstructuredOf(c, PrometheusRuleKind, MetricsName(c.Name), ComponentMetrics)
	u.Object["spec"] = spec
	return u
}

// unstructuredOf is an object of the cluster's of a kind that this program has no type for, without its spec.
func unstructuredOf(c *v1alpha1.MySQLCluster, kind schema.GroupVersionKind, name, component string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(kind)
	u.SetNamespace(c.Namespace)
	u.SetName(name)
	u.SetLabels(Labels(c, component))
	u.SetAnnotations(mark(c))
	u.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: ownerKind, Name: c.Name, UID: c.UID, Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}})
	return u
}
