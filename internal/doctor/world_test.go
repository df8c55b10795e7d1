package doctor_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	policies "github.com/alx-ke/nairobi-mysql-operator/config/aws"
	"github.com/alx-ke/nairobi-mysql-operator/internal/doctor"
	"github.com/alx-ke/nairobi-mysql-operator/internal/leader"
	"github.com/alx-ke/nairobi-mysql-operator/internal/manager"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
	"github.com/alx-ke/nairobi-mysql-operator/internal/webhook"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/build"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/iam"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

// The tests run the doctor as the operator's service account against a real API server, with the roles and the webhook of config, and
// against moto's EC2, S3 and KMS behind the lab's proxy, which evaluates the published IAM policies. What moto does not have is
// answered by [cloud].

const (
	startTimeout = 3 * time.Minute
	system       = v1alpha1.SystemNamespace
	shop         = "shop"
	bucket       = "orders-backups"
	version      = "8.4.6"
	operator     = "system:serviceaccount:" + system + ":nairobi-mysql-controller-manager"
	validatePath = "/validate-mysql-alx-ke-v1alpha1-mysqlcluster"
)

// Set by TestMain.
var (
	admin      client.Client
	asOperator *rest.Config
	server     *moto.Server
	seeded     moto.Seeded
	mainTable  string // the route table of the seeded VPC
	nat        string
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": moto.AccessKeyID, "AWS_SECRET_ACCESS_KEY": moto.SecretAccessKey, "AWS_EC2_METADATA_DISABLED": "true",
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	http.DefaultTransport = site{http.DefaultTransport}
	stop, err := startAPIServer()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := moto.RunTests(prepared{m}, moto.Options{Delay: 30 * time.Millisecond}, func(s *moto.Server, n moto.Seeded) { server, seeded = s, n })
	stop()
	os.Exit(code)
}

// prepared makes what all tests share in moto before they run.
type prepared struct{ *testing.M }

func (p prepared) Run() int {
	if err := makeNetwork(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return p.M.Run()
}

// site is MySQL's download site, with one version for x86_64.
type site struct{ next http.RoundTripper }

func (s site) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != "cdn.mysql.com" {
		return s.next.RoundTrip(r)
	}
	status := http.StatusNotFound
	if strings.HasSuffix(r.URL.Path, "/archives/mysql-8.4/mysql-"+version+"-linux-glibc2.28-x86_64-minimal.tar.xz") {
		status = http.StatusOK
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

func startAPIServer() (stop func(), err error) {
	assets, err := build.EnvtestAssets(context.Background())
	if err != nil {
		return nil, err
	}
	env := &envtest.Environment{
		BinaryAssetsDirectory: assets, CRDDirectoryPaths: []string{filepath.Join("..", "..", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true, ControlPlaneStartTimeout: startTimeout, ControlPlaneStopTimeout: startTimeout,
		CRDInstallOptions:     envtest.CRDInstallOptions{MaxTime: startTimeout},
		WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{filepath.Join("..", "..", "config", "webhook", "manifests.yaml")}, MaxTime: startTimeout},
	}
	config, err := env.Start()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	stop = func() {
		cancel()
		_ = env.Stop()
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return stop, err
		}
	}
	if admin, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return stop, err
	}
	o := env.WebhookInstallOptions
	hooks := ctrlwebhook.NewServer(ctrlwebhook.Options{Host: o.LocalServingHost, Port: o.LocalServingPort, CertDir: o.LocalServingCertDir})
	hooks.Register(validatePath, admission.WithValidator(scheme, &webhook.Validator{}))
	go func() { _ = hooks.Start(ctx) }()
	user, err := env.AddUser(envtest.User{Name: operator, Groups: []string{"system:serviceaccounts"}}, nil)
	if err != nil {
		return stop, err
	}
	asOperator = user.Config()
	return stop, install(ctx)
}

// install makes the objects of an installation that is well.
func install(ctx context.Context) error {
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop}},
		// What a dry run of the webhook needs besides.
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "dry-runs"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"mysql.alx.ke"}, Resources: []string{"mysqlclusters"}, Verbs: []string{"create", "delete"}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "dry-runs"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "dry-runs"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: operator}}},
		// A lease of no installation has no effect.
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: leader.LeaseName}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("nobody"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &metav1.MicroTime{Time: time.Now().Add(24 * time.Hour)}}},
	}
	for _, file := range []string{"role.yaml", "role_binding.yaml"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "config", "rbac", file))
		if err != nil {
			return err
		}
		for document := range strings.SplitSeq(string(text), "---\n") {
			if object := roleObject(document); object != nil {
				if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
					return err
				}
				objects = append(objects, object)
			}
		}
	}
	for _, object := range objects {
		if err := admin.Create(ctx, object); err != nil {
			return fmt.Errorf("%T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

func roleObject(document string) client.Object {
	switch {
	case strings.Contains(document, "kind: ClusterRoleBinding\n"):
		return &rbacv1.ClusterRoleBinding{}
	case strings.Contains(document, "kind: RoleBinding\n"):
		return &rbacv1.RoleBinding{}
	case strings.Contains(document, "kind: ClusterRole\n"):
		return &rbacv1.ClusterRole{}
	case strings.Contains(document, "kind: Role\n"):
		return &rbacv1.Role{}
	}
	return nil
}

func sdk() *awsec2.Client { return awsec2.NewFromConfig(server.Config()) }

func bucketClient() *s3.Client {
	return s3.NewFromConfig(server.Config(), func(o *s3.Options) { o.UsePathStyle = true })
}

// makeNetwork gives the seeded VPC a way out, and makes the bucket.
func makeNetwork(ctx context.Context) error {
	tables, err := sdk().DescribeRouteTables(ctx, &awsec2.DescribeRouteTablesInput{Filters: []types.Filter{{Name: aws.String("vpc-id"), Values: []string{seeded.VPC}}}})
	if err != nil {
		return err
	}
	mainTable = aws.ToString(tables.RouteTables[0].RouteTableId)
	address, err := sdk().AllocateAddress(ctx, &awsec2.AllocateAddressInput{Domain: types.DomainTypeVpc})
	if err != nil {
		return err
	}
	gateway, err := sdk().CreateNatGateway(ctx, &awsec2.CreateNatGatewayInput{SubnetId: aws.String(seeded.SubnetIDs()[0]), AllocationId: address.AllocationId})
	if err != nil {
		return err
	}
	nat = aws.ToString(gateway.NatGateway.NatGatewayId)
	if _, err = sdk().CreateRoute(ctx, &awsec2.CreateRouteInput{RouteTableId: &mainTable, DestinationCidrBlock: aws.String("0.0.0.0/0"), NatGatewayId: &nat}); err != nil {
		return err
	}
	_, err = bucketClient().CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String(bucket)})
	return err
}

// cloud answers what moto does not have, and wraps the rest.
type cloud struct {
	next http.RoundTripper
	// metadata is the element of the account's default, vcpus and storage are quotas, ahead is by how much AWS's clock is ahead.
	metadata       string
	vcpus, storage int
	ahead          time.Duration
}

func (c *cloud) wrap(next http.RoundTripper) http.RoundTripper {
	wrapped := *c
	wrapped.next = next
	return &wrapped
}

func (c *cloud) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	answer, err := c.answer(r, string(body))
	if err == nil {
		answer.Header.Set("Date", time.Now().Add(c.ahead).UTC().Format(http.TimeFormat))
	}
	return answer, err
}

func (c *cloud) answer(r *http.Request, body string) (*http.Response, error) {
	text, kind := "", "application/x-amz-json-1.1"
	switch form, _ := url.ParseQuery(body); {
	case strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".ListServiceQuotas") && strings.Contains(body, `"ec2"`):
		text = `{"Quotas":[{"QuotaName":"Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances","Value":` + strconv.Itoa(c.vcpus) + `}]}`
	case strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".ListServiceQuotas"):
		text = `{"Quotas":[{"QuotaName":"Storage for General Purpose SSD (gp3) volumes, in TiB","Value":` + strconv.Itoa(c.storage) + `}]}`
	case form.Get("Action") == "GetInstanceMetadataDefaults":
		kind, text = "text/xml", `<GetInstanceMetadataDefaultsResponse><requestId>1</requestId><accountLevel>`+c.metadata+`<managedBy>account</managedBy></accountLevel></GetInstanceMetadataDefaultsResponse>`
	default:
		return c.next.RoundTrip(r)
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

// world is one test's cluster in an installation that is well, until the test spoils something.
type world struct {
	t       *testing.T
	proxy   *proxy.Proxy
	cloud   *cloud
	cluster *v1alpha1.MySQLCluster
	policy  string
	// keys are the release keys in the policy's ConfigMap.
	keys string
	// what is asked, and as whom in Kubernetes.
	what doctor.Options
}

const allowing = `namespaces:
  shop:
    operatorCredentials: true
    subnets: ["*"]
    securityGroups: ["*"]
    images: ["*"]
    instanceProfiles: ["*"]
    keyNames: ["*"]
    kmsKeys: ["*"]
`

func newWorld(t *testing.T) *world {
	t.Helper()
	pods, err := proxy.BackupPods(bucket, "prefix")
	must(t, err)
	text, err := policies.Policies.ReadFile("doctor.json")
	must(t, err)
	besides, err := iam.Read(text)
	must(t, err)
	p, err := proxy.Start(t.Context(), proxy.Options{Upstream: server.Endpoint(), Principals: map[string]iam.Principal{iam.BackupKeyID: pods}, Besides: besides.Statement})
	must(t, err)
	t.Cleanup(func() { must(t, p.Stop()) })
	w := &world{t: t, proxy: p, policy: allowing, keys: releaseKey(t, time.Now(), 0), cloud: &cloud{vcpus: 1000, storage: 50}, what: doctor.Options{Webhook: true, Namespace: shop}}
	c := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: fmt.Sprintf("orders-%d", time.Now().UnixNano()%1_000_000)}}
	c.Spec.Version, c.Spec.Replicas = version, ptr.To[int32](3)
	c.Spec.AWS.Region, c.Spec.AWS.InstanceType, c.Spec.AWS.ImageSSMParameter = moto.Region, "m6i.large", ""
	c.Spec.AWS.SubnetIDs, c.Spec.AWS.ClientCIDRs = seeded.SubnetIDs(), []string{"10.77.0.0/16"}
	c.Spec.Backup = &v1alpha1.BackupSpec{Destination: &v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{
		Bucket: bucket, Prefix: "prefix", Region: moto.Region, Endpoint: p.Endpoint(), CredentialsSecretRef: &v1alpha1.LocalSecretReference{Name: c.Name + "-keys"}}}}
	w.cluster, w.what.Clusters = c, []string{c.Name}
	w.makes(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: c.Name + "-keys"}, Data: map[string][]byte{
		"accessKeyID": []byte(iam.BackupKeyID), "secretAccessKey": []byte("lab")}})
	w.makes(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: leader.LeaseName}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("operator-0"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &metav1.MicroTime{Time: time.Now().Add(time.Minute)}}})
	return w
}

// makes creates an object for the time of the test.
func (w *world) makes(object client.Object) {
	w.t.Helper()
	must(w.t, admin.Create(w.t.Context(), object))
	w.t.Cleanup(func() {
		must(w.t, client.IgnoreNotFound(admin.Delete(context.WithoutCancel(w.t.Context()), object)))
	})
}

// changes changes an object for the time of the test.
func changes[T client.Object](w *world, object T, namespace, name string, change func(T)) {
	w.t.Helper()
	must(w.t, admin.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object))
	before := object.DeepCopyObject().(client.Object)
	change(object)
	must(w.t, admin.Update(w.t.Context(), object))
	w.t.Cleanup(func() {
		ctx := context.WithoutCancel(w.t.Context())
		must(w.t, admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object))
		before.SetResourceVersion(object.GetResourceVersion())
		must(w.t, admin.Update(ctx, before))
	})
}

func (w *world) fault(r proxy.Rule) {
	w.t.Helper()
	_, err := w.proxy.Add(r)
	must(w.t, err)
}

// doctor puts the doctor together as main does.
func (w *world) doctor() *doctor.Doctor {
	w.t.Helper()
	d, err := manager.NewDoctor(asOperator, manager.Options{
		Namespace: system, AWSRegion: moto.Region, AWSEndpoint: w.proxy.Endpoint(), Surroundings: manager.Surroundings{AWS: w.cloud.wrap},
	}, w.what)
	must(w.t, err)
	return d
}

// apply makes the policy, and the cluster unless it is in a manifest.
func (w *world) apply() {
	w.t.Helper()
	w.makes(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: v1alpha1.PolicyConfigMap}, Data: map[string]string{
		policy.Key: w.policy, policy.ReleaseKeysKey: w.keys}})
	if w.what.Manifests != nil {
		return
	}
	w.makes(w.cluster)
	w.t.Cleanup(func() {
		protected := &v1alpha1.MySQLCluster{}
		ctx, key := context.WithoutCancel(w.t.Context()), client.ObjectKeyFromObject(w.cluster)
		must(w.t, admin.Get(ctx, key, protected))
		protected.Spec.DeletionProtection = ptr.To(false)
		must(w.t, admin.Update(ctx, protected))
	})
}

// vpc makes another network with one subnet and one security group.
func (w *world) vpc() (subnet, group string) {
	w.t.Helper()
	ctx, cidr := w.t.Context(), "10.9.0.0/16"
	v, err := sdk().CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: &cidr})
	must(w.t, err)
	s, err := sdk().CreateSubnet(ctx, &awsec2.CreateSubnetInput{VpcId: v.Vpc.VpcId, CidrBlock: &cidr, AvailabilityZone: aws.String("us-east-1a")})
	must(w.t, err)
	g, err := sdk().CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{GroupName: aws.String("theirs"), Description: aws.String("x"), VpcId: v.Vpc.VpcId})
	must(w.t, err)
	return aws.ToString(s.Subnet.SubnetId), aws.ToString(g.GroupId)
}

// closed is an address on which nobody listens.
func closed(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	return l.Addr().String()
}

// forgetful is moto's S3 that ignores If-None-Match.
func forgetful(t *testing.T, upstream string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("If-None-Match")
		to, err := url.Parse(upstream)
		if err != nil {
			t.Error(err)
			return
		}
		r.URL.Scheme, r.URL.Host, r.RequestURI = to.Scheme, to.Host, ""
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer answer.Body.Close()
		for name, values := range answer.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// permits asks the API server whether the operator may create a resource.
func (w *world) permits(resource string) bool {
	w.t.Helper()
	c, err := client.New(asOperator, client.Options{Scheme: admin.Scheme()})
	must(w.t, err)
	group := map[string]string{"statefulsets": "apps", "endpointslices": "discovery.k8s.io"}[resource]
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Group: group, Resource: resource, Verb: "create"}}}
	must(w.t, c.Create(context.WithoutCancel(w.t.Context()), review))
	return review.Status.Allowed
}

// serves waits until the API server serves a schema of which something holds.
func (w *world) serves(holds func(schema string) bool) {
	w.t.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(asOperator)
	must(w.t, err)
	w.until(func() bool {
		text, err := d.RESTClient().Get().AbsPath("/openapi/v3/apis/" + v1alpha1.GroupVersion.String()).DoRaw(context.WithoutCancel(w.t.Context()))
		return err == nil && holds(string(text))
	})
}
