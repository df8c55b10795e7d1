package pod

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
)

// TestKeysOfTheBucket: a destination that names a Secret is opened with what that says and nothing else. Where a key is missing or
// empty, the identity of the pod or its node does not take its place.
func TestKeysOfTheBucket(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "ambient")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "ambient")
	d := v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{Bucket: "backups", CredentialsSecretRef: &v1alpha1.LocalSecretReference{Name: "keys"}}}
	for name, c := range map[string]struct {
		id, secret *string
		denied     bool
	}{
		"whole":                     {new("AKIA/+="), new("s3cr\"et'/+="), false},
		"with line breaks":          {new("AKIA\r\n"), new("secret\n"), false},
		"no id":                     {nil, new("secret"), true},
		"no secret":                 {new("AKIA"), nil, true},
		"an empty id":               {new(""), new("secret"), true},
		"an empty secret":           {new("AKIA"), new(""), true},
		"an id that is a line end":  {new("\n"), new("secret"), true},
		"a secret that is one, too": {new("AKIA"), new("\r\n"), true},
	} {
		dir := t.TempDir()
		for key, value := range map[string]*string{task.KeyAccessKeyID: c.id, task.KeySecretAccessKey: c.secret} {
			if value == nil {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, key), []byte(*value), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := openStore(t.Context(), d, dir, "us-east-1", "test")
		if denied := errors.Is(err, store.ErrDenied); denied != c.denied || !denied && (err != nil || s == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTheKeyOfTheEncryption: every object of a backup is stored with the KMS key that the destination names.
func TestTheKeyOfTheEncryption(t *testing.T) {
	const kmsKey = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
	s := newScene(t)
	s.make("b")
	dir := t.TempDir()
	for _, key := range []string{task.KeyAccessKeyID, task.KeySecretAccessKey} {
		must(t, os.WriteFile(filepath.Join(dir, key), []byte("lab"), 0o600))
	}
	w := s.pod("b", task.Task{Backup: "b"})
	d := w.task.Destination
	d.S3.Endpoint, d.S3.KMSKeyID, d.S3.CredentialsSecretRef = cloud.Endpoint(), kmsKey, &v1alpha1.LocalSecretReference{Name: "keys"}
	var err error
	w.place.Store, err = openStore(t.Context(), *d, dir, "us-east-1", "test")
	must(t, err)
	must(t, w.backup(t.Context()))
	path := s.read("b").Status.Path
	for _, name := range strings.Fields(wholeBackup) {
		head, err := bucketAPI().HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: &s.namespace, Key: new("mysql/" + path + "/" + name)})
		must(t, err)
		if head.ServerSideEncryption != types.ServerSideEncryptionAwsKms || head.SSEKMSKeyId == nil || *head.SSEKMSKeyId != kmsKey {
			t.Errorf("%s is encrypted by %q with %v", name, head.ServerSideEncryption, head.SSEKMSKeyId)
		}
	}
}
