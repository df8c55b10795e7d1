package check

import (
	"slices"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/manifests"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// small is a bundle of one kind with spec.size, and status.parts[].name.
func small() *manifests.Bundle {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	schema := &apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": {Properties: map[string]apiextensionsv1.JSONSchemaProps{"size": text}},
		"status": {Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"parts": {Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{"name": text}}}},
		}},
	}}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name, crd.Spec.Names.Kind = "things.example.com", "Thing"
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema}}}
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	csv.Spec.CustomResourceDefinitions.Owned = []operatorsv1alpha1.CRDDescription{{
		Name: crd.Name, Version: "v1", Kind: "Thing",
		SpecDescriptors: []operatorsv1alpha1.SpecDescriptor{{Path: "size", DisplayName: "Size", Description: "Size."}},
		StatusDescriptors: []operatorsv1alpha1.StatusDescriptor{
			{Path: "parts", DisplayName: "Parts", Description: "Parts."}, {Path: "parts[0].name", DisplayName: "Name", Description: "Name."},
		},
	}}
	return &manifests.Bundle{CSV: csv, V1CRDs: []*apiextensionsv1.CustomResourceDefinition{crd}}
}

func TestDescribed(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*operatorsv1alpha1.CRDDescription)
		part  string
		want  string
	}{
		"all there":           {func(*operatorsv1alpha1.CRDDescription) {}, "status", ""},
		"a field too few":     {func(o *operatorsv1alpha1.CRDDescription) { o.StatusDescriptors = o.StatusDescriptors[:1] }, "status", "Thing.status.parts[0].name has no descriptor"},
		"a field too many":    {func(o *operatorsv1alpha1.CRDDescription) { o.SpecDescriptors[0].Path = "gone" }, "spec", "Thing.spec.gone has a descriptor"},
		"no name for people":  {func(o *operatorsv1alpha1.CRDDescription) { o.SpecDescriptors[0].DisplayName = "" }, "spec", "Thing.spec.size has no descriptor"},
		"not owned":           {func(o *operatorsv1alpha1.CRDDescription) { o.Version = "v2" }, "spec", "does not own things.example.com v1"},
		"what is in the spec": {func(*operatorsv1alpha1.CRDDescription) {}, "spec", ""},
	} {
		t.Run(name, func(t *testing.T) {
			bundle := small()
			c.spoil(&bundle.CSV.Spec.CustomResourceDefinitions.Owned[0])
			said := strings.Join(Described(bundle, c.part), "\n")
			if c.want == "" && said != "" || !strings.Contains(said, c.want) {
				t.Errorf("it says %q, want %q", said, c.want)
			}
		})
	}
}

func grant(rules ...rbacv1.PolicyRule) *operatorsv1alpha1.ClusterServiceVersion {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	csv.Spec.InstallStrategy.StrategySpec.ClusterPermissions = []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "op", Rules: rules}}
	return csv
}

func TestNarrow(t *testing.T) {
	if wrong := Narrow(grant(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}})); len(wrong) > 0 {
		t.Errorf("nothing is wrong, but it says %v", wrong)
	}
	for _, rule := range []rbacv1.PolicyRule{
		{APIGroups: []string{"*"}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"*"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "*"}},
		{NonResourceURLs: []string{"*"}, Verbs: []string{"get"}},
	} {
		if wrong := Narrow(grant(rule)); len(wrong) != 1 || !strings.Contains(wrong[0], "wildcard") {
			t.Errorf("of %v it says %v", rule, wrong)
		}
	}
}

const auditLog = `{"verb":"get","user":{"username":"op"},"objectRef":{"resource":"secrets","namespace":"a"},"responseStatus":{"code":404}}
{"verb":"update","user":{"username":"op"},"objectRef":{"resource":"things","subresource":"status","apiGroup":"example.com"},"responseStatus":{"code":200}}
{"verb":"delete","user":{"username":"other"},"objectRef":{"resource":"secrets"},"responseStatus":{"code":200}}
{"verb":"get","user":{"username":"op"},"responseStatus":{"code":200}}
{"verb":"patch","user":{"username":"op"},"objectRef":{"resource":"services"},"responseStatus":{"code":201}}
{"verb":"patch","user":{"username":"op"},"objectRef":{"resource":"configmaps"},"responseStatus":{"code":200}}
`

func TestLeastPrivilege(t *testing.T) {
	secrets := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "delete"}}
	services := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services", "configmaps"}, Verbs: []string{"create", "patch"}}
	unseen := map[Use]string{{Resource: "pods", Verb: "watch"}: "a plug-in asks"}
	pods := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}}
	status := rbacv1.PolicyRule{APIGroups: []string{"example.com"}, Resources: []string{"things/status"}, Verbs: []string{"update"}}
	for name, c := range map[string]struct {
		log  string
		want []string
	}{
		"requests of another user are no use": {auditLog, []string{"delete secrets is granted and was never used", "create configmaps is granted", "list pods is granted"}},
		"a watch takes the place of a list": {auditLog + `{"verb":"watch","user":{"username":"op"},"objectRef":{"resource":"pods"},"responseStatus":{"code":200}}` + "\n",
			[]string{"delete secrets", "create configmaps"}},
		"a denied request is reported once": {auditLog + strings.Repeat(`{"verb":"create","user":{"username":"op"},"objectRef":{"resource":"pods"},"responseStatus":{"code":403},"annotations":{"authorization.k8s.io/decision":"forbid"}}`+"\n", 2),
			[]string{"delete secrets", "create configmaps", "list pods", "denied, and so needed or never to be asked: create pods"}},
		"a quota denies nothing": {auditLog + `{"verb":"create","user":{"username":"op"},"objectRef":{"resource":"configmaps"},"responseStatus":{"code":403},"annotations":{"authorization.k8s.io/decision":"allow"}}` + "\n",
			[]string{"delete secrets", "list pods"}},
	} {
		t.Run(name, func(t *testing.T) {
			audit, err := ReadAudit(strings.NewReader(c.log), "op")
			if err != nil {
				t.Fatal(err)
			}
			wrong := LeastPrivilege(Permissions(grant(secrets, status, services, pods)), audit, unseen)
			if len(wrong) != len(c.want) {
				t.Fatalf("it says %v", wrong)
			}
			for _, want := range c.want {
				if !slices.ContainsFunc(wrong, func(said string) bool { return strings.Contains(said, want) }) {
					t.Errorf("it says %v, nothing of %s", wrong, want)
				}
			}
		})
	}
	if _, err := ReadAudit(strings.NewReader("{"), "op"); err == nil {
		t.Error("half a log is taken for a whole one")
	}
}
