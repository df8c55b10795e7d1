package pod

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/versitygw"
)

// TestAnotherS3OverTLS: pods back up to another implementation of S3, whose certificate is of an authority of its own, verify what they
// stored there, and restore it.
func TestAnotherS3OverTLS(t *testing.T) {
	gateway, err := versitygw.Start(t.Context())
	must(t, err)
	t.Cleanup(func() { must(t, gateway.Stop()) })
	programs, err := mysqld.HostPrograms(t.Context())
	must(t, err)
	s := newScene(t)
	must(t, gateway.MakeBucket(t.Context(), s.namespace))
	keys := t.TempDir()
	for key, value := range map[string]string{task.KeyAccessKeyID: versitygw.AccessKeyID, task.KeySecretAccessKey: versitygw.SecretAccessKey} {
		must(t, os.WriteFile(filepath.Join(keys, key), []byte(value), 0o600))
	}
	s.store, err = openStore(t.Context(), v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{
		Bucket: s.namespace, Prefix: "mysql", Endpoint: gateway.Endpoint, CABundle: gateway.CABundle, CredentialsSecretRef: &v1alpha1.LocalSecretReference{Name: "keys"},
	}}, keys, versitygw.Region, "test")
	must(t, err)
	path := s.taken("b")
	if got := s.stored(); got != wholeBackup {
		t.Errorf("stored are %s", got)
	}

	s.reportIn("orders-verify")
	verifier := s.pod("orders-verify-1", task.Task{Report: "orders-verify"})
	verifier.program, verifier.workDir = programs, short(t)
	must(t, verifier.verify(t.Context()))
	if v := s.read("b").Status.Verification; v == nil || v.Result != v1alpha1.VerificationPassed {
		t.Errorf("it is %+v", v)
	}

	into := fresh(t)
	s.reportIn("orders-recovery")
	must(t, s.restorer(path, into).restore(t.Context()))
	if got := rows(t, into); got != "1,2,3" {
		t.Errorf("restored are %s", got)
	}
}
