package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/records"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/cloud"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/iam"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/kube"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

// Unraised are the alerts that no alarm makes fire, with the reason. The rules of all are tried by promtool with their real times.
func Unraised() map[string]string {
	return map[string]string{
		"MySQLClusterBackupOverdue":      "a backup is overdue when its period has passed twice and two hours more: the operator's clock is the machine's",
		"MySQLClusterCertificateExpires": "a member's certificate would have to age for weeks",
		"MySQLClusterClockSkew":          "the lab's instances share one clock",
		"MySQLOperatorReconcilesFail":    "what the API server refuses is a reason of the cluster's, and one that fails altogether ends the operator's lease first",
		"MySQLClusterInstallAtRisk":      "the release keys expire in years, and the lab's pods do not reach MySQL's site",
	}
}

// Alarms are the faults by which the alerts are shown.
func Alarms() []Alarm {
	return []Alarm{
		{Fault: "mysqld of all members stands still", Do: freezeAll, Alerts: []string{
			"MySQLClusterWritesFailing", "MySQLClusterNoPrimary", "MySQLClusterAvailabilityBurnsFast", "MySQLClusterAvailabilityBurnsSlow"}},
		{Fault: "the primary and a replica lose their power, and EC2 denies every start", Do: powerlessMajority, Alerts: []string{
			"MySQLClusterPromotionNotProven", "MySQLClusterAWSDenied", "MySQLOperatorAWSRefused"}},
		{Fault: "both replicas stand still", Do: freezeReplicas, Alerts: []string{"MySQLClusterCommitsWait"}},
		{Fault: "semi-sync is switched off on a primary that no replica reaches", Do: uncover, Alerts: []string{"MySQLClusterCommitsUncovered"}},
		{Fault: "an older operator is installed over a newer one", Do: newerRecords, Alerts: []string{"MySQLClusterNewerRecords"}},
		{Fault: "somebody wrote into the records what no operator writes", Do: strangeRecords, Alerts: []string{"MySQLClusterNotReconciled"}},
		{Fault: "a restore of a backup that is not there", Do: restoreNothing, Alerts: []string{"MySQLClusterRecoveryFailed"}},
		{Fault: "a data volume fills up in a minute", Do: fillUp, Alerts: []string{"MySQLClusterDiskFullSoon", "MySQLClusterDiskNearlyFull"}},
		{Fault: "a replica's instance is terminated, and its type is sold out", Do: soldOut, Alerts: []string{
			"MySQLClusterCapacityMissing", "MySQLClusterMemberNotReady"}},
		{Fault: "a replica and its volume are deleted in EC2 while the other one stands still", Do: deleteVolume, Alerts: []string{"MySQLClusterMemberMissing"}},
		{Fault: "a replica is cut off from all", Do: isolateReplica, Within: 8 * time.Minute, Alerts: []string{
			"MySQLClusterMemberDown", "MySQLClusterMemberUnreachable", "MySQLClusterQuorumAtRisk"}},
		{Fault: "somebody writes to a replica, and EC2 denies the snapshot of it", Do: errant, Alerts: []string{"MySQLClusterMemberUntrusted"}},
		{Fault: "a table is missing on a replica", Do: breakReplication, Alerts: []string{"MySQLClusterReplicationBroken"}},
		{Fault: "a table of a replica is locked for long", Do: lag, Within: 10 * time.Minute, Alerts: []string{"MySQLClusterReplicaLags"}},
		{Fault: "clients take all connections of the primary", Do: takeConnections, Alerts: []string{
			"MySQLClusterConnectionsNearMax", "MySQLClusterTooManyConnections"}},
		{Fault: "a transaction stays open while a million others commit", Do: longHistory, Within: time.Minute, Alerts: []string{"MySQLClusterLongHistoryList"}},
		{Fault: "a foreign replica acknowledges", Do: func(ctx context.Context, s *Scene) error { return s.inviteStranger(ctx) }, Alerts: []string{"MySQLClusterChangedFromOutside"}},
		{Fault: "the Secret of the authority and its copy are deleted while no operator runs", Do: loseAuthority, Alerts: []string{"MySQLClusterAuthorityLost"}},
		{Fault: "EC2 does not answer", Do: rules(proxy.Blackout()), Alerts: []string{"MySQLClusterAWSSilent"}},
		{Fault: "EC2 throttles every call", Do: rules(proxy.Throttle()), Alerts: []string{"MySQLOperatorAWSThrottled"}},
		{Fault: "a cluster of an instance type that does not exist", Do: missingType, Alerts: []string{"MySQLClusterSpecRefused"}},
		{Fault: "the API server refuses a Service of the cluster", Do: refuseService, Alerts: []string{"MySQLClusterActionFailing"}},
		{Fault: "a cluster that is being deleted is protected from that", Do: deleteProtected, Within: 6 * time.Minute, Alerts: []string{"MySQLClusterDegraded"}},
		{Fault: "the operator is scaled to nothing", Do: removeOperator, Alerts: []string{"MySQLOperatorAbsent"}},
		{Fault: "somebody else holds the operator's lease", Do: takeLease, Alerts: []string{"MySQLOperatorNoLeader"}},
		{Fault: "the bucket refuses what is written to it", Do: refuseBackups, Within: 20 * time.Minute, Alerts: []string{
			"MySQLClusterBackupFailed", "MySQLClusterArchiveBehind"}},
		{Fault: "the bucket is not read", Do: refuseReads, Within: 15 * time.Minute, Alerts: []string{"MySQLClusterArchiveUnread"}},
		{Fault: "a segment of the archive is deleted", Do: deleteSegment, Within: 15 * time.Minute, Alerts: []string{"MySQLClusterArchiveGap"}},
		{Fault: "the newest dump is damaged", Do: damageDump, Within: 10 * time.Minute, Alerts: []string{"MySQLClusterVerificationFailed"}},
		{Fault: "the node takes no pod while two verifications are due", Do: noRoom, Within: 15 * time.Minute, Alerts: []string{"MySQLClusterVerificationOverdue"}},
		{Fault: "the newest snapshot is deleted in EC2", Do: deleteSnapshot, Within: 10 * time.Minute, Alerts: []string{"MySQLClusterBackupVanished"}},
		{Fault: "three primaries in a row lose their power", Do: threeFailovers, Alerts: []string{"MySQLClusterFailsOverOften"}},
		{Fault: "mysqld of a replica is killed three times", Do: killThrice, Alerts: []string{"MySQLClusterMemberCrashing"}},
		{Fault: "a rolling restart meets a mysqld that does not start", Do: spoilRestart, Within: 20 * time.Minute, Alerts: []string{
			"MySQLClusterRolloutStopped", "MySQLClusterMemberNotStarting"}},
	}
}

const (
	// EveryMinute is how often the cluster of the alarms is backed up and verified, and never when it is not for a while.
	EveryMinute v1alpha1.CronExpression = "* * * * *"
	never       v1alpha1.CronExpression = "0 0 1 1 *"
	// verifiedWithin bounds the wait for the first verified backup.
	verifiedWithin = 40 * time.Minute
	bucketSecret   = "alarms-s3"
)

// rules puts rules of the EC2 proxy in force.
func rules(all ...proxy.Rule) func(context.Context, *Scene) error {
	return func(ctx context.Context, s *Scene) error {
		s.later(s.noRules)
		for _, r := range all {
			if err := s.rule(ctx, r); err != nil {
				return err
			}
		}
		return nil
	}
}

func isolateReplica(ctx context.Context, s *Scene) error {
	r := s.Replicas[0].InstanceID
	return cutAll(ctx, s, append(both(r, cloud.PartyNode), both(r, cloud.PartyMembers)...)...)
}

func (s *Scene) freeze(ctx context.Context, members ...v1alpha1.MemberStatus) error {
	for _, m := range members {
		s.undo("thaw", m.InstanceID)
		if err := s.do(ctx, "freeze", m.InstanceID); err != nil {
			return err
		}
	}
	return nil
}

func freezeAll(ctx context.Context, s *Scene) error {
	return s.freeze(ctx, append([]v1alpha1.MemberStatus{s.Primary}, s.Replicas...)...)
}

func freezeReplicas(ctx context.Context, s *Scene) error { return s.freeze(ctx, s.Replicas...) }

func powerlessMajority(ctx context.Context, s *Scene) error {
	if err := rules(proxy.Deny("StartInstances", "RunInstances"))(ctx, s); err != nil {
		return err
	}
	for _, m := range []v1alpha1.MemberStatus{s.Replicas[0], s.Primary} {
		s.undo("poweron", m.InstanceID)
		if err := s.do(ctx, "powercut", m.InstanceID); err != nil {
			return err
		}
	}
	return nil
}

func uncover(ctx context.Context, s *Scene) error {
	if err := cutAll(ctx, s, both(s.Primary.InstanceID, cloud.PartyMembers)...); err != nil {
		return err
	}
	return semiSyncOff.set(ctx, s)
}

// newerRecords raises the schema of the cluster's records, as a newer operator does that is then replaced by an older.
func newerRecords(ctx context.Context, s *Scene) error {
	return s.changeRecords(ctx, func(all map[string]any) { all["schema"] = topology.RecordsSchema + 1 })
}

// strangeRecords puts more into the cluster's records than the operator takes for its own.
func strangeRecords(ctx context.Context, s *Scene) error {
	return s.changeRecords(ctx, func(all map[string]any) { all["held"] = make([]string, records.MaxListed+1) })
}

// changeRecords changes the cluster's records while no operator runs that remembers what they were.
func (s *Scene) changeRecords(ctx context.Context, change func(map[string]any)) error {
	if err := removeOperator(ctx, s); err != nil {
		return err
	}
	if err := pause(ctx, short); err != nil {
		return err
	}
	if err := s.writeRecords(ctx, change); err != nil {
		return err
	}
	return s.scaleOperator(ctx, 1)
}

func (s *Scene) writeRecords(ctx context.Context, change func(map[string]any)) error {
	cm := &corev1.ConfigMap{}
	if err := s.lab.Client.Get(ctx, client.ObjectKey{Namespace: s.key.Namespace, Name: resources.NamesOf(s.key.Name).Members}, cm); err != nil {
		return err
	}
	was := cm.Data[resources.KeyMembers]
	var all map[string]any
	if err := json.Unmarshal([]byte(was), &all); err != nil {
		return fmt.Errorf("read the records: %w", err)
	}
	change(all)
	changed, err := json.Marshal(all)
	if err != nil {
		return err
	}
	write := func(ctx context.Context, text string) error {
		patch, err := json.Marshal(map[string]any{"data": map[string]string{resources.KeyMembers: text}})
		if err != nil {
			return err
		}
		return s.lab.Client.Patch(ctx, cm, client.RawPatch(client.Merge.Type(), patch))
	}
	s.later(func(ctx context.Context) error { return write(ctx, was) })
	return write(ctx, string(changed))
}

// beside makes another cluster of one member, which is deleted in the end.
func (s *Scene) beside(ctx context.Context, name string, change func(*v1alpha1.MySQLClusterSpec)) error {
	c, err := s.lab.Sample()
	if err != nil {
		return err
	}
	c.Namespace, c.Name = s.key.Namespace, name
	c.Spec.Replicas, c.Spec.DeletionProtection = ptr.To(int32(1)), ptr.To(false)
	c.Spec.Storage.DeletionPolicy = v1alpha1.DeletionPolicyDelete
	change(&c.Spec)
	s.later(func(ctx context.Context) error { return s.lab.Delete(ctx, client.ObjectKeyFromObject(c), handLimit) })
	return s.lab.Apply(ctx, c)
}

func restoreNothing(ctx context.Context, s *Scene) error {
	return s.beside(ctx, "restored", func(spec *v1alpha1.MySQLClusterSpec) {
		spec.Bootstrap = &v1alpha1.BootstrapSpec{Recovery: &v1alpha1.RecoverySpec{
			ObjectStore: &v1alpha1.ObjectStoreSource{Destination: *alarmBucket(), Path: "nobody/nothing/0"}, Image: kube.MySQLClientImage,
		}}
	})
}

func missingType(ctx context.Context, s *Scene) error {
	return s.beside(ctx, "refused", func(spec *v1alpha1.MySQLClusterSpec) { spec.AWS.InstanceType = "t9.medium" })
}

// fillUp reserves ever more of a replica's volume, for a minute.
func fillUp(ctx context.Context, s *Scene) error {
	id := s.Replicas[0].InstanceID
	s.undo("drain", id)
	for left := 60; left >= 10; left -= 5 {
		if err := s.do(ctx, "fill", id, fmt.Sprint(left)); err != nil {
			return err
		}
		if err := pause(ctx, 6*time.Second); err != nil {
			return err
		}
	}
	return nil
}

// soldOut terminates a replica's instance as a person with other tools does, while EC2 has no other.
func soldOut(ctx context.Context, s *Scene) error {
	if err := rules(proxy.Rule{Kind: proxy.NoCapacity})(ctx, s); err != nil {
		return err
	}
	return s.terminate(ctx, s.Replicas[0].InstanceID)
}

// deleteVolume deletes a replica with its data while its vote cannot be taken: too few others answer.
func deleteVolume(ctx context.Context, s *Scene) error {
	if err := s.freeze(ctx, s.Replicas[1]); err != nil {
		return err
	}
	if err := s.terminate(ctx, s.Replicas[0].InstanceID); err != nil {
		return err
	}
	for deadline := time.Now().Add(long); ; {
		_, err := s.aws().DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: &s.Replicas[0].VolumeID})
		if err == nil || time.Now().After(deadline) {
			return err
		}
		if err := pause(ctx, lookEvery/5); err != nil { // the operator attaches it to a new instance otherwise
			return err
		}
	}
}

// terminate ends an instance, of which the operator has EC2 refuse that.
func (s *Scene) terminate(ctx context.Context, id string) error {
	off := &ec2types.AttributeBooleanValue{Value: aws.Bool(false)}
	_, err := s.aws().ModifyInstanceAttribute(ctx, &ec2.ModifyInstanceAttributeInput{InstanceId: &id, DisableApiTermination: off})
	if err != nil {
		return err
	}
	_, err = s.aws().TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	return err
}

// aws connects to the lab's EC2 as a person with other tools does.
func (s *Scene) aws() *ec2.Client {
	return ec2.New(ec2.Options{
		Region: s.lab.Cloud.Region, BaseEndpoint: aws.String("http://" + cloud.EndpointAddress),
		Credentials: credentials.NewStaticCredentialsProvider(iam.AdministratorKeyID, "lab", ""),
	})
}

// store connects to the lab's S3 as a person with other tools does.
func (w *World) store() *s3.Client {
	return s3.New(s3.Options{
		Region: w.lab.Cloud.Region, BaseEndpoint: aws.String("http://" + cloud.EndpointAddress), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(iam.AdministratorKeyID, "lab", ""),
	})
}

// ownerDoes has the operator's account execute statements in one session of a member. The operator may do what no application may.
func (s *Scene) ownerDoes(ctx context.Context, m v1alpha1.MemberStatus, statements ...string) error {
	owner, err := s.owner(ctx)
	if err != nil {
		return err
	}
	db, err := owner.openAt(s.at(m))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %s: %w", m.Name, statement, err)
		}
	}
	return nil
}

func errant(ctx context.Context, s *Scene) error {
	if err := rules(proxy.Deny("CreateSnapshot"))(ctx, s); err != nil {
		return err
	}
	return s.ownerDoes(ctx, s.Replicas[0], "SET GLOBAL super_read_only = OFF", "CREATE DATABASE errant", "SET GLOBAL super_read_only = ON")
}

// breakReplication drops a table on a replica alone, and writes to it on the primary.
func breakReplication(ctx context.Context, s *Scene) error {
	s.tidy(func(ctx context.Context) error { return s.ownerDoes(ctx, s.Primary, "DROP TABLE IF EXISTS app.parted") })
	if err := s.ownerDoes(ctx, s.Primary, "CREATE TABLE app.parted (id INT PRIMARY KEY)"); err != nil {
		return err
	}
	if err := pause(ctx, moment); err != nil {
		return err
	}
	err := s.ownerDoes(ctx, s.Replicas[0], "SET sql_log_bin = OFF", "SET GLOBAL super_read_only = OFF", "DROP TABLE app.parted", "SET GLOBAL super_read_only = ON")
	if err != nil {
		return err
	}
	return s.ownerDoes(ctx, s.Primary, "INSERT INTO app.parted VALUES (1)")
}

// lag keeps a replica from applying for as long as it takes until a replica counts as late.
func lag(ctx context.Context, s *Scene) error {
	owner, err := s.owner(ctx)
	if err != nil {
		return err
	}
	db, err := owner.openAt(s.at(s.Replicas[0]))
	if err != nil {
		return err
	}
	s.later(func(context.Context) error { return db.Close() })
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	s.later(func(context.Context) error { return conn.Close() })
	_, err = conn.ExecContext(ctx, "LOCK TABLES app.writes READ")
	return err
}

// threeFailovers takes the power of whoever is primary, three times.
func threeFailovers(ctx context.Context, s *Scene) error {
	for i := range 3 {
		if i > 0 {
			next, err := s.scene(ctx)
			if err != nil {
				return err
			}
			s.Primary, s.Replicas = next.Primary, next.Replicas
		}
		was := s.Primary
		if err := s.do(ctx, "powercut", was.InstanceID); err != nil {
			return err
		}
		err := s.awaitOther(ctx, was.Name)
		if back := s.do(ctx, "poweron", was.InstanceID); !powerless(back) {
			err = errors.Join(err, back)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitOther waits for another primary.
func (s *Scene) awaitOther(ctx context.Context, than string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		if c, err := s.cluster(ctx); err == nil && c.Status.Primary != "" && c.Status.Primary != than {
			return nil
		}
		if err := pause(ctx, lookEvery); err != nil {
			return fmt.Errorf("nobody took over from %s: %w", than, err)
		}
	}
}

func killThrice(ctx context.Context, s *Scene) error {
	for range 3 {
		if err := s.do(ctx, "kill", s.Replicas[0].InstanceID, mysqldUnit); err != nil {
			return err
		}
		if err := pause(ctx, 2*short); err != nil {
			return err
		}
	}
	return nil
}

// spoilRestart asks for a restart of all members when mysqld of one will not start again. Its instance is exchanged in the end, as the
// operator exchanges one that is lost.
func spoilRestart(ctx context.Context, s *Scene) error {
	for _, r := range s.Replicas {
		s.later(func(ctx context.Context) error { return s.terminate(ctx, r.InstanceID) })
		if err := s.do(ctx, "spoil", r.InstanceID, "/usr/sbin/mysqld"); err != nil {
			return err
		}
	}
	return request(v1alpha1.AnnotationRestartedAt)(ctx, s)
}
