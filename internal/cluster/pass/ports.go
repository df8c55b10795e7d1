package pass

import (
	"cmp"
	"context"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/probe"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/mark"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/metrics"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/olm"
	"github.com/alx-ke/nairobi-mysql-operator/internal/tarball"
)

// Ports are what a pass reaches the world through.
type Ports struct {
	// Client reads the operator's own objects from a cache and writes.
	Client client.Client
	// Reader reads past the cache: users' Secrets, and what a stale cache must not be believed about.
	Reader client.Reader
	Clouds Clouds
	SQL    *conn.Pool
	Prober *probe.Prober
	Events events.EventRecorder
	Clock  clock.PassiveClock
	Config Config
	// Images says what the pods of backups run.
	Images *Images
	// Wake carries the clusters that are to be looked at now, as the prober wants and the probe of a silent member.
	Wake    chan event.GenericEvent
	Metrics *metrics.Metrics
	// Tarballs may be nil: then nobody asks whether what instances download is there.
	Tarballs Tarballs
	// Upgradeable may be nil: without OLM nobody asks.
	Upgradeable Upgradeable

	Caches *Caches
}

// Lease takes a fresh look at the leader's lease; nil without an election.
func (p *Ports) Lease() func(context.Context) error {
	if p.Config.Lease == nil {
		return nil
	}
	return func(ctx context.Context) error { return OfKubernetes(p.Config.Lease(ctx)) }
}

// LookNow has a cluster looked at now. When so many wait there that there is no room, a look is due anyway.
func (p *Ports) LookNow(name types.NamespacedName) {
	cluster := &v1alpha1.MySQLCluster{}
	cluster.Namespace, cluster.Name = name.Namespace, name.Name
	select {
	case p.Wake <- event.GenericEvent{Object: cluster}:
	default:
	}
}

// Marker makes and proves the operator's marks.
func (p *Ports) Marker() mark.Marker {
	return mark.Marker{Client: p.Client, Reader: p.Reader, Namespace: p.Config.SystemNamespace}
}

// WriterID names this operator in the records.
func (p *Ports) WriterID() string { return cmp.Or(p.Config.WriterID, engine.NoWriterID) }

// Tarballs knows what the addresses of a tarball answered if each says that it is not there, and whether they were asked yet. It does not
// wait.
type Tarballs interface {
	Missing(wanted tarball.Wanted) (answers string, asked bool)
}

// Images says which images pods run.
type Images struct {
	// Own is the operator's image.
	Own string
	// Client is the image with MySQL's programs where a spec names none; {version} in it stands for the cluster's version.
	Client string
	// Proxy are the variables of an HTTP proxy that the pods are to use as the operator does.
	Proxy map[string]string
}

// DefaultClientImage is what Client is unless an administrator chose another.
const DefaultClientImage = "docker.io/library/mysql:{version}"

// Operator returns the operator's own image.
func (i *Images) Operator() (string, error) {
	if i.Own == "" {
		return "", &engine.Problem{Reason: v1alpha1.ReasonWaitingForDependency, After: engine.AfterPerson,
			Message: "the operator does not know its own image, which backup pods copy its program from; set RELATED_IMAGE_OPERATOR or --pod-image"}
	}
	return i.Own, nil
}

// MySQL returns the image with MySQL's programs.
func (i *Images) MySQL(c *v1alpha1.MySQLCluster, image string) string {
	if image != "" {
		return image
	}
	return strings.ReplaceAll(i.Client, "{version}", c.Spec.Version)
}

// Config is what an administrator chose by flags.
type Config struct {
	// SystemNamespace is where the operator runs and where the tenancy policy is.
	SystemNamespace string
	// ClusterDomain is the DNS domain of Kubernetes Services, usually cluster.local.
	ClusterDomain string
	// ProbeThroughService lets the availability probe dial the primary Service, as clients do. Without it, for an
	// operator that runs outside of Kubernetes, the probe dials the primary's address.
	ProbeThroughService bool
	// Workers is how many clusters are reconciled side by side.
	Workers int
	// WriterID names this process, unlike any other that ever led; empty when there can be no other.
	WriterID string
	// Lease takes a fresh look at the leader's lease, and fails unless this process holds it. Nil: there is no election.
	Lease func(context.Context) error
}

// Clouds hands out the client of an AWS account and region.
type Clouds interface {
	Cloud(ctx context.Context, account awsapi.Account) (*ec2.Cloud, error)
}

// Upgradeable is told, after each pass, what a hand-over to another operator had better not interrupt; nil for nothing. Any
// hand-over is survived; this keeps a planned one from making an interruption of writes longer.
type Upgradeable interface {
	Set(cluster types.NamespacedName, work *olm.Unfinished)
}
