package resources

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	batchv1ac "k8s.io/client-go/applyconfigurations/batch/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
)

// Values of the label v1alpha1.LabelComponent of what backups need.
const (
	ComponentBackup    = "backup"
	ComponentBackupTLS = "backup-tls"
	ComponentSchedule  = "backup-schedule"
	ComponentRecovery  = "recovery"
	ComponentVerify    = "backup-verify"
)

const (
	// podUser is the user of the backup pods, an arbitrary one that is not root.
	podUser int64 = 65532
	// history is how many ended Jobs of each kind are kept.
	history int32 = 3
	// retries is how often a pod is replaced that was lost. A task that failed for good is not tried again.
	retries int32 = 2
	// recoveryRetries is that of a recovery, which nobody but a person begins again. The pause between two grows from ten
	// seconds to six minutes: together three quarters of an hour.
	recoveryRetries int32 = 12
	// keepJob, in seconds, is how long the Job of a backup is kept that a person asked for.
	keepJob int32 = 24 * 3600
	// grace, in seconds, is how long a pod may take to take back what it had begun.
	grace int64 = 30

	toolsVolume, tlsVolume, s3Volume, claimVolume, tmpVolume, workVolume = "tools", "tls", "s3", "backups", "tmp", "work"
	containerName                                                        = "backup"
)

// Images are what backup pods run.
type Images struct {
	// Operator is our own: an init container copies its one binary.
	Operator string
	// MySQL has MySQL's programs.
	MySQL string
	// Proxy are the variables that name the HTTP proxy through which they reach a bucket, by name; see ProxyVariables.
	Proxy map[string]string
}

// ProxyVariables are the names of the variables by which Go programs find an HTTP proxy.
var ProxyVariables = []string{"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"}

// variables are what every container that talks to a bucket is told beside its task.
func (i Images) variables() []*corev1ac.EnvVarApplyConfiguration {
	vars := []*corev1ac.EnvVarApplyConfiguration{corev1ac.EnvVar().WithName("HOME").WithValue("/tmp")}
	for _, name := range ProxyVariables {
		if value := i.Proxy[name]; value != "" {
			vars = append(vars, corev1ac.EnvVar().WithName(name).WithValue(value))
		}
	}
	return vars
}

// VerifyName returns the name of the CronJob that verifies backups, and of the ConfigMap in which its pods report.
func VerifyName(cluster string) string { return cluster + "-verify" }

// ScheduleName returns the name of a schedule's CronJob.
func ScheduleName(cluster, schedule string) string { return cluster + "-" + schedule }

// BackupTLSSecret holds the client certificate of the backup pods.
func BackupTLSSecret(c *v1alpha1.MySQLCluster, cert, key, ca []byte) *corev1ac.SecretApplyConfiguration {
	name := NamesOf(c.Name).BackupTLS
	return secret(c, name, ComponentBackupTLS, corev1.SecretTypeTLS).
		WithData(map[string][]byte{KeyCertificate: cert, KeyPrivateKey: key, KeyCA: ca})
}

// BackupServiceAccount is who the backup pods are. With IRSA its annotation names their IAM role.
func BackupServiceAccount(c *v1alpha1.MySQLCluster, roleARN string) *corev1ac.ServiceAccountApplyConfiguration {
	name := NamesOf(c.Name).BackupAccount
	account := ours(corev1ac.ServiceAccount(name, c.Namespace), c, ComponentBackup)
	if roleARN != "" {
		account.WithAnnotations(map[string]string{"eks.amazonaws.com/role-arn": roleARN})
	}
	return account
}

// BackupRole is what they may do in Kubernetes: make MySQLBackups, read them and report in them, and report how a recovery and the
// archive go and what a verification found.
// RBAC cannot bind making an object to a name, nor reporting to the objects of one cluster.
func BackupRole(c *v1alpha1.MySQLCluster) *rbacv1ac.RoleApplyConfiguration {
	names := NamesOf(c.Name)
	return ours(rbacv1ac.Role(names.BackupAccount, c.Namespace), c, ComponentBackup).
		WithRules(
			rbacv1ac.PolicyRule().WithAPIGroups(v1alpha1.GroupVersion.Group).WithResources("mysqlbackups").WithVerbs("get", "list", "create"),
			rbacv1ac.PolicyRule().WithAPIGroups(v1alpha1.GroupVersion.Group).WithResources("mysqlbackups/status").WithVerbs("patch"),
			rbacv1ac.PolicyRule().WithAPIGroups("").WithResources("configmaps").WithResourceNames(names.Recovery, VerifyName(c.Name), ArchiveName(c.Name)).WithVerbs("patch"),
		)
}

// BackupRoleBinding gives them that.
func BackupRoleBinding(c *v1alpha1.MySQLCluster) *rbacv1ac.RoleBindingApplyConfiguration {
	name := NamesOf(c.Name).BackupAccount
	return ours(rbacv1ac.RoleBinding(name, c.Namespace), c, ComponentBackup).
		WithRoleRef(rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("Role").WithName(name)).
		WithSubjects(rbacv1ac.Subject().WithKind(rbacv1.ServiceAccountKind).WithName(name).WithNamespace(c.Namespace))
}

// Schedule is the CronJob of one of the cluster's schedules. One that is paused starts nothing.
func Schedule(c *v1alpha1.MySQLCluster, s v1alpha1.BackupSchedule, t task.Task, paused bool, images Images) (*batchv1ac.CronJobApplyConfiguration, error) {
	spec, err := jobSpec(c, t, images, "backup")
	if err != nil {
		return nil, err
	}
	return cronJob(c, ScheduleName(c.Name, s.Name), s.Cron, s.TimeZone, ComponentSchedule, paused, spec), nil
}

// Verification is the CronJob that restores the newest dump to see whether it can be. One that is paused starts nothing.
func Verification(c *v1alpha1.MySQLCluster, t task.Task, paused bool, images Images) (*batchv1ac.CronJobApplyConfiguration, error) {
	spec, err := jobSpec(c, t, images, "verify")
	if err != nil {
		return nil, err
	}
	v := c.Spec.Backup.Verification
	work := corev1ac.Volume().WithName(workVolume)
	if v.Storage == nil {
		work.WithEmptyDir(corev1ac.EmptyDirVolumeSource())
	} else {
		claim := corev1ac.PersistentVolumeClaimSpec().WithAccessModes(corev1.ReadWriteOnce).
			WithResources(corev1ac.VolumeResourceRequirements().WithRequests(corev1.ResourceList{corev1.ResourceStorage: *v.Storage}))
		if v.StorageClassName != "" {
			claim.WithStorageClassName(v.StorageClassName)
		}
		work.WithEphemeral(corev1ac.EphemeralVolumeSource().WithVolumeClaimTemplate(
			corev1ac.PersistentVolumeClaimTemplate().WithLabels(Labels(c, ComponentVerify)).WithSpec(claim)))
	}
	pod := spec.Template.Spec
	pod.WithVolumes(work)
	pod.Containers[0].
		WithVolumeMounts(corev1ac.VolumeMount().WithName(workVolume).WithMountPath(task.WorkDir)).
		WithResources(corev1ac.ResourceRequirements().
			WithRequests(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("1Gi")}).
			WithLimits(corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}))
	return cronJob(c, VerifyName(c.Name), v.Cron, v.TimeZone, ComponentVerify, paused, spec), nil
}

// VerificationReport is where its pods report. What they wrote into it is theirs.
func VerificationReport(c *v1alpha1.MySQLCluster) *corev1ac.ConfigMapApplyConfiguration {
	return ours(corev1ac.ConfigMap(VerifyName(c.Name), c.Namespace), c, ComponentVerify)
}

func cronJob(c *v1alpha1.MySQLCluster, name string, when v1alpha1.CronExpression, zone v1alpha1.TimeZoneName, component string, paused bool, spec *batchv1ac.JobSpecApplyConfiguration) *batchv1ac.CronJobApplyConfiguration {
	return ours(batchv1ac.CronJob(name, c.Namespace), c, component).
		WithSpec(batchv1ac.CronJobSpec().
			WithSchedule(string(when)).
			WithTimeZone(string(zone)).
			// There is no deadline to start: what was missed during a pause is made up once when that ends.
			WithSuspend(paused).
			// What still runs is not joined by the next of its schedule.
			WithConcurrencyPolicy(batchv1.ForbidConcurrent).
			WithSuccessfulJobsHistoryLimit(history).
			WithFailedJobsHistoryLimit(history).
			WithJobTemplate(batchv1ac.JobTemplateSpec().
				WithLabels(Labels(c, component)).
				WithSpec(spec)))
}

// BackupJob is the Job of a backup that a person asked for, or of what is left to do for a MySQLBackup. The MySQLBackup
// owns it, so that it outlives the cluster where it has to.
func BackupJob(c *v1alpha1.MySQLCluster, b *v1alpha1.MySQLBackup, name, command string, t task.Task, images Images) (*batchv1ac.JobApplyConfiguration, error) {
	spec, err := jobSpec(c, t, images, command)
	if err != nil {
		return nil, err
	}
	return batchv1ac.Job(name, b.Namespace).
		WithLabels(Labels(c, ComponentBackup)).
		WithOwnerReferences(metav1ac.OwnerReference().
			WithAPIVersion(v1alpha1.GroupVersion.String()).WithKind("MySQLBackup").WithName(b.Name).WithUID(b.UID).
			WithController(true).WithBlockOwnerDeletion(true)).
		WithSpec(spec.WithTTLSecondsAfterFinished(keepJob)), nil
}

// RecoveryJob is the Job that restores into a new cluster.
func RecoveryJob(c *v1alpha1.MySQLCluster, t task.Task, images Images) (*batchv1ac.JobApplyConfiguration, error) {
	spec, err := jobSpec(c, t, images, "restore")
	if err != nil {
		return nil, err
	}
	name := NamesOf(c.Name).Recovery
	return ours(batchv1ac.Job(name, c.Namespace), c, ComponentRecovery).
		WithSpec(spec.WithBackoffLimit(recoveryRetries)), nil
}

// TaskOf is the task of a Job's pod; an empty one of a Job that is not ours.
func TaskOf(job *batchv1.Job) task.Task {
	for _, container := range job.Spec.Template.Spec.Containers {
		for _, variable := range container.Env {
			if variable.Name != task.Variable {
				continue
			}
			if t, err := task.Decode(variable.Value); err == nil {
				return t
			}
		}
	}
	return task.Task{}
}

// RecoveryReport is where that Job reports. What the pod wrote into it is the pod's.
func RecoveryReport(c *v1alpha1.MySQLCluster) *corev1ac.ConfigMapApplyConfiguration {
	name := NamesOf(c.Name).Recovery
	return ours(corev1ac.ConfigMap(name, c.Namespace), c, ComponentRecovery)
}

// jobSpec describes a Job of one pod that does one task.
func jobSpec(c *v1alpha1.MySQLCluster, t task.Task, images Images, command string) (*batchv1ac.JobSpecApplyConfiguration, error) {
	text, err := t.Encode()
	if err != nil {
		return nil, err
	}
	names := NamesOf(c.Name)
	account, tls := names.BackupAccount, names.BackupTLS
	if command == "restore" {
		// It owns the database that it restores into.
		tls = names.OperatorTLS
	}
	labels := Labels(c, ComponentBackup)
	pod := corev1ac.PodSpec().
		WithServiceAccountName(account).
		WithRestartPolicy(corev1.RestartPolicyNever).
		WithTerminationGracePeriodSeconds(grace).
		WithSecurityContext(podSecurity()).
		WithInitContainers(hardened(corev1ac.Container().
			WithName("install").
			WithImage(images.Operator).
			WithArgs("install", task.Binary).
			WithVolumeMounts(corev1ac.VolumeMount().WithName(toolsVolume).WithMountPath(task.ToolsDir)))).
		WithContainers(hardened(corev1ac.Container().
			WithName(containerName).
			WithImage(images.MySQL).
			WithCommand(task.Binary, command).
			WithEnv(
				corev1ac.EnvVar().WithName(task.Variable).WithValue(text),
				corev1ac.EnvVar().WithName(task.RunnerVariable).WithValueFrom(corev1ac.EnvVarSource().
					WithFieldRef(corev1ac.ObjectFieldSelector().WithFieldPath(fmt.Sprintf("metadata.labels['%s']", batchv1.JobNameLabel)))),
				corev1ac.EnvVar().WithName(task.JobUIDVariable).WithValueFrom(corev1ac.EnvVarSource().
					WithFieldRef(corev1ac.ObjectFieldSelector().WithFieldPath(fmt.Sprintf("metadata.labels['%s']", batchv1.ControllerUidLabel))))).
			WithEnv(images.variables()...).
			WithVolumeMounts(
				corev1ac.VolumeMount().WithName(toolsVolume).WithMountPath(task.ToolsDir).WithReadOnly(true),
				corev1ac.VolumeMount().WithName(tmpVolume).WithMountPath("/tmp")))).
		WithVolumes(
			corev1ac.Volume().WithName(toolsVolume).WithEmptyDir(corev1ac.EmptyDirVolumeSource().WithSizeLimit(resource.MustParse("256Mi"))),
			corev1ac.Volume().WithName(tmpVolume).WithEmptyDir(corev1ac.EmptyDirVolumeSource().WithSizeLimit(resource.MustParse("256Mi"))))
	if command != "verify" && command != "remove-backup" { // which talk to no member
		pod.Containers[0].WithVolumeMounts(corev1ac.VolumeMount().WithName(tlsVolume).WithMountPath(task.TLSDir).WithReadOnly(true))
		pod.WithVolumes(corev1ac.Volume().WithName(tlsVolume).WithSecret(corev1ac.SecretVolumeSource().WithSecretName(tls).WithDefaultMode(0o440)))
	}
	mountDestination(pod, t.Destination)
	return batchv1ac.JobSpec().
		WithBackoffLimit(retries).
		WithPodFailurePolicy(batchv1ac.PodFailurePolicy().WithRules(
			batchv1ac.PodFailurePolicyRule().
				WithAction(batchv1.PodFailurePolicyActionFailJob).
				WithOnExitCodes(batchv1ac.PodFailurePolicyOnExitCodesRequirement().
					WithContainerName(containerName).WithOperator(batchv1.PodFailurePolicyOnExitCodesOpIn).WithValues(task.ExitFailed)))).
		WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels).WithSpec(pod)), nil
}

// mountDestination gives a pod what it needs to reach where backups are.
func mountDestination(pod *corev1ac.PodSpecApplyConfiguration, d *v1alpha1.BackupDestination) {
	main := &pod.Containers[0]
	switch {
	case d == nil:
	case d.PersistentVolumeClaim != nil:
		main.WithVolumeMounts(corev1ac.VolumeMount().WithName(claimVolume).WithMountPath(task.ClaimDir))
		pod.WithVolumes(corev1ac.Volume().WithName(claimVolume).
			WithPersistentVolumeClaim(corev1ac.PersistentVolumeClaimVolumeSource().WithClaimName(d.PersistentVolumeClaim.ClaimName)))
	case d.S3 != nil && d.S3.CredentialsSecretRef != nil:
		main.WithVolumeMounts(corev1ac.VolumeMount().WithName(s3Volume).WithMountPath(task.S3Dir).WithReadOnly(true))
		pod.WithVolumes(corev1ac.Volume().WithName(s3Volume).WithProjected(s3Keys(d.S3.CredentialsSecretRef.Name)))
	}
}

// s3Keys is of a user's Secret what logs in to S3, and nothing else that may be in it. The session's token is optional.
func s3Keys(secret string) *corev1ac.ProjectedVolumeSourceApplyConfiguration {
	item := func(key string) *corev1ac.KeyToPathApplyConfiguration {
		return corev1ac.KeyToPath().WithKey(key).WithPath(key)
	}
	return corev1ac.ProjectedVolumeSource().WithDefaultMode(0o440).WithSources(
		corev1ac.VolumeProjection().WithSecret(corev1ac.SecretProjection().WithName(secret).
			WithItems(item(task.KeyAccessKeyID), item(task.KeySecretAccessKey))),
		corev1ac.VolumeProjection().WithSecret(corev1ac.SecretProjection().WithName(secret).
			WithItems(item(task.KeySessionToken)).WithOptional(true)))
}

// podSecurity makes a pod's processes run as a user that is not root and owns what is mounted.
func podSecurity() *corev1ac.PodSecurityContextApplyConfiguration {
	return corev1ac.PodSecurityContext().
		WithRunAsNonRoot(true).WithRunAsUser(podUser).WithRunAsGroup(podUser).WithFSGroup(podUser).
		WithFSGroupChangePolicy(corev1.FSGroupChangeOnRootMismatch).
		WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))
}

// hardened gives a container what it needs to run and takes everything else away.
func hardened(container *corev1ac.ContainerApplyConfiguration) *corev1ac.ContainerApplyConfiguration {
	return container.
		WithResources(corev1ac.ResourceRequirements().
			WithRequests(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")}).
			WithLimits(corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")})).
		WithSecurityContext(corev1ac.SecurityContext().
			WithAllowPrivilegeEscalation(false).
			WithReadOnlyRootFilesystem(true).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL")))
}
