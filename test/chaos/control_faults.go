package chaos

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

const (
	apiServer = "kube-apiserver"
	// takeover bounds the wait for a second operator to lead: a lease of 15 seconds has to run out.
	takeover = time.Minute
)

// cloudFaults are about the EC2 API while it is needed: the primary's instance has lost its power.
func cloudFaults() []Fault {
	during := func(rules ...proxy.Rule) func(context.Context, *Scene) error {
		return func(ctx context.Context, s *Scene) error {
			s.later(s.noRules)
			for _, r := range rules {
				if err := s.rule(ctx, r); err != nil {
					return err
				}
			}
			s.undo("poweron", s.Primary.InstanceID)
			return s.do(ctx, "powercut", s.Primary.InstanceID)
		}
	}
	return []Fault{
		{"EC2 throttles, power cut, primary", during(proxy.Throttle()), short, long},
		{"EC2 denies, power cut, primary", during(proxy.Deny("StopInstances", "StartInstances", "RunInstances", "CreateSnapshot")), short, long},
		{"EC2 silent, power cut, primary", during(proxy.Blackout()), short, long},
		{"EC2 loses answers, power cut, primary", during(proxy.LoseAnswers(0, "StopInstances", "StartInstances", "RunInstances", "CreateSnapshot")), short, long},
	}
}

// operatorFaults are about the operator and the API server, alone and while they are needed.
func operatorFaults() []Fault {
	with := func(first, second func(context.Context, *Scene) error) func(context.Context, *Scene) error {
		return func(ctx context.Context, s *Scene) error {
			if err := first(ctx, s); err != nil {
				return err
			}
			return second(ctx, s)
		}
	}
	return []Fault{
		{"operator kill -9", killOperator, moment, short},
		{"operator kill -9 during a failover", with(cutPrimary, func(ctx context.Context, s *Scene) error {
			if err := pause(ctx, between(s.Random, 0, short)); err != nil {
				return err
			}
			return killOperator(ctx, s)
		}), short, long},
		{"operator frozen, power cut, primary", with(freezeOperator, cutPrimary), short, long},
		{"operator twice, the stale one thaws in a failover", staleLeader, moment, short},
		{"API server frozen", freezeAPIServer, moment, long},
		{"API server frozen, mysqld kill -9, primary", with(freezeAPIServer, func(ctx context.Context, s *Scene) error {
			return s.do(ctx, "kill", s.Primary.InstanceID, mysqldUnit)
		}), short, long},
		{"API server frozen, power cut, primary", with(freezeAPIServer, cutPrimary), short, long},
	}
}

// cutPrimary takes the power of the primary's instance.
func cutPrimary(ctx context.Context, s *Scene) error {
	s.undo("poweron", s.Primary.InstanceID)
	return s.do(ctx, "powercut", s.Primary.InstanceID)
}

func killOperator(ctx context.Context, s *Scene) error {
	pods, err := s.operators(ctx)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if err := s.do(ctx, "kill-pod", string(pod.UID)); err != nil {
			return err
		}
	}
	return nil
}

func freezeOperator(ctx context.Context, s *Scene) error {
	pods, err := s.operators(ctx)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		s.undoPod(pod)
		if err := s.do(ctx, "stop-pod", string(pod.UID)); err != nil {
			return err
		}
	}
	return nil
}

// undoPod thaws a pod later, unless the kubelet has taken it away meanwhile.
func (s *Scene) undoPod(pod corev1.Pod) {
	s.later(func(ctx context.Context) error {
		_ = s.do(ctx, "continue-pod", string(pod.UID)) // the kubelet kills what gives no sign of life for long
		return nil
	})
}

func freezeAPIServer(ctx context.Context, s *Scene) error {
	s.undo("continue-program", apiServer)
	return s.do(ctx, "stop-program", apiServer)
}

// staleLeader lets a second operator take over from a frozen one and thaws that one while the second is in a failover: for
// a moment two operators believe that they lead.
func staleLeader(ctx context.Context, s *Scene) error {
	if err := s.scaleOperator(ctx, 2); err != nil {
		return err
	}
	s.later(func(ctx context.Context) error { return s.scaleOperator(ctx, 1) })
	leader, err := s.leader(ctx)
	if err != nil {
		return err
	}
	pods, err := s.operators(ctx)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if pod.Name != podOf(leader) {
			continue
		}
		s.undoPod(pod)
		if err := s.do(ctx, "stop-pod", string(pod.UID)); err != nil {
			return err
		}
		if err := s.awaitOtherLeader(ctx, leader); err != nil {
			return err
		}
		if err := cutPrimary(ctx, s); err != nil {
			return err
		}
		if err := pause(ctx, between(s.Random, moment, short)); err != nil {
			return err
		}
		return s.do(ctx, "continue-pod", string(pod.UID))
	}
	return fmt.Errorf("no pod is the leader %s", leader)
}

// scaleOperator sets how many operators there are, and waits for them.
func (s *Scene) scaleOperator(ctx context.Context, replicas int) error {
	d := &appsv1.Deployment{}
	d.Namespace, d.Name = v1alpha1.SystemNamespace, deploy.Deployment
	patch := client.RawPatch(client.Merge.Type(), fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := s.lab.Client.Patch(ctx, d, patch); err != nil {
		return fmt.Errorf("scale the operator: %w", err)
	}
	return s.lab.WaitForOperator(ctx)
}

// leader returns who holds the operator's lease.
func (s *Scene) leader(ctx context.Context) (string, error) {
	var leases coordinationv1.LeaseList
	if err := s.lab.Client.List(ctx, &leases, client.InNamespace(v1alpha1.SystemNamespace)); err != nil {
		return "", err
	}
	for _, l := range leases.Items {
		if l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != "" {
			return *l.Spec.HolderIdentity, nil
		}
	}
	return "", fmt.Errorf("nobody leads")
}

// podOf is the pod in a leader's identity, which is the pod's name and something random.
func podOf(identity string) string {
	for i := range identity {
		if identity[i] == '_' {
			return identity[:i]
		}
	}
	return identity
}

func (s *Scene) awaitOtherLeader(ctx context.Context, than string) error {
	ctx, cancel := context.WithTimeout(ctx, takeover)
	defer cancel()
	for {
		now, err := s.leader(ctx)
		if err == nil && now != than {
			return nil
		}
		if err := pause(ctx, lookEvery); err != nil {
			return fmt.Errorf("nobody took over from %s: %w", than, err)
		}
	}
}
