package cloud_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/internal/bootstrap"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/releasekeys"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
)

// The operator's own user data brings up a member: it waits for the volume,
// which comes later, makes a file system and a database on it, and answers on
// 3306; after a power cut it does so again.
func TestCloudMember(t *testing.T) {
	const uid = "0b4dcd2c-7f2a-4f1e-9d3c-3a8c0d2b9f10"
	l := startLab(t)
	version := must[string](t)(l.MySQLVersion(t.Context()))
	authority := must[*pki.Authority](t)(pki.NewAuthority(uid, "orders", time.Now()))
	volume := l.volume(2, nil)
	userData := must[[]byte](t)(bootstrap.Render(bootstrap.Input{
		ClusterUID: uid, Namespace: "shop", Cluster: "orders", Member: "orders-0", Incarnation: 1, VolumeIncarnation: 1,
		Version: version, Download: bootstrap.Download{Keys: releasekeys.MySQL()}, VolumeID: volume, CAPEM: authority.CertificatePEM(),
		JoinToken: authority.JoinToken("orders-0", 1), IssuerDN: authority.IssuerDN(), OperatorDN: authority.OperatorDN(),
		Settings: map[string]string{
			"innodb_buffer_pool_size": "33554432", "innodb_redo_log_capacity": "16777216", "max_connections": "60",
		},
	}))
	out := must[*ec2.RunInstancesOutput](t)(l.client.RunInstances(t.Context(), &ec2.RunInstancesInput{
		ImageId: aws.String(l.Seeded().Image), InstanceType: "m6i.large",
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: aws.String(l.Seeded().Subnets[moto.Zones[0].Name]),
		UserData: aws.String(base64.StdEncoding.EncodeToString(userData)),
		MetadataOptions: &types.InstanceMetadataOptionsRequest{
			HttpTokens: types.HttpTokensStateRequired, HttpPutResponseHopLimit: aws.Int32(1),
		},
	}))
	id := aws.ToString(out.Instances[0].InstanceId)
	l.awaitState(id, "running")
	l.attach(volume, id, "/dev/sdf")
	started := func() {
		t.Helper()
		l.eventually("stage started", func() bool {
			text, err := l.Console(id)
			stage := bootstrap.ReadConsole(text).Stage
			if strings.HasPrefix(stage, "failed") {
				t.Fatalf("the bootstrap says: %s\n%s", stage, text)
			}
			return err == nil && stage == bootstrap.StageStarted && l.power(id) && l.dial(id) == nil
		})
		t.Log(l.in(id, "ps -o rss=,args= -C mysqld; df -h /var/lib/nairobi-mysql | tail -1"))
	}
	started()
	if err := l.PowerCut(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	l.eventually("off", func() bool { return !l.power(id) })
	if err := l.PowerOn(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	l.eventually("on", func() bool { return l.power(id) })
	started()
}
