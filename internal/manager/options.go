package manager

import (
	"context"
	"net"
	"net/http"
	"slices"
	"time"
	"unique"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/leader"
)

const (
	// Timings of the lease. A write to AWS that is not idempotent may take awsCallTimeout, less than the time between the moment at
	// which a leader that cannot renew gives up and the one at which another may take over.
	leaseDuration  = leader.Duration
	renewDeadline  = 10 * time.Second
	retryPeriod    = 1 * time.Second // a follower waits up to 2.2 of it: client-go adds jitter
	awsCallTimeout = 4 * time.Second

	sqlDialTimeout      = 2 * time.Second
	sqlStatementTimeout = 5 * time.Second
	shutdownTimeout     = 10 * time.Second
	// sqlMaxAnswer is how many bytes a member may answer to one statement. A look reads some kilobytes, and GTID sets; the longest list is
	// that of 100,000 sessions, the most that MySQL admits, at 20 bytes each. The operator's memory is shared by all clusters.
	sqlMaxAnswer = 2 << 20

	// wakeLength is how many clusters may wait to be looked at at once. What does not fit is looked at in its turn.
	wakeLength = 1024
)

// Options are what an administrator chooses, by flags.
type Options struct {
	// Build is what AWS and the metrics are told.
	Build  Build
	Logger logr.Logger

	// Namespace is that of the operator, of its lease and of the administrator's policy.
	Namespace string
	// ClusterDomain is the DNS domain of Services.
	ClusterDomain string
	// ProbeThroughService lets the availability probe dial the primary Service, as clients do, instead of the primary's
	// address.
	ProbeThroughService bool
	// Workers is how many clusters are reconciled side by side.
	Workers int
	// LeaderElection lets one of several replicas act at a time.
	LeaderElection bool

	// MetricsAddress and ProbeAddress are where metrics and /healthz, /readyz are served; "0" for nowhere.
	MetricsAddress, ProbeAddress string
	// SecureMetrics serves metrics over TLS to authenticated and authorised clients only.
	SecureMetrics bool
	// WebhookCertificates is one of the Certificates constants of internal/webhook.
	WebhookCertificates string

	// OperatorCondition names the object by which OLM is told when not to replace the operator; empty where there is no OLM.
	OperatorCondition string

	// AWSRegion is that of the operator's own calls; AWSEndpoint takes all calls instead of AWS. Both may be empty.
	AWSRegion, AWSEndpoint string

	// PodImage is the operator's own image, which backup pods copy its program from.
	PodImage string
	// ClientImage is what backup pods run where a spec names no image; {version} in it stands for the cluster's version.
	ClientImage string

	// Surroundings are for benchmarks. The zero value is the real world.
	Surroundings Surroundings
}

// Surroundings replace, or listen to, what the operator talks to. Every field may be left empty.
type Surroundings struct {
	// Registry takes the operator's own metrics instead of the one that is served.
	Registry prometheus.Registerer
	// Clock is the reconciler's.
	Clock clock.PassiveClock
	// Client and Reader wrap the reconciler's ways to Kubernetes, AWS the transport of calls to AWS.
	Client func(client.Client) client.Client
	Reader func(client.Reader) client.Reader
	AWS    func(http.RoundTripper) http.RoundTripper
	// Dial makes the connections to members.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Statement is called before and after each changing statement.
	Statement func(op, phase string) error
	// Shared says that another operator runs in the same process.
	Shared bool
}

// filled puts the real world where nothing else was given.
func (s Surroundings) filled(registry prometheus.Registerer) Surroundings {
	if s.Registry == nil {
		s.Registry = registry
	}
	if s.Clock == nil {
		s.Clock = clock.RealClock{}
	}
	if s.Client == nil {
		s.Client = func(c client.Client) client.Client { return c }
	}
	if s.Reader == nil {
		s.Reader = func(r client.Reader) client.Reader { return r }
	}
	return s
}

// slim makes an object smaller before it is kept. Who set which field is nobody's business here, and would be a tenth of what is kept;
// the texts of labels and owners are nearly the same on all of a cluster's objects, and those that come together share them.
func slim(object any) (any, error) {
	about, err := meta.Accessor(object)
	if err != nil {
		return object, nil //nolint:nilerr // the last state of one that is gone, which is not kept
	}
	about.SetManagedFields(nil)
	once := func(text string) string { return unique.Make(text).Value() }
	if given := about.GetLabels(); given != nil {
		kept := make(map[string]string, len(given))
		for name, value := range given {
			kept[once(name)] = once(value)
		}
		about.SetLabels(kept)
	}
	owners := slices.Clone(about.GetOwnerReferences())
	for i, o := range owners {
		owners[i].APIVersion, owners[i].Kind, owners[i].Name, owners[i].UID = once(o.APIVersion), once(o.Kind), once(o.Name), types.UID(once(string(o.UID)))
	}
	about.SetOwnerReferences(owners)
	about.SetNamespace(once(about.GetNamespace()))
	return object, nil
}

// cacheOptions keep only the operator's own objects in memory, and the ConfigMaps of its own namespace, of which one is the
// administrator's policy. Users' Secrets are never listed.
func cacheOptions(namespace string) cache.Options {
	own := labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.FieldManager})
	return cache.Options{
		DefaultTransform: slim,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.ServiceAccount{}:     {Label: own},
			&rbacv1.Role{}:               {Label: own},
			&rbacv1.RoleBinding{}:        {Label: own},
			&batchv1.Job{}:               {Label: own},
			&batchv1.CronJob{}:           {Label: own},
			&appsv1.StatefulSet{}:        {Label: own},
			&appsv1.Deployment{}:         {Label: own},
			&corev1.Secret{}:             {Label: own},
			&corev1.Service{}:            {Label: own},
			&discoveryv1.EndpointSlice{}: {Label: own},
			&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{
				cache.AllNamespaces: {LabelSelector: own},
				// What is said of one namespace replaces what is said of all: there a cluster may be, too.
				namespace: {LabelSelector: labels.Everything()},
			}},
		},
	}
}
