package doctor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/doctor"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

// TestOfWhatIsWell: in an installation that is well nothing fails, nothing is warned of, nothing is changed, and little is not checked.
func TestOfWhatIsWell(t *testing.T) {
	w := newWorld(t)
	w.apply()
	r := w.doctor().Run(t.Context())
	for _, f := range r.Findings {
		if f.Verdict != doctor.OK && f.Check != "iam-change" {
			t.Errorf("%+v", f)
		}
		t.Logf("%-12s %-18s %s", f.Verdict, f.Check, f.Seen)
	}
	if r.Failed != 0 || r.Warnings != 0 {
		t.Errorf("%d failed, %d warnings", r.Failed, r.Warnings)
	}
	for _, call := range w.proxy.Calls() {
		reads := strings.HasPrefix(call.Action, "Describe") || strings.HasPrefix(call.Action, "Get") || call.Action == "GET"
		if !call.DryRun && !reads {
			t.Errorf("%s %s was called for real", call.Service, call.Action)
		}
	}
	var text, encoded bytes.Buffer
	if err := r.WriteText(&text); err != nil || strings.Count(text.String(), "\n") != len(r.Findings)+1 {
		t.Errorf("%v, text of %d findings:\n%s", err, len(r.Findings), text.String())
	}
	var back doctor.Report
	if err := r.WriteJSON(&encoded); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(encoded.Bytes(), &back); err != nil || len(back.Findings) != len(r.Findings) || back.Findings[0] != r.Findings[0] {
		t.Errorf("JSON does not come back: %v, %s", err, encoded.String())
	}
}

// verdicts are those of a report, by check.
func verdicts(r doctor.Report) map[string]doctor.Finding {
	out := map[string]doctor.Finding{}
	for _, f := range r.Findings {
		out[f.Check] = f
	}
	return out
}

// TestSpendLeavesNothing: the probes make a volume and an object for real and remove them, and what a killed run left.
func TestSpendLeavesNothing(t *testing.T) {
	w := newWorld(t)
	w.what.Spend = true
	w.apply()
	left, err := sdk().CreateVolume(t.Context(), &awsec2.CreateVolumeInput{AvailabilityZone: aws.String("us-east-1a"), Size: aws.Int32(1), TagSpecifications: []types.TagSpecification{{
		ResourceType: types.ResourceTypeVolume, Tags: []types.Tag{{Key: aws.String(v1alpha1.TagClusterUID), Value: aws.String("nairobi-doctor")}}}}})
	must(t, err)
	found := verdicts(w.doctor().Run(t.Context()))
	for _, check := range []string{"probe-volume", "bucket-write"} {
		if found[check].Verdict != doctor.OK {
			t.Errorf("%+v", found[check])
		}
	}
	created := 0
	for _, call := range w.proxy.Calls() {
		if call.Action == "CreateVolume" && !call.DryRun {
			created++
		}
	}
	if created != 1 {
		t.Errorf("%d volumes were created", created)
	}
	w.nothingLeft()
	if volumes, err := sdk().DescribeVolumes(t.Context(), &awsec2.DescribeVolumesInput{Filters: []types.Filter{{Name: aws.String("volume-id"), Values: []string{*left.VolumeId}}}}); err != nil || len(volumes.Volumes) > 0 {
		t.Errorf("the volume of an earlier run is left: %v, %v", volumes, err)
	}
	objects, err := bucketClient().ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String(bucket)})
	if err != nil || len(objects.Contents) > 0 {
		t.Errorf("objects are left: %v, %v", objects, err)
	}
}

// TestInterruptedProbe: an interrupt while the volume is being made ends the run, and the volume is deleted all the same.
func TestInterruptedProbe(t *testing.T) {
	w := newWorld(t)
	w.what.Spend = true
	w.apply()
	ctx, interrupt := context.WithCancel(t.Context())
	must(t, server.Hold(t.Context(), true))
	released := make(chan error, 1)
	go func() {
		w.until(func() bool { return len(w.probes()) > 0 })
		interrupt()
		time.Sleep(time.Second)
		released <- server.Hold(t.Context(), false)
	}()
	r := w.doctor().Run(ctx)
	must(t, <-released)
	if last := r.Findings[len(r.Findings)-1]; last.Check != "probe-volume" || last.Verdict != doctor.Failed {
		t.Errorf("the last finding is %+v", last)
	}
	w.nothingLeft()
}

// TestWithoutClusters: the installation and the operator's own account are checked, and the webhook by a dry run of a create.
func TestWithoutClusters(t *testing.T) {
	w := newWorld(t)
	w.what.Clusters = nil
	w.makes(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: v1alpha1.PolicyConfigMap}, Data: map[string]string{"policy.yaml": allowing}})
	r := w.doctor().Run(t.Context())
	found := verdicts(r)
	for _, check := range []string{"crds", "rbac", "webhook", "identity", "clock", "iam-read", "imds-default"} {
		if found[check].Verdict != doctor.OK {
			t.Errorf("%+v", found[check])
		}
	}
	if !strings.Contains(found["webhook"].Seen, "dry run of create") || found["clusters"].Verdict != doctor.NotChecked || r.Failed > 0 {
		t.Errorf("%+v", r)
	}
	w.what.Clusters = []string{"nobodys"}
	if f := verdicts(w.doctor().Run(t.Context()))["clusters"]; f.Verdict != doctor.Failed || !strings.Contains(f.Seen, "nobodys") {
		t.Errorf("%+v", f)
	}
}

// TestWithoutItsOwnPolicy: with the operator's permissions alone, what needs more is not checked, and the permission is named.
func TestWithoutItsOwnPolicy(t *testing.T) {
	w := newWorld(t)
	w.cluster.Spec.Storage.KMSKeyID = w.disabledKey()
	w.apply()
	for service, actions := range map[string][]string{"ec2": {"DescribeRouteTables", "DescribeNetworkAcls"}, "kms": {"DescribeKey"}} {
		w.fault(proxy.Rule{Kind: proxy.Fail, Service: service, Code: map[string]string{"ec2": "UnauthorizedOperation", "kms": "AccessDeniedException"}[service], Actions: actions, Status: http.StatusBadRequest})
	}
	found := verdicts(w.doctor().Run(t.Context()))
	for check, action := range map[string]string{"subnet-routes": "ec2:DescribeRouteTables", "network-acls": "ec2:DescribeNetworkAcls", "kms-key": "kms:DescribeKey"} {
		if f := found[check]; f.Verdict != doctor.NotChecked || !strings.Contains(f.Change, action) {
			t.Errorf("%+v", f)
		}
	}
}

// TestAccountThatIsNotLent: what the policy does not allow a namespace is not used by the doctor either.
func TestAccountThatIsNotLent(t *testing.T) {
	w := newWorld(t)
	w.policy = strings.Replace(allowing, "operatorCredentials: true", "operatorCredentials: false", 1)
	w.apply()
	found := verdicts(w.doctor().Run(t.Context()))
	if f := found["policy-allows"]; f.Verdict != doctor.Failed || !strings.Contains(f.Seen, "may not use the operator's own AWS credentials") {
		t.Errorf("%+v", f)
	}
	if f := found["subnets"]; f.Verdict != doctor.NotChecked {
		t.Errorf("%+v", f)
	}
	for _, call := range w.proxy.Calls() {
		if call.Service == "ec2" || call.Service == "sts" {
			t.Errorf("%s was called", call.Action)
		}
	}
}

// TestManifest: what is no MySQLCluster is left alone, and a typing mistake is not.
func TestManifest(t *testing.T) {
	const cluster = "kind: MySQLCluster\nmetadata: {name: orders}\nspec: {version: 8.4.6}\n"
	for name, row := range map[string]struct {
		text, want string
		clusters   int
	}{
		"one":              {cluster, "", 1},
		"with others":      {"kind: Secret\nstringData: {a: b}\n---\n" + cluster + "---\n" + cluster, "", 2},
		"none":             {"kind: Secret\n", "there is no MySQLCluster in it", 0},
		"a typing mistake": {strings.Replace(cluster, "version", "versions", 1), "versions", 0},
	} {
		got, err := doctor.ReadManifest(strings.NewReader(row.text))
		switch {
		case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)), row.want == "" && err != nil, len(got) != row.clusters:
			t.Errorf("%s: %d clusters, %v", name, len(got), err)
		case row.clusters > 0 && (got[0].Namespace != "default" || got[0].UID == ""):
			t.Errorf("%s: %+v", name, got[0].ObjectMeta)
		}
	}
}
