package identity

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/objects"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const uid = "0a1b2c3d-0000-4000-8000-000000000001"

var now = time.Unix(1_800_000_000, 0)

// scene is a cluster with members, of which a new operator knows nothing but what its Secrets hold.
type scene struct {
	*testing.T
	authority *pki.Authority
	identity  mysql.Identity
	cluster   *v1alpha1.MySQLCluster
	cache     *pass.Cache
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, cluster: &v1alpha1.MySQLCluster{}, cache: pass.NewCache(uid)}
	s.cluster.Namespace, s.cluster.Name, s.cluster.UID = "shop", "orders", uid
	s.authority, s.identity = s.authorityOf(uid)
	return s
}

// authorityOf makes the authority of a cluster, and the certificate of its operator.
func (s *scene) authorityOf(uid string) (*pki.Authority, mysql.Identity) {
	s.Helper()
	authority, err := pki.NewAuthority(uid, "orders", now)
	if err != nil {
		s.Fatal(err)
	}
	cert, key, err := authority.IssueOperator(now)
	if err != nil {
		s.Fatal(err)
	}
	return authority, mysql.Identity{CAPEM: authority.CertificatePEM(), CertPEM: cert, KeyPEM: key}
}

// secret is a Secret of the cluster, or of somebody else.
func (s *scene) secret(name string, owned bool, data map[string][]byte) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Data: data}
	if owned {
		secret.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s.cluster, v1alpha1.GroupVersion.WithKind("MySQLCluster"))}
	}
	return secret
}

func (s *scene) tls(i mysql.Identity) *corev1.Secret {
	return s.secret("orders-operator-tls", true, map[string][]byte{resources.KeyCA: i.CAPEM, resources.KeyCertificate: i.CertPEM, resources.KeyPrivateKey: i.KeyPEM})
}

// identify runs the step at a time, with the Secrets that are there.
func (s *scene) identify(at time.Time, secrets ...client.Object) (*pass.Pass, error) {
	s.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			s.Fatal(err)
		}
	}
	kube := fake.NewClientBuilder().WithScheme(scheme).WithObjects(secrets...).Build()
	ports := &pass.Ports{Client: kube, Reader: kube, Clock: clocktesting.NewFakePassiveClock(at)}
	r := &Identities{Ports: ports, Objects: &objects.Objects{Ports: ports}}
	p := &pass.Pass{Cluster: s.cluster, Cache: s.cache}
	p.SetRecords(topology.ClusterRecord{Members: map[string]topology.MemberRecord{"orders-0": {}}})
	return p, r.Identify(s.Context(), p)
}

// TestContinuesWithoutTheAuthority: with the certificate that is stored the members can be asked, whatever became of the authority. Nothing
// is signed, and the loss is reported.
func TestContinuesWithoutTheAuthority(t *testing.T) {
	s := newScene(t)
	_, others := s.authorityOf("another cluster's UID")
	ca := func(owned bool, content string) client.Object {
		return s.secret("orders-ca", owned, map[string][]byte{resources.KeyCertificate: []byte(content)})
	}
	for name, row := range map[string]struct {
		secrets   []client.Object
		at        time.Time
		reason    string
		continues bool
	}{
		"the Secret is gone":                       {[]client.Object{s.tls(s.identity)}, now, v1alpha1.ReasonCALost, true},
		"it holds something else":                  {[]client.Object{s.tls(s.identity), ca(true, "something else")}, now, v1alpha1.ReasonCAInvalid, true},
		"it is somebody else's":                    {[]client.Object{s.tls(s.identity), ca(false, "")}, now, v1alpha1.ReasonForeignResource, true},
		"a certificate that is to be renewed":      {[]client.Object{s.tls(s.identity)}, now.Add(300 * 24 * time.Hour), v1alpha1.ReasonCALost, true},
		"the certificate has ended":                {[]client.Object{s.tls(s.identity)}, now.Add(366 * 24 * time.Hour), v1alpha1.ReasonCALost, false},
		"there is none":                            {nil, now, v1alpha1.ReasonCALost, false},
		"it is of another cluster's authority":     {[]client.Object{s.tls(others)}, now, v1alpha1.ReasonCALost, false},
		"that is somebody else's, and no CA there": {[]client.Object{s.secret("orders-operator-tls", false, nil)}, now, v1alpha1.ReasonCALost, false},
	} {
		p, err := s.identify(row.at, row.secrets...)
		if !row.continues {
			if problem := engine.AsProblem(err); problem == nil || problem.Reason != row.reason {
				t.Errorf("%s: the pass ends with %v, want %s", name, err, row.reason)
			}
			continue
		}
		if err != nil || !p.Keys.Identity.Equal(s.identity) || p.Keys.Root == nil || p.Keys.Root.IssuerDN() != s.authority.IssuerDN() {
			t.Errorf("%s: the members cannot be asked: %v, %+v", name, err, p.Keys)
			continue
		}
		if p.Keys.Authority != nil || p.Keys.Unsigned == nil || p.Keys.Unsigned.Reason != row.reason || len(p.Result.Problems) != 1 || p.Result.Problems[0].Reason != row.reason {
			t.Errorf("%s: unsigned because of %v, reported %v", name, p.Keys.Unsigned, p.Result.Problems)
		}
	}
}

// TestSomebodyElsesSecretInTheWay: what this process knows, or can issue, is used although it cannot be stored.
func TestSomebodyElsesSecretInTheWay(t *testing.T) {
	s := newScene(t)
	ca := s.secret("orders-ca", true, map[string][]byte{
		resources.KeyCertificate: s.authority.CertificatePEM(), resources.KeyPrivateKey: s.authority.KeyPEM(), resources.KeyJoin: s.authority.JoinKey(),
	})
	first, err := s.identify(now, ca, s.secret("orders-operator-tls", false, nil))
	if err != nil || first.Keys.Authority == nil || !s.authority.IsOperators(first.Keys.Identity.CertPEM, first.Keys.Identity.KeyPEM, now) || len(first.Result.InTheWay) != 1 {
		t.Fatalf("the operator's Secret is somebody else's: %v, %+v, in the way %v", err, first.Keys, first.Result.InTheWay)
	}
	again, err := s.identify(now.Add(time.Hour), s.secret("orders-ca", false, nil), s.secret("orders-operator-tls", false, nil))
	if err != nil || again.Keys.Authority == nil || !again.Keys.Identity.Equal(first.Keys.Identity) || again.Keys.Unsigned != nil {
		t.Errorf("now the authority's Secret is, too: %v, %+v", err, again.Keys)
	}
	if len(again.Result.Problems) != 1 || again.Result.Problems[0].Reason != v1alpha1.ReasonForeignResource {
		t.Errorf("reported: %v", again.Result.Problems)
	}
}
