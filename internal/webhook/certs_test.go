package webhook

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestFilesFollowTheSecret: nothing, then an empty Secret, then a certificate, then a renewed one.
func TestFilesFollowTheSecret(t *testing.T) {
	key := types.NamespacedName{Namespace: "system", Name: "cert"}
	cluster := fake.NewFakeClient()
	clock := clocktesting.NewFakeClock(time.Time{})
	folder := filepath.Join(t.TempDir(), "serving-certs")
	files := &certFiles{reader: cluster, key: key, dir: folder, clock: clock}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- files.Start(ctx) }()

	look := func(step time.Duration) {
		t.Helper()
		err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return clock.HasWaiters(), nil })
		if err != nil {
			t.Fatalf("it no longer looks: %v", err)
		}
		clock.Step(step)
		err = wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return clock.HasWaiters(), nil })
		if err != nil {
			t.Fatalf("it no longer looks: %v", err)
		}
	}
	read := func() string {
		key, _ := os.ReadFile(filepath.Join(folder, corev1.TLSPrivateKeyKey))
		cert, _ := os.ReadFile(filepath.Join(folder, corev1.TLSCertKey))
		return string(cert) + "/" + string(key)
	}

	look(firstLook)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if err := ensureSecret(cluster, key); err != nil {
		t.Fatal(err)
	}
	if err := ensureSecret(cluster, key); err != nil {
		t.Fatalf("a second time: %v", err)
	}
	look(firstLook)
	if got := read(); got != "/" {
		t.Fatalf("wrote %s of an empty Secret", got)
	}
	put(t, cluster, secret, "1")
	look(firstLook)
	if got := read(); got != "cert1/key1" {
		t.Fatalf("the files are %s", got)
	}
	put(t, cluster, secret, "2")
	look(laterLook)
	if got := read(); got != "cert2/key2" {
		t.Fatalf("the files are %s after the renewal", got)
	}
	if info, err := os.Stat(filepath.Join(folder, corev1.TLSPrivateKeyKey)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the key: %v, %v", info, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func put(t *testing.T, cluster client.Client, secret *corev1.Secret, content string) {
	t.Helper()
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
		t.Fatal(err)
	}
	secret.Data = map[string][]byte{corev1.TLSCertKey: []byte("cert" + content), corev1.TLSPrivateKeyKey: []byte("key" + content)}
	if err := cluster.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
}
