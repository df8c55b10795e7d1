package resources

import (
	"bytes"
	"flag"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// update rewrites the golden files: go test ./internal/resources -update.
var update = flag.Bool("update", false, "rewrite the golden files")

func testCluster() *v1alpha1.MySQLCluster {
	return &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "orders", UID: "7d9f6c1e-3c54-4f0a-9d1c-0a1b2c3d4e5f",
	}}
}

func testMembers() []Member {
	return []Member{
		{Name: "orders-2", Address: "10.77.3.7", Ready: false},
		{Name: "orders-0", Address: "10.77.1.5", Ready: true, Primary: true},
		{Name: "orders-1", Address: "10.77.2.6", Ready: true},
		{Name: "orders-3"},
		{Name: "orders-4", Address: "fd00::4", Ready: true},
		{Name: "orders-5", Address: "not an address", Ready: true},
	}
}

// golden compares objects, written as one YAML stream, with a file under testdata.
func golden[T any](t *testing.T, file string, objects ...T) {
	t.Helper()
	var documents [][]byte
	for _, object := range objects {
		document, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, document)
	}
	got := bytes.Join(documents, []byte("---\n"))
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs. Now it is:\n%s", path, got)
	}
}

func TestGolden(t *testing.T) {
	c := testCluster()
	app := AppCredentials{Username: "shop", Password: "s3cret", Database: "orders", CAPEM: []byte("CA")}
	golden(t, "services.yaml", Services(c)...)
	golden(t, "endpointslices.yaml", EndpointSlices(c, testMembers())...)
	golden(t, "endpointslices-empty.yaml", EndpointSlices(c, nil)...)
	golden(t, "secrets.yaml",
		CASecret(c, []byte("CERT"), []byte("KEY"), []byte("JOIN")),
		OperatorTLSSecret(c, []byte("CERT"), []byte("KEY"), []byte("CA")),
		AppSecret(c, app))
	golden(t, "members.yaml", MembersConfigMap(c, []byte(`{"orders-0":{"instance":3,"volume":1}}`)))
	golden(t, "dnsnames.yaml", MemberDNSNames(c, "orders-0", "cluster.local"))
}

func TestEndpointSlicesDoNotDependOnOrder(t *testing.T) {
	c, members := testCluster(), testMembers()
	want := EndpointSlices(c, members)
	slices.Reverse(members)
	untouched := slices.Clone(members)
	golden(t, "endpointslices.yaml", EndpointSlices(c, members)...)
	if !slices.Equal(members, untouched) {
		t.Error("the caller's members were reordered")
	}
	if len(want) != 3 {
		t.Errorf("%d slices", len(want))
	}
}

func TestNamesFitTheLongestCluster(t *testing.T) {
	c := testCluster()
	c.Name = strings.Repeat("a", 40)
	for _, s := range Services(c) {
		if problems := validation.IsDNS1035Label(*s.Name); len(problems) > 0 {
			t.Errorf("Service %s: %v", *s.Name, problems)
		}
		for label, value := range s.Labels {
			if problems := append(validation.IsQualifiedName(label), validation.IsValidLabelValue(value)...); len(problems) > 0 {
				t.Errorf("label %s=%s: %v", label, value, problems)
			}
		}
	}
	for _, s := range EndpointSlices(c, nil) {
		for label, value := range s.Labels {
			if problems := append(validation.IsQualifiedName(label), validation.IsValidLabelValue(value)...); len(problems) > 0 {
				t.Errorf("label %s=%s: %v", label, value, problems)
			}
		}
	}
}

func TestDNSNamesWithoutClusterDomain(t *testing.T) {
	names := MemberDNSNames(testCluster(), "orders-1", "")
	if names[0] != "orders-1.orders.shop.svc" {
		t.Errorf("the first name is %s", names[0])
	}
	seen := map[string]bool{}
	for _, name := range names {
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 || seen[name] {
			t.Errorf("%q is twice in the list or no name: %v", name, problems)
		}
		seen[name] = true
	}
}

func TestAppURICarriesAnyPassword(t *testing.T) {
	const password = "p@ss:/w?rd#%"
	s := AppSecret(testCluster(), AppCredentials{Username: "us er", Password: password, Database: "or/ders"})
	uri, err := url.Parse(string(s.Data[KeyURI]))
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := uri.User.Password(); got != password || uri.User.Username() != "us er" || uri.Host != "orders-primary.shop.svc:3306" {
		t.Errorf("the URI reads as %+v", uri)
	}
}

func TestRandomPassword(t *testing.T) {
	seen := map[string]bool{}
	for range 200 {
		password, err := RandomPassword()
		if err != nil {
			t.Fatal(err)
		}
		if len(password) != passwordLength || strings.Trim(password, passwordAlphabet) != "" || seen[password] {
			t.Fatalf("%q is too short, has other characters, or came before", password)
		}
		seen[password] = true
	}
}
