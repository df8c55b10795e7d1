package ready

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/cloud"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/kube"
)

const (
	// askTimeout bounds a question to one machine or to the lab.
	askTimeout = 20 * time.Second
	// podTimeout bounds the pod that asks mysqld; podPoll is how often it is looked at.
	podTimeout, podPoll = 2 * time.Minute, 250 * time.Millisecond
	// podUser is an arbitrary user that is not root.
	podUser int64 = 65532
)

var errWatchEnded = errors.New("the watch ended")

// awaitReady returns when a cluster's condition Ready became true: at the moment at which the API server told of it.
func awaitReady(ctx context.Context, lab *deploy.Lab, cluster *v1alpha1.MySQLCluster) (time.Time, error) {
	events, err := lab.Client.Watch(ctx, &v1alpha1.MySQLClusterList{}, client.InNamespace(cluster.Namespace))
	if err != nil {
		return time.Time{}, fmt.Errorf("watch the cluster: %w", err)
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("wait until %s is Ready: %w", cluster.Name, ctx.Err())
		case event, open := <-events.ResultChan():
			if !open || event.Type == watch.Error {
				return time.Time{}, fmt.Errorf("wait until %s is Ready: %w", cluster.Name, errWatchEnded)
			}
			now, ok := event.Object.(*v1alpha1.MySQLCluster)
			if ok && now.Name == cluster.Name && deploy.IsReady(now) {
				now.DeepCopyInto(cluster)
				return time.Now(), nil
			}
		}
	}
}

// askMembers asks every member of a Ready cluster how it got there.
func askMembers(ctx context.Context, lab *deploy.Lab, cluster *v1alpha1.MySQLCluster) ([]member, error) {
	machines, err := machines(ctx)
	if err != nil {
		return nil, err
	}
	clones, err := askClones(ctx, lab, cluster)
	if err != nil {
		return nil, err
	}
	var members []member
	for _, status := range cluster.Status.Members {
		pid, ok := machines[status.InstanceID]
		if !ok {
			return nil, fmt.Errorf("ask %s: %w", status.Name, errNoMachine)
		}
		address := net.JoinHostPort(status.Address, strconv.Itoa(v1alpha1.MySQLPort))
		m, err := askMember(ctx, pid, status, address, clones[status.Name])
		if err != nil {
			return nil, fmt.Errorf("ask %s: %w", status.Name, err)
		}
		members = append(members, m)
	}
	return members, nil
}

var errNoMachine = errors.New("the lab has no machine for it")

// machines returns the first processes of the lab's machines, by instance id.
func machines(ctx context.Context) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+cloud.ControlAddress+"/instances", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the lab for its machines: %w", err)
	}
	defer response.Body.Close()
	var states []cloud.State
	if err := json.NewDecoder(response.Body).Decode(&states); err != nil {
		return nil, fmt.Errorf("ask the lab for its machines: %w", err)
	}
	pids := map[string]int{}
	for _, s := range states {
		if s.Power {
			pids[s.ID] = s.PID
		}
	}
	return pids, nil
}

// askMember asks a machine for its journal, for the start of its systemd, and since when its volume is there.
func askMember(ctx context.Context, pid int, status v1alpha1.MemberStatus, address, clones string) (member, error) {
	journal, err := inside(ctx, pid, "journalctl", "--quiet", "--no-pager", "--output=json", "--output-fields=MESSAGE")
	if err != nil {
		return member{}, err
	}
	moments, err := readJournal(journal)
	if err != nil {
		return member{}, err
	}
	shown, err := inside(ctx, pid, "systemctl", "show", "--property=UserspaceTimestamp", "--timestamp=us+utc")
	if err != nil {
		return member{}, err
	}
	power, err := readBootTime(string(shown))
	if err != nil {
		return member{}, err
	}
	link := "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_" + strings.Replace(status.VolumeID, "vol-", "vol", 1)
	made, err := inside(ctx, pid, "stat", "--format=%.9Y", link)
	if err != nil {
		return member{}, err
	}
	plugged, err := readSeconds(string(made))
	if err != nil {
		return member{}, err
	}
	c, err := readClone(clones)
	if err != nil {
		return member{}, err
	}
	return understand(status.Name, address, power, plugged, moments, c)
}

// inside runs a command of a machine in the machine.
func inside(ctx context.Context, pid int, command ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	arguments := append([]string{"--target", strconv.Itoa(pid), "--mount", "--pid", "--uts", "--ipc", "--"}, command...)
	out, err := exec.CommandContext(ctx, "nsenter", arguments...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return nil, fmt.Errorf("run %s in the machine: %w", command[0], err)
	}
	return out, nil
}

// memberLine begins what the pod prints of each member.
const memberLine = "member "

// askClones asks every member's mysqld how it was seeded, as the operator, from a pod. It returns the answers by member.
func askClones(ctx context.Context, lab *deploy.Lab, cluster *v1alpha1.MySQLCluster) (map[string]string, error) {
	var script strings.Builder
	script.WriteString("set -eu\n")
	for _, m := range cluster.Status.Members {
		fmt.Fprintf(&script, "echo '%s%s'\nmysql --user=%s --host=%s --port=%d --ssl-mode=VERIFY_CA --ssl-ca=/tls/%s --ssl-cert=/tls/%s --ssl-key=/tls/%s "+
			"--connect-timeout=5 --batch --skip-column-names --execute=\"%s\"\n", memberLine, m.Name, mysql.OperatorUser, m.Address, v1alpha1.MySQLPort,
			resources.KeyCA, resources.KeyCertificate, resources.KeyPrivateKey, cloneQuery)
	}
	output, err := runPod(ctx, lab, cluster, script.String())
	if err != nil {
		return nil, fmt.Errorf("ask the members how they were seeded: %w", err)
	}
	answers, name := map[string]string{}, ""
	for line := range strings.Lines(output) {
		if next, ok := strings.CutPrefix(line, memberLine); ok {
			name = strings.TrimSpace(next)
			continue
		}
		answers[name] += line
	}
	return answers, nil
}

// runPod runs a script beside the operator's certificate and returns what it prints.
func runPod(ctx context.Context, lab *deploy.Lab, cluster *v1alpha1.MySQLCluster, script string) (string, error) {
	secret := resources.NamesOf(cluster.Name).OperatorTLS
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: cluster.Name + "-bench-", Namespace: cluster.Namespace},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: ptr.To(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To(podUser), RunAsGroup: ptr.To(podUser), FSGroup: ptr.To(podUser),
			},
			Containers: []corev1.Container{{
				Name: "mysql", Image: kube.MySQLClientImage, Command: []string{"/bin/sh", "-c", script},
				VolumeMounts: []corev1.VolumeMount{{Name: "tls", MountPath: "/tls", ReadOnly: true}},
			}},
			Volumes: []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: ptr.To(int32(0o440))},
			}}},
		},
	}
	if err := lab.Client.Create(ctx, pod); err != nil {
		return "", fmt.Errorf("start a pod: %w", err)
	}
	defer func() { _ = lab.Client.Delete(context.WithoutCancel(ctx), pod, client.GracePeriodSeconds(0)) }()
	err := wait.PollUntilContextTimeout(ctx, podPoll, podTimeout, true, func(ctx context.Context) (bool, error) {
		err := lab.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed, err
	})
	if err != nil {
		return "", fmt.Errorf("wait for pod %s in phase %s: %w", pod.Name, pod.Status.Phase, err)
	}
	logs, err := lab.Kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
	if err == nil && pod.Status.Phase == corev1.PodFailed {
		err = fmt.Errorf("pod %s failed: %s", pod.Name, logs)
	}
	return string(logs), err
}
