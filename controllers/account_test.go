package controllers

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"

	corev1 "k8s.io/api/core/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

const (
	homeAccount  = "123456789012" // of every key that the lab's EC2 does not know
	otherAccount = "210987654321"
	otherRole    = "arn:aws:iam::" + otherAccount + ":role/nairobi-mysql-tenant"

	anyAccount = "namespaces:\n  \"*\":\n    operatorCredentials: true\n    roleARNs: [\"*\"]\n    images: [\"*\"]\n    subnets: [\"*\"]\n"
)

// otherKeys are an access key of another account.
func otherKeys(t *testing.T) map[string]string {
	t.Helper()
	taken, err := sts.NewFromConfig(ownEyes()).AssumeRole(t.Context(), &sts.AssumeRoleInput{
		RoleArn: aws.String(otherRole), RoleSessionName: aws.String("test")})
	must(t, err)
	return map[string]string{
		task.KeyAccessKeyID: *taken.Credentials.AccessKeyId, task.KeySecretAccessKey: *taken.Credentials.SecretAccessKey,
		task.KeySessionToken: *taken.Credentials.SessionToken,
	}
}

// homeKeys are an access key of the lab's own account.
func homeKeys() map[string]string {
	return map[string]string{task.KeyAccessKeyID: moto.AccessKeyID, task.KeySecretAccessKey: moto.SecretAccessKey}
}

// otherHomeKeys are another access key of the lab's own account.
func otherHomeKeys() map[string]string {
	return map[string]string{task.KeyAccessKeyID: "AKIANAIROBILAB000001", task.KeySecretAccessKey: moto.SecretAccessKey}
}

// change patches the cluster's spec.
func (w *world) change(f func(*v1alpha1.MySQLCluster)) {
	w.t.Helper()
	c, ok := w.get()
	if !ok {
		w.t.Fatal("the cluster is gone")
	}
	before := c.DeepCopy()
	f(c)
	must(w.t, w.client.Patch(w.t.Context(), c, client.MergeFrom(before)))
}

// secret makes or replaces a Secret of the user's.
func (w *world) secret(name string, data map[string]string) {
	w.t.Helper()
	var s corev1.Secret
	err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: w.cluster.Namespace, Name: name}, &s)
	s.Namespace, s.Name, s.StringData, s.Data = w.cluster.Namespace, name, data, nil
	if err != nil {
		must(w.t, client.IgnoreNotFound(err))
		must(w.t, w.client.Create(w.t.Context(), &s))
		return
	}
	must(w.t, w.client.Update(w.t.Context(), &s))
}

// elsewhere counts what the other account holds of the cluster.
func (w *world) elsewhere() int {
	w.t.Helper()
	c, err := ec2.NewFactory(ec2.Options{Config: awsapi.Config{Endpoint: cloud.Endpoint(), CallTimeout: 10 * time.Second}}).
		Cloud(w.t.Context(), awsapi.Account{Region: "us-east-1", RoleARN: otherRole})
	must(w.t, err)
	found, err := c.Inventory.Observe(w.t.Context(), string(w.cluster.UID), 0)
	must(w.t, err)
	return len(found.Instances) + len(found.Volumes) + len(found.SecurityGroups) + len(found.Snapshots)
}

// changes are the calls since the last reset that would change something in EC2.
func (w *world) changes() []string {
	var all []string
	for _, call := range w.proxy.Calls() {
		if call.Service == "ec2" && !strings.HasPrefix(call.Action, "Describe") && !strings.HasPrefix(call.Action, "Get") && !call.DryRun {
			all = append(all, call.Action)
		}
	}
	return all
}

// changed is how often such a change was asked for.
func (w *world) changed(action string) (n int) {
	for _, a := range w.changes() {
		if a == action {
			n++
		}
	}
	return n
}

func TestClusterIsNotMadeAnewInAnotherAccount(t *testing.T) {
	t.Parallel()
	for name, scenario := range map[string]struct {
		begin, turn, back func(*world)
		says              string
		// restart is true when the operator notices only then: it reads a Secret once a minute.
		restart bool
	}{
		"the role": {
			turn: func(w *world) { w.change(func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.RoleARN = otherRole }) },
			back: func(w *world) { w.change(func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.RoleARN = "" }) },
			says: "set it to a role of account " + homeAccount,
		},
		"the Secret's content": {
			begin:   func(w *world) { w.secret("aws", homeKeys()) },
			turn:    func(w *world) { w.secret("aws", otherKeys(w.t)) },
			back:    func(w *world) { w.secret("aws", homeKeys()) },
			says:    "Secret aws (spec.aws.credentialsSecretRef)",
			restart: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHomeWorld(t, func(c *v1alpha1.MySQLCluster) {
				if scenario.begin != nil {
					c.Spec.AWS.CredentialsSecretRef = &v1alpha1.LocalSecretReference{Name: "aws"}
				}
			})
			w.policy(anyAccount)
			if scenario.begin != nil {
				scenario.begin(w)
			}
			var dialled atomic.Int64
			dial := func(ctx context.Context, network, address string) (net.Conn, error) {
				dialled.Add(1)
				return refuse(ctx, network, address)
			}
			o := w.equip(&operator{}, nil, conn.Options{Dial: dial})
			w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
			scenario.turn(w)
			if scenario.restart {
				o = w.newOperator(nil)
			}
			w.proxy.ResetCalls()
			w.drive(o, patience, w.conditionHas(v1alpha1.ConditionCloudReachable, "False/WrongAccount", homeAccount, otherAccount, scenario.says))
			dialled.Store(0)
			for range 10 {
				_, _ = w.pass(o)
			}
			if !scenario.restart && dialled.Load() == 0 {
				t.Error("the databases are no longer looked after")
			}
			w.hammer(w.newOperator(nil), 20) // one that never saw the right account
			if made := w.changes(); len(made) > 0 {
				t.Errorf("in another account there were %v", made)
			}
			if n := w.elsewhere(); n != 0 {
				t.Errorf("the other account holds %d things of the cluster", n)
			}
			if !w.phaseIs(v1alpha1.PhaseEC2Ready)() {
				t.Errorf("the phase changed:\n%s", w.describe())
			}
			w.oneOfEach(3)
			scenario.back(w)
			w.drive(w.newOperator(nil), patience, w.conditionHas(v1alpha1.ConditionCloudReachable, "True/"))
			must(t, w.client.Delete(t.Context(), w.cluster))
			w.drive(w.newOperator(nil), patience, w.gone)
			w.nothing(0)
		})
	}
}

// TestLineEndsInASecretAreNoneOfTheKeys: editors, and echo, put them behind what is written.
func TestLineEndsInASecretAreNoneOfTheKeys(t *testing.T) {
	t.Parallel()
	w := newHomeWorld(t, func(c *v1alpha1.MySQLCluster) {
		c.Spec.AWS.CredentialsSecretRef = &v1alpha1.LocalSecretReference{Name: "aws"}
	})
	w.secret("aws", map[string]string{task.KeyAccessKeyID: moto.AccessKeyID + "\n", task.KeySecretAccessKey: moto.SecretAccessKey + "\r\n", task.KeySessionToken: "\n"})
	o := w.newOperator(nil)
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionCloudReachable, "True/"))
	w.secret("aws", map[string]string{task.KeyAccessKeyID: moto.AccessKeyID, task.KeySecretAccessKey: "\n"})
	w.drive(w.newOperator(nil), patience, w.conditionHas(v1alpha1.ConditionCloudReachable, "False/CredentialsMissing", "has no key secretAccessKey"))
}

// Before anything was made nobody is held to an account.
func TestAccountMayChangeBeforeTheBeginning(t *testing.T) {
	t.Parallel()
	w := newHomeWorld(t, func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.RoleARN = otherRole })
	w.policy(anyAccount)
	o := w.newOperator(nil)
	// The subnets are the home account's.
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "True/WaitingForDependency", seeded.SubnetIDs()[0]))
	w.change(func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.RoleARN = "" })
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	w.oneOfEach(3)
}

// STS is silent: nothing is begun, but what was begun goes on wherever EC2 shows it.
func TestUnknownAccount(t *testing.T) {
	t.Parallel()
	w := newHomeWorld(t, func(c *v1alpha1.MySQLCluster) {
		c.Spec.AWS.CredentialsSecretRef = &v1alpha1.LocalSecretReference{Name: "aws"}
	})
	w.secret("aws", homeKeys())
	silent := proxy.Rule{Kind: proxy.Fail, Service: "sts", Actions: []string{"GetCallerIdentity"}, Code: "ServiceUnavailable", Status: http.StatusServiceUnavailable}
	_, err := w.proxy.Add(silent)
	must(t, err)
	o := w.newOperator(nil)
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionCloudReachable, "False/CloudSilent", "GetCallerIdentity"))
	w.hammer(o, 20)
	w.nothing(0)
	w.proxy.Clear()
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	_, err = w.proxy.Add(silent)
	must(t, err)
	w.hammer(w.newOperator(nil), 10)
	if text := w.condition(v1alpha1.ConditionCloudReachable); !strings.HasPrefix(text, "True/") {
		t.Errorf("EC2 shows the cluster, the condition says %s", text)
	}
	w.secret("aws", otherKeys(t))
	stranger := w.newOperator(nil)
	w.drive(stranger, patience, w.conditionHas(v1alpha1.ConditionCloudReachable, "False/CloudSilent", "GetCallerIdentity"))
	w.hammer(stranger, 20)
	if made := w.changes(); len(made) > 0 || w.elsewhere() != 0 {
		t.Errorf("in an account that nobody knows there were %v", made)
	}
	w.oneOfEach(3)
}

// What was never begun has nothing in EC2, and EC2 is not asked.
func TestWhatWasNeverBegunGoesWithoutEC2(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*world){
		"not allowed":             func(w *world) { w.policy("namespaces: {}\n") },
		"credentials never there": func(*world) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHomeWorld(t, func(c *v1alpha1.MySQLCluster) {
				if name == "credentials never there" {
					c.Spec.AWS.CredentialsSecretRef = &v1alpha1.LocalSecretReference{Name: "aws"}
				}
			})
			change(w)
			o := w.newOperator(nil)
			for range 3 {
				_, _ = w.pass(o)
			}
			must(t, w.client.Delete(t.Context(), w.cluster))
			w.drive(w.newOperator(nil), patience, w.gone)
			if n := w.total(); n != 0 {
				t.Errorf("AWS was called: %v", w.proxy.Counts())
			}
		})
	}
}

// TestWhatWasNeverBegunGoesAlthoughEC2IsSilent, with the snapshot that somebody wanted of it.
func TestWhatWasNeverBegunGoesAlthoughEC2IsSilent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	_, err := w.proxy.Add(proxy.Rule{Kind: proxy.Refuse, Service: "ec2"})
	must(t, err)
	o := w.newOperator(nil)
	w.passes(o, 3)
	must(t, w.client.Create(t.Context(), &v1alpha1.MySQLBackup{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: "first"},
		Spec:       v1alpha1.MySQLBackupSpec{ClusterName: w.cluster.Name, Method: v1alpha1.BackupMethodSnapshot},
	}))
	w.delete()
	w.drive(o, patience, w.gone)
	w.nothingHeld()
}
