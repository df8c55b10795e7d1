package webhook

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// What the operator may do besides, where it makes the certificate itself; generated into config/webhook-certificates. The CA
// is written into our own configuration, and the certificate into our own Secret; a list cannot be bound to a name.
//
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=nairobi-mysql-webhook-cert,namespace=nairobi-mysql-system,verbs=update
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,verbs=get;list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=nairobi-mysql-validating-webhook-configuration,verbs=update;patch

// Names of the objects under config/webhook, and of the Secret that the operator makes.
const (
	ServiceName       = "nairobi-mysql-webhook-service"
	ConfigurationName = "nairobi-mysql-validating-webhook-configuration"
	CertSecretName    = "nairobi-mysql-webhook-cert"
)

const (
	// secretTimeout bounds making the Secret before the manager starts.
	secretTimeout = 10 * time.Second
	// firstLook is how often the Secret is read until it holds a certificate: the operator is not ready before.
	firstLook = time.Second
	// laterLook is how often it is read afterwards. A certificate is renewed 90 days before its end.
	laterLook = time.Minute
)

// manageCertificates has the library's rotator make and renew a CA and a serving certificate in a Secret and write the
// CA into the webhook configuration. The channel is closed when the certificate can be served.
//
// The library expects the Secret to exist and to be mounted at CertDir. A mount follows its Secret after a minute or so;
// certFiles brings the files at once instead, so that the operator is ready within seconds of its first start.
func manageCertificates(mgr ctrl.Manager, o Options) (<-chan struct{}, error) {
	direct, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	key := types.NamespacedName{Namespace: o.Namespace, Name: CertSecretName}
	if err := ensureSecret(direct, key); err != nil {
		return nil, err
	}
	ready := make(chan struct{})
	host := ServiceName + "." + o.Namespace + ".svc"
	if err := rotator.AddRotator(mgr, &rotator.CertRotator{
		SecretKey:      key,
		CertDir:        o.CertDir,
		CAName:         "nairobi-mysql-webhook-ca",
		CAOrganization: v1alpha1.FieldManager,
		DNSName:        host,
		ExtraDNSNames:  []string{ServiceName + "." + o.Namespace},
		IsReady:        ready,
		Webhooks:       []rotator.WebhookInfo{{Name: ConfigurationName, Type: rotator.Validating}},
		FieldOwner:     v1alpha1.FieldManager,
	}); err != nil {
		return nil, fmt.Errorf("add the rotator: %w", err)
	}
	files := &certFiles{reader: mgr.GetAPIReader(), key: key, dir: o.CertDir, clock: clock.RealClock{}}
	return ready, mgr.Add(files)
}

// ensureSecret makes the Secret, empty, unless it is there.
func ensureSecret(c client.Client, key types.NamespacedName) error {
	ctx, cancel := context.WithTimeout(context.Background(), secretTimeout)
	defer cancel()
	err := c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name,
		Labels: map[string]string{v1alpha1.LabelName: "nairobi-mysql-operator", v1alpha1.LabelComponent: "webhook"},
	}}, client.FieldOwner(v1alpha1.FieldManager))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make Secret %s: %w", key, err)
	}
	return nil
}

// certFiles keeps the files of the serving certificate as the Secret has them; the webhook server watches the files.
type certFiles struct {
	reader client.Reader
	key    types.NamespacedName
	dir    string
	clock  clock.Clock
}

var _ manager.LeaderElectionRunnable = (*certFiles)(nil)

// NeedLeaderElection is false: every replica serves the webhook.
func (f *certFiles) NeedLeaderElection() bool { return false }

// Start copies the certificate whenever it changed, until ctx ends. A failure to read is tried again; a folder that
// cannot be written ends the operator, for it will not heal.
func (f *certFiles) Start(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("webhook-certificate")
	for {
		wait := firstLook
		var secret corev1.Secret
		if err := f.reader.Get(ctx, f.key, &secret); err != nil {
			log.V(1).Info("read the Secret again later", "secret", f.key, "error", err.Error())
		} else if len(secret.Data[corev1.TLSCertKey]) > 0 && len(secret.Data[corev1.TLSPrivateKeyKey]) > 0 {
			if err := f.write(secret.Data); err != nil {
				return fmt.Errorf("write the webhook's certificate: %w", err)
			}
			wait = laterLook
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.clock.After(wait):
		}
	}
}

// write puts the key before the certificate, because the certificate's arrival is what the rotator waits for.
func (f *certFiles) write(data map[string][]byte) error {
	for _, name := range []string{corev1.TLSPrivateKeyKey, corev1.TLSCertKey} {
		path := filepath.Join(f.dir, name)
		if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, data[name]) { //nolint:gosec // a fixed folder and two fixed names
			continue
		}
		if err := os.MkdirAll(f.dir, 0o700); err != nil {
			return err
		}
		fresh := path + ".new"
		if err := os.WriteFile(fresh, data[name], 0o600); err != nil {
			return err
		}
		if err := os.Rename(fresh, path); err != nil {
			return err
		}
	}
	return nil
}
