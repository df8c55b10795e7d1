package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
)

// Where the serving certificate comes from: the values of --webhook-certs.
const (
	// CertificatesSelf: the operator makes a CA and a certificate, keeps them in a Secret and writes the CA into the
	// webhook configuration.
	CertificatesSelf = "self"
	// CertificatesExternal: somebody else (OLM, cert-manager) mounts tls.crt and tls.key at CertDir and takes care of the
	// webhook configuration.
	CertificatesExternal = "external"
	// CertificatesNone: there is no webhook.
	CertificatesNone = "none"
)

// CertDir is where the webhook server looks for tls.crt and tls.key; OLM mounts them exactly here. With
// CertificatesSelf it must be a folder that the operator may write (an emptyDir).
const CertDir = "/tmp/k8s-webhook-server/serving-certs"

// validatePath is where the API server finds the validator; the markers of Validator have it too.
const validatePath = "/validate-mysql-alx-ke-v1alpha1-mysqlcluster"

// ErrCertificates is wrapped by SetUp's error for a source that there is not.
var ErrCertificates = errors.New("unknown source of webhook certificates")

// errNotReady is what the readiness check says until the webhook serves.
var errNotReady = errors.New("the webhook's certificate is not ready yet")

// Options of SetUp.
type Options struct {
	// Certificates is one of the Certificates constants.
	Certificates string
	// Namespace of the operator: of the webhook's Service, of the Secret with its certificate, and of the policy.
	Namespace string
	// CertDir, unless it is the constant of that name; the manager's webhook server must have the same.
	CertDir string
}

// SetUp makes the manager serve the webhook. The checker that it returns is for /readyz; it fails until the webhook
// serves. Nobody else may ask the manager for its webhook server before that: asking starts it, and without a
// certificate it ends the manager.
func SetUp(mgr ctrl.Manager, o Options) (healthz.Checker, error) {
	if o.CertDir == "" {
		o.CertDir = CertDir
	}
	switch o.Certificates {
	case CertificatesNone:
		return healthz.Ping, nil
	case CertificatesExternal:
		register(mgr, o.Namespace)
		return mgr.GetWebhookServer().StartedChecker(), nil
	case CertificatesSelf:
		ready, err := manageCertificates(mgr, o)
		if err != nil {
			return nil, fmt.Errorf("manage the webhook's certificate: %w", err)
		}
		starter := &lateStarter{mgr: mgr, ready: ready, namespace: o.Namespace}
		return starter.check, mgr.Add(starter)
	default:
		return nil, fmt.Errorf("%w: %q; there are %s, %s and %s", ErrCertificates, o.Certificates,
			CertificatesSelf, CertificatesExternal, CertificatesNone)
	}
}

func register(mgr ctrl.Manager, namespace string) {
	validator := &Validator{Policy: func(ctx context.Context) (policy.Policy, error) {
		var cm corev1.ConfigMap
		key := client.ObjectKey{Namespace: namespace, Name: v1alpha1.PolicyConfigMap}
		if err := mgr.GetClient().Get(ctx, key, &cm); client.IgnoreNotFound(err) != nil {
			return policy.Policy{}, fmt.Errorf("read the policy: %w", err)
		}
		return policy.Parse(cm.Data)
	}}
	// Not by controller-runtime's builder: it looks at the server's mux without a lock, while the manager, which runs already, starts it.
	mgr.GetWebhookServer().Register(validatePath, admission.WithValidator(mgr.GetScheme(), validator))
}

// lateStarter starts the webhook server once there is a certificate to serve with.
type lateStarter struct {
	mgr       ctrl.Manager
	ready     <-chan struct{}
	namespace string
	started   atomic.Bool
}

var _ manager.LeaderElectionRunnable = (*lateStarter)(nil)

// NeedLeaderElection is false: every replica serves the webhook.
func (s *lateStarter) NeedLeaderElection() bool { return false }

// Start waits for the certificate and hands the webhook server to the manager.
func (s *lateStarter) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.ready:
	}
	register(s.mgr, s.namespace)
	s.started.Store(true)
	return nil
}

func (s *lateStarter) check(request *http.Request) error {
	if !s.started.Load() {
		return errNotReady
	}
	return s.mgr.GetWebhookServer().StartedChecker()(request)
}
