package resources

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
)

// ComponentArchive is the component of what the archive of binary logs needs.
const ComponentArchive = "archive"

// spoolVolume is the claim on which binary logs wait for their upload.
const spoolVolume = "spool"

// ArchiveName returns the name of the archive's StatefulSet, and of the ConfigMap that its pod reports in.
func ArchiveName(cluster string) string { return cluster + "-archive" }

// ArchiveClaim returns the name of the claim of the archive's pod, as a StatefulSet names it.
func ArchiveClaim(cluster string) string { return spoolVolume + "-" + ArchiveName(cluster) + "-0" }

// ArchiveReport is where the archive's pod reports. What the pod wrote into it is the pod's.
func ArchiveReport(c *v1alpha1.MySQLCluster) *corev1ac.ConfigMapApplyConfiguration {
	return ours(corev1ac.ConfigMap(ArchiveName(c.Name), c.Namespace), c, ComponentArchive)
}

// Archive is the StatefulSet whose one pod archives the cluster's binary log. Its claim goes with it.
//
// A change of the template replaces the pod also while it is not ready: with OrderedReady Kubernetes waits until it is, and one whose
// Secret or image does not exist never is. maxUnavailable is more than the one pod because an API server with the feature gate
// MaxUnavailableStatefulSet, which is off by default, replaces no pod while that many are unavailable; without the gate it is ignored.
func Archive(c *v1alpha1.MySQLCluster, t task.Task, images Images, storage resource.Quantity, class string) (*appsv1ac.StatefulSetApplyConfiguration, error) {
	text, err := t.Encode()
	if err != nil {
		return nil, err
	}
	names := NamesOf(c.Name)
	account, tls := names.BackupAccount, names.BackupTLS
	pod := corev1ac.PodSpec().
		WithServiceAccountName(account).
		WithTerminationGracePeriodSeconds(grace).
		WithSecurityContext(podSecurity()).
		WithContainers(hardened(corev1ac.Container().
			WithName(containerName).
			WithImage(images.Operator).
			WithArgs("archive").
			WithEnv(corev1ac.EnvVar().WithName(task.Variable).WithValue(text)).
			WithEnv(images.variables()...).
			WithVolumeMounts(
				corev1ac.VolumeMount().WithName(tlsVolume).WithMountPath(task.TLSDir).WithReadOnly(true),
				corev1ac.VolumeMount().WithName(spoolVolume).WithMountPath(task.SpoolDir),
				corev1ac.VolumeMount().WithName(tmpVolume).WithMountPath("/tmp")))).
		WithVolumes(
			corev1ac.Volume().WithName(tmpVolume).WithEmptyDir(corev1ac.EmptyDirVolumeSource().WithSizeLimit(resource.MustParse("256Mi"))),
			corev1ac.Volume().WithName(tlsVolume).WithSecret(corev1ac.SecretVolumeSource().WithSecretName(tls).WithDefaultMode(0o440)))
	mountDestination(pod, t.Destination)
	claim := corev1ac.PersistentVolumeClaimSpec().
		WithAccessModes(corev1.ReadWriteOnce).
		WithResources(corev1ac.VolumeResourceRequirements().WithRequests(corev1.ResourceList{corev1.ResourceStorage: storage}))
	if class != "" {
		claim.WithStorageClassName(class)
	}
	selector := map[string]string{v1alpha1.LabelCluster: c.Name, v1alpha1.LabelComponent: ComponentArchive}
	return ours(appsv1ac.StatefulSet(ArchiveName(c.Name), c.Namespace), c, ComponentArchive).
		WithSpec(appsv1ac.StatefulSetSpec().
			WithReplicas(1).
			WithServiceName(c.Name).
			WithPodManagementPolicy(appsv1.ParallelPodManagement).
			WithUpdateStrategy(appsv1ac.StatefulSetUpdateStrategy().WithType(appsv1.RollingUpdateStatefulSetStrategyType).
				WithRollingUpdate(appsv1ac.RollingUpdateStatefulSetStrategy().WithMaxUnavailable(intstr.FromInt32(2)))).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector)).
			WithPersistentVolumeClaimRetentionPolicy(appsv1ac.StatefulSetPersistentVolumeClaimRetentionPolicy().
				WithWhenDeleted(appsv1.DeletePersistentVolumeClaimRetentionPolicyType).
				WithWhenScaled(appsv1.RetainPersistentVolumeClaimRetentionPolicyType)).
			WithTemplate(corev1ac.PodTemplateSpec().WithLabels(Labels(c, ComponentArchive)).WithSpec(pod)).
			WithVolumeClaimTemplates(corev1ac.PersistentVolumeClaim(spoolVolume, "").
				WithLabels(selector).WithSpec(claim))), nil
}
