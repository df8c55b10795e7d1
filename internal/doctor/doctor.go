// Package doctor finds what is wrong with an installation before a cluster meets it: in Kubernetes, in AWS, and in the specs of the
// clusters. It reads, and makes dry runs with the parameters that the operator sends. Nothing is changed except by the probes of Spend.
package doctor

import (
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/survey"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
)

// Options say what is checked.
type Options struct {
	// SystemNamespace is the operator's.
	SystemNamespace string
	// Namespace limits the clusters to those of one namespace, Clusters to some names or namespace/names. Empty: all that may be listed.
	Namespace string
	Clusters  []string
	// Manifests are checked besides; they need not be applied.
	Manifests []v1alpha1.MySQLCluster
	// Region is that of the operator's own identity where no cluster names one.
	Region string
	// Webhook is false for an installation without one, OwnCertificates true where the operator makes its certificate.
	Webhook, OwnCertificates bool
	// Spend allows probes that cost money: at most 0.05 USD.
	Spend bool
}

// Ports are what the checks reach the world through.
type Ports struct {
	// Kubernetes has no cache. Config leads to the same API server.
	Kubernetes client.Client
	Config     *rest.Config
	Clouds     *ec2.Factory
	Connector  *awsapi.Connector
	// AWSClock has to be the Middleware of Clouds and of Connector.
	AWSClock *survey.Clock
	HTTP     *http.Client
	Clock    clock.PassiveClock

	// Account, Keys and Preflight are the operator's own: the account of a cluster, the keys in a Secret, and what it has EC2 check
	// before it launches.
	Account   func(*v1alpha1.MySQLCluster) awsapi.Account
	Keys      func(*corev1.Secret) (awsapi.StaticCredentials, error)
	Preflight func(*v1alpha1.MySQLCluster, policy.Policy) (ec2.PreflightSpec, error)
}

// Doctor is one run of all checks.
type Doctor struct {
	Options
	Ports

	policy   policy.Policy
	clusters []v1alpha1.MySQLCluster
	accounts map[string]*account
}

// New makes a run. It makes no call.
func New(o Options, p Ports) *Doctor {
	return &Doctor{Options: o, Ports: p, accounts: map[string]*account{}}
}
