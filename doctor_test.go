package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/internal/manager"
)

// TestUsage: a wrong command line has another exit code than a check that failed.
func TestUsage(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	for _, arguments := range [][]string{{"--output=xml"}, {"--nonsense"}, {"spend"}, {"--manifest=/nonexistent"}, nil} {
		var out, errors bytes.Buffer
		if code := runDoctor(t.Context(), arguments, manager.Build{}, &out, &errors); code != exitUsage || errors.Len() == 0 || out.Len() > 0 {
			t.Errorf("%v: %d, %q, %q", arguments, code, out.String(), errors.String())
		}
	}
}

// TestDoctorFlags: what the flags mean.
func TestDoctorFlags(t *testing.T) {
	f, err := parseDoctorFlags([]string{"--cluster=a", "--cluster=shop/b", "--webhook-certs=external", "--aws-region=eu-west-1", "--spend"}, io.Discard)
	if err != nil || strings.Join(f.what.Clusters, " ") != "a shop/b" || !f.what.Webhook || f.what.OwnCertificates || !f.what.Spend || f.operator.AWSRegion != "eu-west-1" {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err := parseDoctorFlags([]string{"--webhook-certs=none"}, io.Discard); err != nil || f.what.Webhook || f.what.Spend {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestSampleJob runs the doctor with flags that there are.
func TestSampleJob(t *testing.T) {
	text, err := os.ReadFile("config/samples/doctor.yaml")
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(string(text), "\n---\n")
	var job batchv1.Job
	if err := yaml.UnmarshalStrict([]byte(documents[len(documents)-1]), &job); err != nil {
		t.Fatal(err)
	}
	pod := job.Spec.Template.Spec
	arguments := pod.Containers[0].Args
	if pod.ServiceAccountName != "nairobi-mysql-controller-manager" || arguments[0] != commandDoctor {
		t.Errorf("%s runs %v", pod.ServiceAccountName, arguments)
	}
	if _, err := parseDoctorFlags(arguments[1:], io.Discard); err != nil {
		t.Error(err)
	}
}
