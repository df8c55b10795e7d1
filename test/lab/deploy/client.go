package deploy

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/kube"
)

const (
	// clientTimeout bounds a pod of RunClient: start, run, end.
	clientTimeout = 4 * time.Minute
	// clientUser is an arbitrary user that is not root.
	clientUser int64 = 65532
)

// clientPrelude gives the script of a client pod the function `sql HOST STATEMENT`. It connects as an application
// would: user, password, database and certificate authority come from the cluster's app Secret, and the server must
// prove that it is HOST. The password goes through a file, for arguments are seen by everybody on the machine.
const clientPrelude = `set -eu
umask 077
printf '[client]\nuser="%s"\npassword="%s"\n' "$(cat /app/username)" "$(cat /app/password)" >/tmp/my.cnf
sql() {
  mysql --defaults-extra-file=/tmp/my.cnf --ssl-mode=VERIFY_IDENTITY --ssl-ca=/app/ca.crt --connect-timeout=15 \
    --host="$1" --port="$(cat /app/port)" --batch --skip-column-names "$(cat /app/database)" --execute="$2"
}
`

// RunClient runs a shell script in a pod of the cluster's namespace and returns what it printed. The script may call
// `sql HOST STATEMENT`. The cluster must have an application database.
func (l *Lab) RunClient(ctx context.Context, cluster client.ObjectKey, script string) (string, error) {
	pod := clientPod(cluster, script)
	if err := l.Client.Create(ctx, pod); err != nil {
		return "", fmt.Errorf("start a client pod: %w", err)
	}
	defer func() {
		_ = l.Client.Delete(context.WithoutCancel(ctx), pod, client.GracePeriodSeconds(0))
	}()

	err := wait.PollUntilContextTimeout(ctx, pollInterval, clientTimeout, true, func(ctx context.Context) (bool, error) {
		if err := l.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return false, unlessItPasses(err)
		}
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed, nil
	})
	if err != nil {
		return "", fmt.Errorf("wait for client pod %s in phase %s: %w", pod.Name, pod.Status.Phase, err)
	}
	logs, err := l.Kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("read the output of client pod %s: %w", pod.Name, err)
	}
	if pod.Status.Phase == corev1.PodFailed {
		return string(logs), fmt.Errorf("client pod %s failed: %s", pod.Name, logs)
	}
	return string(logs), nil
}

func clientPod(cluster client.ObjectKey, script string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: cluster.Name + "-client-", Namespace: cluster.Namespace},
		Spec: corev1.PodSpec{
			RestartPolicy:                corev1.RestartPolicyNever,
			AutomountServiceAccountToken: ptr.To(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To(clientUser), RunAsGroup: ptr.To(clientUser),
				FSGroup: ptr.To(clientUser),
			},
			Containers: []corev1.Container{{
				Name:         "mysql",
				Image:        kube.MySQLClientImage,
				Command:      []string{"/bin/sh", "-c", clientPrelude + script},
				VolumeMounts: []corev1.VolumeMount{{Name: "app", MountPath: "/app", ReadOnly: true}},
			}},
			Volumes: []corev1.Volume{{
				Name: "app",
				VolumeSource: corev1.VolumeSource{
					Secret: &corev1.SecretVolumeSource{SecretName: cluster.Name + "-app", DefaultMode: ptr.To(int32(0o440))},
				},
			}},
		},
	}
}
