package controllers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/iam"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// inheritance is what a volume of another cluster of the same name holds: rows, the row of its voters, and accounts that its
// authority vouched for.
var inheritance = []string{
	"CREATE DATABASE nairobi_mysql",
	`CREATE TABLE nairobi_mysql.membership (id TINYINT UNSIGNED NOT NULL PRIMARY KEY, epoch BIGINT UNSIGNED NOT NULL, leader VARCHAR(64) NOT NULL,
		voters JSON NOT NULL, previous JSON NOT NULL, w TINYINT UNSIGNED NOT NULL, CONSTRAINT one_row CHECK (id = 1)) ENGINE=InnoDB`,
	`INSERT INTO nairobi_mysql.membership VALUES (1, 7, 'orders-1', '["orders-0", "orders-1", "orders-2"]', '[]', 1)`,
	"CREATE USER 'nairobi_backup'@'%' REQUIRE ISSUER '/CN=gone'",
	"CREATE DATABASE heirloom",
	"CREATE TABLE heirloom.t (id INT PRIMARY KEY)",
	"INSERT INTO heirloom.t VALUES (1), (2), (3)",
}

// inherit puts it onto the first member's server, under the GTIDs of the one that wrote it.
func inherit(ctx context.Context, in inventory.Instance, s *mysqld.Server) error {
	if in.Member != "orders-0" {
		return nil
	}
	statements := "SET GLOBAL super_read_only = OFF;\n"
	for i, statement := range inheritance {
		statements += fmt.Sprintf("SET gtid_next = '3e11fa47-71ca-11e1-9e33-c80aa9429562:%d';\n%s;\n", i+1, statement)
	}
	_, err := s.SQL(ctx, statements+"SET gtid_next = AUTOMATIC;\nSET GLOBAL super_read_only = ON;\n")
	return err
}

// newHeirs is a world with real servers whose cluster begins with a snapshot, of which the snapshot alone is left.
func newHeirs(t *testing.T, farm *mysqld.Farm, furnish func(context.Context, inventory.Instance, *mysqld.Server) error) *sqlWorld {
	t.Helper()
	// The snapshot has no tag of a cluster: as docs/aws.md says, whoever restores from such a one allows it.
	in := &world{t: t, account: newAccount(t, serial.Add(1)),
		besides: []iam.Statement{{Effect: "Allow", Action: iam.OneOrMany{"ec2:CreateVolume"}, Resource: iam.OneOrMany{"arn:aws:ec2:*:*:snapshot/*"}}}}
	return newSQLWorldIn(in, farm, furnish, func(c *v1alpha1.MySQLCluster) {
		ctx, api := t.Context(), in.account.api
		v, err := api.CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: aws.String(moto.Zones[0].Name), Size: aws.Int32(8)})
		must(t, err)
		var s *awsec2.CreateSnapshotOutput
		tag := types.Tag{Key: aws.String(v1alpha1.TagNamespace), Value: aws.String(c.Namespace)}
		for deadline := time.Now().Add(patience); s == nil && time.Now().Before(deadline); time.Sleep(motoDelay) {
			s, err = api.CreateSnapshot(ctx, &awsec2.CreateSnapshotInput{VolumeId: v.VolumeId, TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeSnapshot, Tags: []types.Tag{tag}}}})
		}
		must(t, err)
		_, err = api.DeleteVolume(ctx, &awsec2.DeleteVolumeInput{VolumeId: v.VolumeId})
		must(t, err)
		c.Spec.Bootstrap = &v1alpha1.BootstrapSpec{Recovery: &v1alpha1.RecoverySpec{SnapshotID: aws.ToString(s.SnapshotId)}}
	})
}

// holdsTheHeirloom makes sure that every member has what was inherited, and nothing of who wrote it.
func (w *sqlWorld) holdsTheHeirloom() {
	w.t.Helper()
	for _, s := range w.running() {
		out, err := s.SQL(w.t.Context(), `SELECT CONCAT((SELECT COUNT(*) FROM heirloom.t), ' ', (SELECT COUNT(*) FROM mysql.user WHERE User = 'nairobi_backup'), ' ',
			GTID_SUBSET('3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7', @@gtid_executed));`)
		if err != nil || out != "3 0 1" {
			w.t.Errorf("%s holds %q (%v)", s.Name, out, err)
		}
	}
	if text := w.condition(v1alpha1.ConditionRecovered); !strings.HasPrefix(text, "True/Recovered") {
		w.t.Errorf("Recovered is %s", text)
	}
}

// TestCrashSweepOverACopysStatements kills the operator before and after each statement by which it makes a copy the cluster's
// own, and loses the answer of each. And a copy that holds nothing is never what a cluster begins with.
func TestCrashSweepOverACopysStatements(t *testing.T) {
	t.Parallel()
	share, seed := intFrom(t, sweepShareVariable, 8), intFrom(t, sweepSeedVariable, int(time.Now().Unix()))
	farm, err := mysqld.NewPrivateFarm(t.Context(), t.Output(), moto.VPCCIDR)
	must(t, err)
	t.Cleanup(func() { must(t, farm.Close()) })
	t.Run("nothing", func(t *testing.T) {
		w := newHeirs(t, farm, nil)
		o := w.newSQLOperator(&operator{}, nil)
		w.drive(o, sqlPatience, w.conditionHas(v1alpha1.ConditionRecovered, "False/RecoveryFailed", "has executed no transaction"))
		w.passes(o, 5)
		for _, s := range w.running() {
			if out, err := s.SQL(t.Context(), "SELECT CONCAT(@@read_only, @@super_read_only, @@gtid_executed);"); err != nil || out != "11" {
				t.Errorf("%s: %q, %v", s.Name, out, err)
			}
		}
	})
	var whole *knife
	if !t.Run("uncut", func(t *testing.T) {
		w := newHeirs(t, farm, inherit)
		whole = w.life(0, diesBefore)
		w.settle(whole.operator)
		w.holdsTheHeirloom()
	}) {
		return
	}
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	tried := 0
	for _, how := range cuts {
		done := whole.ended
		if how == diesBefore {
			done = whole.began
		}
		seen := map[string]int{}
		for _, op := range done {
			seen[op]++
			at := seen[op]
			if !strings.HasPrefix(op, "adopt/") || random.IntN(share) != 0 {
				continue
			}
			tried++
			t.Run(fmt.Sprintf("%s %s", how, op), func(t *testing.T) {
				t.Parallel()
				w := newHeirs(t, farm, inherit)
				k := w.lifeOf(op, at, how)
				// Whether it is said again depends on how soon a pass sees that it was, and on time-outs: on the instance.
				if k.cut == "" && at == 1 {
					t.Errorf("%s was never said", op)
				}
				w.survive(k)
				w.holdsTheHeirloom()
			})
		}
	}
	t.Logf("%d cuts tried, seed %d (repeat with %s=%d)", tried, seed, sweepSeedVariable, seed)
}
