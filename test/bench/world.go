package bench

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"

	corev1 "k8s.io/api/core/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/build"
)

const (
	membersEach   = 3
	namespace     = "shop"
	clusterDomain = "cluster.local"
	clientCIDR    = "10.0.0.0/8"

	// transactions is how many each primary has committed when it begins.
	transactions = 1000

	policyYAML = "namespaces:\n  \"*\":\n    operatorCredentials: true\n    images: [\"*\"]\n    subnets: [\"*\"]\n"
)

// World is an API server with clusters in it, and the stubs that make their members Ready.
type world struct {
	env    *envtest.Environment
	kube   *rest.Config
	client client.Client
	cloud  *account
	fleet  *fleet
	size   int
}

// newWorld starts the API server and makes size clusters of three members. What it started, close ends. In haste, etcd
// does not wait for the disk: many clusters take many writes to become Ready, and none to stay so.
func newWorld(ctx context.Context, size int, haste bool) (*world, error) {
	assets, err := build.EnvtestAssets(ctx)
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	w := &world{cloud: newAccount(), fleet: &fleet{members: map[string]*member{}}, size: size}
	w.env = &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join("..", "..", "config", "crd", "bases")}, ErrorIfCRDPathMissing: true,
		BinaryAssetsDirectory: assets,
	}
	// envtest's own range has room for 254 Services.
	w.env.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.96.0.0/16")
	if haste {
		w.env.ControlPlane.Etcd = &envtest.Etcd{}
		w.env.ControlPlane.Etcd.Configure().Append("unsafe-no-fsync")
	}
	if w.kube, err = w.env.Start(); err != nil {
		return nil, fmt.Errorf("start the API server: %w", err)
	}
	w.kube.QPS, w.kube.Burst = -1, -1
	if err := w.fill(ctx); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *world) close() error {
	w.fleet.close()
	return w.env.Stop()
}

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(v1alpha1.AddToScheme(s))
	return s
}

// fill makes the namespaces, the tenancy policy and the clusters.
func (w *world) fill(ctx context.Context) error {
	var err error
	if w.client, err = client.New(w.kube, client.Options{Scheme: scheme()}); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	for _, name := range []string{v1alpha1.SystemNamespace, namespace} {
		if err := w.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return fmt.Errorf("create namespace %s: %w", name, err)
		}
	}
	if err := w.client.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: v1alpha1.PolicyConfigMap}, Data: map[string]string{"policy.yaml": policyYAML},
	}); err != nil {
		return fmt.Errorf("create the policy: %w", err)
	}
	for serial := range w.size {
		if err := w.addCluster(ctx, serial); err != nil {
			return fmt.Errorf("cluster %d: %w", serial, err)
		}
	}
	return nil
}

// addCluster makes a cluster whose members have all joined: in Kubernetes the object and its authority, in EC2 machines
// and volumes, and behind them members with certificates of that authority.
func (w *world) addCluster(ctx context.Context, serial int) error {
	c := &v1alpha1.MySQLCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: clusterName(serial)},
		Spec: v1alpha1.MySQLClusterSpec{
			Version: serverVersion, DeletionProtection: ptr.To(false), MySQLD: map[string]string{"max_connections": "500"},
			AWS: v1alpha1.AWSSpec{
				Region: region, InstanceType: "m6i.large", ImageID: imageID, SubnetIDs: subnetIDs(), ClientCIDRs: []string{clientCIDR},
			},
			Database: &v1alpha1.DatabaseSpec{Name: "app"},
		},
	}
	if err := w.client.Create(ctx, c); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	authority, err := pki.NewAuthority(string(c.UID), c.Name, time.Now())
	if err != nil {
		return err
	}
	ca := resources.CASecret(c, authority.CertificatePEM(), authority.KeyPEM(), authority.JoinKey())
	if err := w.client.Apply(ctx, ca, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("write the authority: %w", err)
	}
	return w.addTrio(ctx, c, authority, serial)
}

// addTrio makes what EC2 shows of a cluster, and the members behind it.
func (w *world) addTrio(ctx context.Context, c *v1alpha1.MySQLCluster, authority *pki.Authority, serial int) error {
	operatorCert, _, err := authority.IssueOperator(time.Now())
	if err != nil {
		return err
	}
	w.cloud.addGroup(ownerOf(c), clientCIDR, serial+1)
	t := &trio{uuid: string(uuid.NewUUID()), settings: c.Spec.MySQLD}
	t.executed.Store(transactions)
	for ordinal := range membersEach {
		m := &member{
			name: c.Name + "-" + strconv.Itoa(ordinal), serverID: 17 + ordinal, uuid: string(uuid.NewUUID()),
			trio: t, primary: ordinal == 0, count: &w.fleet.tally,
		}
		if m.primary {
			m.uuid = t.uuid
		}
		if err := w.addMember(ctx, c, m, authority, operatorCert, serial*membersEach+ordinal); err != nil {
			return fmt.Errorf("member %s: %w", m.name, err)
		}
		t.members, t.voters = append(t.members, m), append(t.voters, m.name)
	}
	// What the primary Service's address leads to.
	w.fleet.members[hostPort(resources.PrimaryHost(c)+"."+clusterDomain)] = t.members[0]
	return nil
}

func ownerOf(c *v1alpha1.MySQLCluster) awsapi.Ownership {
	return awsapi.Ownership{ClusterUID: string(c.UID), Namespace: c.Namespace, Cluster: c.Name}
}

// addMember gives a member its machine, its address and its certificate, and opens its port.
func (w *world) addMember(ctx context.Context, c *v1alpha1.MySQLCluster, m *member, authority *pki.Authority, operatorCert []byte, serial int) error {
	const perSubnet = 250
	ordinal := serial % membersEach
	ip := fmt.Sprintf("10.%d.%d.%d", 77+ordinal%len(zones), serial/perSubnet, 2+serial%perSubnet)
	m.address = hostPort(ip)
	instanceID := w.cloud.add(ownerOf(c), m.name, ip, ordinal, serial+1)
	request, key, err := sealedRequest(authority, m.name, instanceID)
	if err != nil {
		return err
	}
	request.DNSNames, request.IPs = resources.MemberDNSNames(c, m.name, clusterDomain), []net.IP{net.ParseIP(ip)}
	request.OperatorCertPEM = operatorCert
	certPEM, _, err := authority.SignMember(request, time.Now())
	if err != nil {
		return err
	}
	certificate, operator, err := parse(certPEM, operatorCert)
	if err != nil {
		return err
	}
	m.notAfter, m.operator = certificate.NotAfter, operator.Subject.String()
	m.tls = &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: authority.Pool(),
		Certificates: []tls.Certificate{{Certificate: [][]byte{certificate.Raw}, PrivateKey: key}},
	}
	w.fleet.members[m.address] = m
	return m.listen(ctx)
}

// sealedRequest makes what a member's instance asks its certificate with.
func sealedRequest(authority *pki.Authority, name, instanceID string) (pki.MemberRequest, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pki.MemberRequest{}, nil, fmt.Errorf("make the key of %s: %w", name, err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return pki.MemberRequest{}, nil, fmt.Errorf("make the request of %s: %w", name, err)
	}
	csr := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	return pki.MemberRequest{
		CSR: csr, Seal: pki.Seal(authority.JoinToken(name, 1), csr, instanceID), InstanceID: instanceID, Member: name, Incarnation: 1,
	}, key, nil
}

// parse reads a member's and the operator's certificate.
func parse(memberPEM, operatorPEM []byte) (memberCert, operatorCert *x509.Certificate, err error) {
	read := func(text []byte) (*x509.Certificate, error) {
		block, _ := pem.Decode(text)
		if block == nil {
			return nil, errors.New("no certificate in PEM")
		}
		return x509.ParseCertificate(block.Bytes)
	}
	if memberCert, err = read(memberPEM); err != nil {
		return nil, nil, err
	}
	operatorCert, err = read(operatorPEM)
	return memberCert, operatorCert, err
}

func hostPort(host string) string { return net.JoinHostPort(host, strconv.Itoa(v1alpha1.MySQLPort)) }

func clusterName(serial int) string { return fmt.Sprintf("orders%03d", serial) }
