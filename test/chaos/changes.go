package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
)

// changeTimeout bounds a change of a running cluster, with whatever happens in its middle.
const changeTimeout = 12 * time.Minute

// following is what clients may take to follow a promotion, or an instance on which everything else runs, too, to let one write
// through: one answer that does not come, and one connection that is not made.
const following = answerTimeout + dialTimeout

// plainSwitchovers is how many switchovers the changes are measured by.
const plainSwitchovers = 3

// loginEvery is the pause between two logins while they are watched, and loginsAfter how long they are watched on after the change:
// what was handed out before has to go on to work.
const (
	loginEvery  = moment / 4
	loginsAfter = 10 * loginEvery
)

// missingVersion is one that no image of the lab's has.
const missingVersion = "9.7.199"

// change is something that people do to a running database by editing one thing.
type change struct {
	name string
	make func(ctx context.Context, s *Scene) error
	// members is how many the cluster has afterwards; 0: as many as before.
	members int
	// logins says that whoever logs in meanwhile, with the password of before, must get in.
	logins bool
}

// Changes are all that people do to a running database, in an order that ends where it began but for what cannot go back: the
// version, and the volumes' size. cut says that the primary loses its power in the middle of each.
//
// Without cuts it begins with what the others are measured by: switchovers that somebody asked for.
func Changes(cut bool) []Fault {
	var faults []Fault
	all := changes()
	if !cut {
		all = append(slices.Repeat([]change{{name: "switchover", make: func(ctx context.Context, s *Scene) error { return s.switchover(ctx, s.Replicas[0].Name) }}}, plainSwitchovers), all...)
	}
	for _, c := range all {
		name, do := c.name, c.do
		if cut {
			name, do = name+", power cut, primary", c.doCut
		}
		faults = append(faults, Fault{Name: name, Do: do, Least: time.Millisecond, Most: 2 * time.Millisecond})
	}
	return faults
}

// OrdinaryDay are the changes that no alert is for: all that succeed at the first try.
func OrdinaryDay() []Fault {
	return slices.DeleteFunc(Changes(false)[plainSwitchovers-1:], func(f Fault) bool { return f.Name == calledOffName })
}

const calledOffName = "version that does not start, called off"

func changes() []change {
	return []change{
		{name: "dynamic setting", make: setting("max_connections", "70", "60")},
		{name: "static setting", make: setting("back_log", "90", "80")},
		{name: "restart on demand", make: request(v1alpha1.AnnotationRestartedAt)},
		{name: "certificates renewed", make: request(v1alpha1.AnnotationCertificatesRenewedAt), logins: true},
		{name: "application password", make: password, logins: true},
		{name: "volumes grow", make: grow},
		{name: "instance type", make: instanceType},
		{name: "version", make: version},
		{name: calledOffName, make: calledOff},
		{name: "3 to 5 members", make: replicas(5), members: 5},
		{name: "5 to 2 members", make: replicas(2), members: 2},
		{name: "2 to 3 members", make: replicas(3), members: 3},
	}
}

// Interruption is what a change of a cluster that is well costs its clients beyond the switchovers that belong to it: an error
// when nobody had a write acknowledged for longer than the longest of them took.
func Interruption(r Result) error {
	if r.Gap <= r.Promoting+following {
		return nil
	}
	return fmt.Errorf("no write was acknowledged for %s s, and the longest switchover took %s s", seconds(r.Gap), seconds(r.Promoting))
}

// do makes the change and waits until it has been carried out.
func (c change) do(ctx context.Context, s *Scene) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	count := func() error { return nil }
	if c.logins {
		count = s.watchLogins(ctx)
	}
	if err := c.make(ctx, s); err != nil {
		return errors.Join(err, count())
	}
	err := c.await(ctx, s)
	return errors.Join(err, count())
}

// watchLogins logs in anew again and again until the returned function is called, which says how many did not get in.
func (s *Scene) watchLogins(ctx context.Context) (count func() error) {
	ctx, stop := context.WithCancel(ctx)
	result := make(chan error, 1)
	go func() {
		tried, failed := 0, 0
		var last error
		for pause(ctx, loginEvery) == nil {
			tried++
			if err := s.access.login(ctx, s.load.theService()); err != nil && ctx.Err() == nil {
				failed, last = failed+1, err
			}
		}
		s.say("     %d logins meanwhile, %d failed", tried, failed)
		switch {
		case failed > 0:
			result <- fmt.Errorf("%d of %d logins failed, the last with: %w", failed, tried, last)
		case tried == 0:
			result <- errors.New("nobody logged in meanwhile")
		default:
			result <- nil
		}
	}()
	return func() error {
		_ = pause(ctx, loginsAfter) // cut short, what there was counts
		stop()
		return <-result
	}
}

// doCut makes the change, cuts the power of whoever is primary in the middle of it, and waits until all is well.
func (c change) doCut(ctx context.Context, s *Scene) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	if err := c.make(ctx, s); err != nil {
		return err
	}
	if err := pause(ctx, between(s.Random, moment/4, short)); err != nil {
		return err
	}
	if err := s.cutWhoeverLeads(ctx); err != nil {
		return err
	}
	return c.await(ctx, s)
}

// cutWhoeverLeads cuts the power of the present primary's instance. Nobody gives it back: the operator starts it again.
func (s *Scene) cutWhoeverLeads(ctx context.Context) error {
	for {
		c, err := s.cluster(ctx)
		if err == nil {
			for _, m := range c.Status.Members {
				if m.Name != c.Status.Primary || m.InstanceID == "" {
					continue
				}
				if err := s.do(ctx, "powercut", m.InstanceID); !powerless(err) {
					return err
				}
			}
		}
		if pause(ctx, lookEvery/5) != nil {
			return errors.Join(errors.New("there is no primary to cut the power of"), err)
		}
	}
}

// await returns when the operator says that the cluster is as the spec wants it.
func (c change) await(ctx context.Context, s *Scene) error {
	told := ""
	for {
		now, err := s.cluster(ctx)
		if err == nil && settled(now) && (c.members == 0 || len(now.Status.Members) == c.members) {
			return nil
		}
		if err == nil {
			if is := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionProgressing); is != nil && is.Reason == v1alpha1.ReasonRolling {
				if step, _, _ := strings.Cut(is.Message, ":"); step != told {
					told = step
					s.say("     %s", is.Message)
				}
			}
		}
		if err := pause(ctx, lookEvery); err != nil {
			return fmt.Errorf("%s: not carried out within %s: %w", c.name, changeTimeout, err)
		}
	}
}

// settled says whether a cluster is as its spec wants it.
func settled(c *v1alpha1.MySQLCluster) bool {
	is := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionProgressing)
	return deploy.IsReady(c) && is != nil && is.Reason == v1alpha1.ReasonStable && is.ObservedGeneration == c.Generation
}

// edit changes the cluster as a person does who edits it.
func (s *Scene) edit(ctx context.Context, edit func(*v1alpha1.MySQLCluster)) error {
	c, err := s.cluster(ctx)
	if err != nil {
		return err
	}
	before := c.DeepCopy()
	edit(c)
	return s.lab.Client.Patch(ctx, c, client.MergeFrom(before))
}

func setting(name, one, other string) func(context.Context, *Scene) error {
	return func(ctx context.Context, s *Scene) error {
		return s.edit(ctx, func(c *v1alpha1.MySQLCluster) {
			value := one
			if c.Spec.MySQLD[name] == one {
				value = other
			}
			settings := map[string]string{name: value}
			for key, was := range c.Spec.MySQLD {
				if key != name {
					settings[key] = was
				}
			}
			c.Spec.MySQLD = settings
		})
	}
}

// request asks for something by an annotation that names a time. The second that it names is over, so that what comes next
// is younger.
func request(annotation string) func(context.Context, *Scene) error {
	return func(ctx context.Context, s *Scene) error {
		at := time.Now().UTC().Truncate(time.Second)
		err := s.edit(ctx, func(c *v1alpha1.MySQLCluster) {
			if c.Annotations == nil {
				c.Annotations = map[string]string{}
			}
			c.Annotations[annotation] = at.Format(time.RFC3339)
		})
		if err != nil {
			return err
		}
		return s.untilSeen(ctx)
	}
}

// untilSeen waits until the operator has seen an annotation, which changes no generation: it works, or a few seconds are over
// because it was quicker than our looks.
func (s *Scene) untilSeen(ctx context.Context) error {
	for deadline := time.Now().Add(2 * moment); time.Now().Before(deadline); {
		if c, err := s.cluster(ctx); err == nil && !settled(c) {
			return nil
		}
		if err := pause(ctx, lookEvery/5); err != nil {
			return err
		}
	}
	return nil
}

// password changes the application's password. The clients that write go on with the one that they have.
func password(ctx context.Context, s *Scene) error {
	var secret corev1.Secret
	if err := s.lab.Client.Get(ctx, client.ObjectKey{Namespace: s.key.Namespace, Name: s.key.Name + "-app"}, &secret); err != nil {
		return err
	}
	fresh := "fresh-" + strconv.FormatUint(s.Random.Uint64(), 36)
	secret.Data["password"] = []byte(fresh)
	if err := s.lab.Client.Update(ctx, &secret); err != nil {
		return err
	}
	return s.untilLogin(ctx, fresh)
}

// login logs in and out again.
func (a access) login(ctx context.Context, at target) error {
	db, err := a.openAt(at)
	if err != nil {
		return err
	}
	return errors.Join(db.PingContext(ctx), db.Close())
}

// untilLogin waits until a password logs in.
func (s *Scene) untilLogin(ctx context.Context, password string) error {
	as := s.access
	as.password = password
	for {
		err := as.login(ctx, s.load.theService())
		if err == nil {
			return nil
		}
		if pause(ctx, lookEvery) != nil {
			return fmt.Errorf("log in with the new password: %w", err)
		}
	}
}

func grow(ctx context.Context, s *Scene) error {
	return s.edit(ctx, func(c *v1alpha1.MySQLCluster) {
		c.Spec.Storage.Size = ptr.To(resource.MustParse(strconv.Itoa(int(c.StorageGiB())+1) + "Gi"))
	})
}

func instanceType(ctx context.Context, s *Scene) error {
	return s.edit(ctx, func(c *v1alpha1.MySQLCluster) {
		if c.Spec.AWS.InstanceType == "m6i.large" {
			c.Spec.AWS.InstanceType = "m6i.xlarge"
		} else {
			c.Spec.AWS.InstanceType = "m6i.large"
		}
	})
}

// version moves to the image's second build of mysqld, which differs in the text of its version alone: what is seen is the
// order of the members, not what a newer server does to its data directory.
func version(ctx context.Context, s *Scene) error {
	next := s.lab.Cloud.NextMySQLVersion
	if next == "" {
		return errors.New("the lab's image has no second build of mysqld")
	}
	return s.edit(ctx, func(c *v1alpha1.MySQLCluster) { c.Spec.Version = next })
}

// calledOff asks for a version that the image does not have. The first member does not come up with it; the others stay as they
// are, and status tells of the way back, which is then taken.
func calledOff(ctx context.Context, s *Scene) error {
	before, err := s.cluster(ctx)
	if err != nil {
		return err
	}
	if err := s.edit(ctx, func(c *v1alpha1.MySQLCluster) { c.Spec.Version = missingVersion }); err != nil {
		return err
	}
	for moved := false; !moved; {
		if err := pause(ctx, lookEvery); err != nil {
			return fmt.Errorf("no member was moved to %s: %w", missingVersion, err)
		}
		now, err := s.cluster(ctx)
		moved = err == nil && now.Status.Rollout != nil && strings.HasPrefix(now.Status.Rollout.Step, "on instance ") && now.Status.Rollout.PreviousVersion == before.Spec.Version
	}
	now, err := s.cluster(ctx)
	if err != nil {
		return err
	}
	s.say("     %s; back to %s", now.Status.Rollout.Step, now.Status.Rollout.PreviousVersion)
	if ready := now.Status.ReadyReplicas; ready < int32(len(now.Status.Members))-1 { //nolint:gosec // at most 9
		return fmt.Errorf("%d of %d members are Ready while one fails with %s", ready, len(now.Status.Members), missingVersion)
	}
	return s.edit(ctx, func(c *v1alpha1.MySQLCluster) { c.Spec.Version = now.Status.Rollout.PreviousVersion })
}

func replicas(n int32) func(context.Context, *Scene) error {
	return func(ctx context.Context, s *Scene) error {
		return s.edit(ctx, func(c *v1alpha1.MySQLCluster) { c.Spec.Replicas = &n })
	}
}
