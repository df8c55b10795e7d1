// Package bundle_test judges the OLM bundle and the catalog as they are committed: by the validators of OLM and
// OperatorHub, and by what nobody else checks.
package bundle_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
	"github.com/operator-framework/api/pkg/validation/errors"

	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/leader"

	corev1 "k8s.io/api/core/v1"

	rbacv1 "k8s.io/api/rbac/v1"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/test/scorecard/check"
)

// root is the repository.
const root = "../.."

func bundle(t *testing.T) *manifests.Bundle {
	t.Helper()
	found, err := manifests.GetBundleFromDir(filepath.Join(root, "bundle"))
	if err != nil {
		t.Fatal(err)
	}
	if found.CSV == nil {
		t.Fatal("the bundle has no ClusterServiceVersion")
	}
	return found
}

// TestValidators runs what `operator-sdk bundle validate` runs. A warning is a failure.
func TestValidators(t *testing.T) {
	b := bundle(t)
	for name, validator := range map[string]interface {
		Validate(...any) []errors.ManifestResult
	}{
		"bundle": validation.BundleValidator, "csv": validation.ClusterServiceVersionValidator, "crd": validation.CustomResourceDefinitionValidator,
		"operatorhub v2": validation.OperatorHubV2Validator, "capabilities": validation.StandardCapabilitiesValidator,
		"categories": validation.StandardCategoriesValidator, "good practices": validation.GoodPracticesValidator,
		"deprecated APIs": validation.AlphaDeprecatedAPIsValidator, "objects": validation.ObjectValidator,
	} {
		for _, result := range validator.Validate(b.ObjectsToValidate()...) {
			for _, found := range append(result.Errors, result.Warnings...) {
				t.Errorf("%s: %s", name, found.Error())
			}
		}
	}
}

// TestConsolesAskForNoRole: OpenShift's console asks for the ARN of a role and sets ROLEARN where token-auth-aws is true. Nothing reads that.
func TestConsolesAskForNoRole(t *testing.T) {
	b := bundle(t)
	for _, cloud := range []string{"aws", "azure", "gcp"} {
		if got := b.CSV.Annotations["features.operators.openshift.io/token-auth-"+cloud]; got != "false" {
			t.Errorf("token-auth-%s is %q", cloud, got)
		}
	}
}

// TestEveryFieldIsDescribed compares the descriptors with the schema of each owned kind, both ways.
func TestEveryFieldIsDescribed(t *testing.T) {
	b := bundle(t)
	for _, part := range []string{"spec", "status"} {
		for _, wrong := range check.Described(b, part) {
			t.Error(wrong)
		}
	}
	for _, owned := range b.CSV.Spec.CustomResourceDefinitions.Owned {
		if owned.DisplayName == "" || owned.Description == "" || len(owned.Resources) == 0 {
			t.Errorf("%s lacks a name for people, a description or what belongs to it", owned.Name)
		}
	}
}

func TestListing(t *testing.T) {
	csv := bundle(t).CSV
	if len(csv.Spec.Icon) != 1 {
		t.Fatalf("%d icons", len(csv.Spec.Icon))
	}
	icon, err := base64.StdEncoding.DecodeString(csv.Spec.Icon[0].Data)
	drawn, readErr := os.ReadFile(filepath.Join(root, "config", "manifests", "icon.svg"))
	if err != nil || readErr != nil || string(icon) != string(drawn) || csv.Spec.Icon[0].MediaType != "image/svg+xml" {
		t.Errorf("the icon is not config/manifests/icon.svg: %v, %v", err, readErr)
	}
	for _, label := range []string{"operatorframework.io/arch.amd64", "operatorframework.io/arch.arm64", "operatorframework.io/os.linux"} {
		if csv.Labels[label] != "supported" {
			t.Errorf("label %s is %q", label, csv.Labels[label])
		}
	}
	type example struct {
		Kind string `json:"kind"`
		Spec struct {
			Version string `json:"version"`
		} `json:"spec"`
	}
	var examples []example
	if err := json.Unmarshal([]byte(csv.Annotations["alm-examples"]), &examples); err != nil {
		t.Fatalf("alm-examples: %v", err)
	}
	for _, owned := range csv.Spec.CustomResourceDefinitions.Owned {
		if !slices.ContainsFunc(examples, func(e example) bool { return e.Kind == owned.Kind }) {
			t.Errorf("no example of kind %s: add one to config/samples", owned.Kind)
		}
	}
	listed := map[string]bool{}
	for _, image := range csv.Spec.RelatedImages {
		listed[image.Image] = true
	}
	for _, deployment := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		for _, c := range deployment.Spec.Template.Spec.Containers {
			if !listed[c.Image] || csv.Annotations["containerImage"] != c.Image {
				t.Errorf("image %s is not among the related images %v, or not the annotation's", c.Image, csv.Spec.RelatedImages)
			}
			// What the operator starts besides itself, for the examples: OLM's mirroring tools copy nothing else.
			if !slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool {
				return v.Name == "RELATED_IMAGE_MYSQL_CLIENT" && v.Value == pass.DefaultClientImage
			}) {
				t.Errorf("the Deployment does not name the image of backup pods, %s", pass.DefaultClientImage)
			}
			if !slices.Contains(c.Env, corev1.EnvVar{Name: "RELATED_IMAGE_OPERATOR", Value: c.Image}) {
				t.Errorf("the Deployment does not say in RELATED_IMAGE_OPERATOR that it runs %s", c.Image)
			}
			for _, e := range examples {
				if client := strings.ReplaceAll(pass.DefaultClientImage, "{version}", e.Spec.Version); e.Spec.Version != "" && !listed[client] {
					t.Errorf("image %s, which an example runs, is not among the related images %v", client, csv.Spec.RelatedImages)
				}
			}
			if len(c.VolumeMounts) > 0 {
				t.Error("the container mounts something: OLM mounts the webhook's certificates itself")
			}
		}
	}
}

// TestLevelIsTheOneOfTheDocument: what is claimed to users is what docs/capability-levels.md says is shown.
func TestLevelIsTheOneOfTheDocument(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "capability-levels.md"))
	if err != nil {
		t.Fatal(err)
	}
	if claimed := bundle(t).CSV.Annotations["capabilities"]; !strings.Contains(string(text), "today **"+claimed+"**") {
		t.Errorf("the bundle claims %q, the document does not", claimed)
	}
}

// namedTest is a test as the documents name it, after the folder that it is in.
var namedTest = regexp.MustCompile("`(Test\\w+)`")

// TestNamedTestsExist: a test that a document cites as evidence is one, under that name.
func TestNamedTestsExist(t *testing.T) {
	var declared strings.Builder
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		declared.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	documents, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	cited := 0
	for _, document := range append(documents, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range namedTest.FindAllSubmatch(text, -1) {
			cited++
			if !strings.Contains(declared.String(), "func "+string(match[1])+"(t *testing.T)") {
				t.Errorf("%s names %s, which is no test", filepath.Base(document), match[1])
			}
		}
	}
	if cited == 0 {
		t.Error("no document names a test")
	}
}

// TestPermissionsAreThoseOfTheMarkers fails when a marker changed without `make bundle`. It needs no operator-sdk, so it
// runs with the unit tests; `make verify` compares everything.
func TestPermissionsAreThoseOfTheMarkers(t *testing.T) {
	strategy := bundle(t).CSV.Spec.InstallStrategy.StrategySpec
	generated := map[string][]rbacv1.PolicyRule{}
	text, err := os.ReadFile(filepath.Join(root, "config", "rbac", "role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(string(text), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		generated[role.Kind] = append(generated[role.Kind], role.Rules...)
	}
	if len(strategy.ClusterPermissions) != 1 || !reflect.DeepEqual(strategy.ClusterPermissions[0].Rules, generated["ClusterRole"]) {
		t.Error("the cluster permissions are not those of config/rbac/role.yaml: run `make bundle`")
	}
	if len(strategy.Permissions) != 1 || !reflect.DeepEqual(strategy.Permissions[0].Rules, generated["Role"]) {
		t.Error("the permissions are not those of config/rbac/role.yaml: run `make bundle`")
	}
}

func TestPermissionsHoldNoWildcard(t *testing.T) {
	for _, wrong := range check.Narrow(bundle(t).CSV) {
		t.Error(wrong)
	}
}

// TestWhatOLMLiftsIsBoundByName: where the operator watches all namespaces, OLM makes a ClusterRole of its Role. What the Role grants then
// holds in every namespace.
func TestWhatOLMLiftsIsBoundByName(t *testing.T) {
	for _, granted := range bundle(t).CSV.Spec.InstallStrategy.StrategySpec.Permissions {
		for _, rule := range granted.Rules {
			created := slices.Equal(rule.Verbs, []string{"create"}) // RBAC does not know the name of what is created
			if !created && !slices.Equal(rule.ResourceNames, []string{leader.LeaseName}) {
				t.Errorf("%v of %v is granted for every name", rule.Verbs, rule.Resources)
			}
		}
	}
}

func TestCRDsAreTheGeneratedOnes(t *testing.T) {
	generated, err := filepath.Glob(filepath.Join(root, "config", "crd", "bases", "*.yaml"))
	if err != nil || len(generated) == 0 {
		t.Fatalf("%v, %v", generated, err)
	}
	in := map[string]apiextensionsv1.CustomResourceDefinitionSpec{}
	for _, crd := range bundle(t).V1CRDs {
		in[crd.Name] = crd.Spec
	}
	for _, file := range generated {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(in[crd.Name], crd.Spec) {
			t.Errorf("%s in the bundle is not that of %s: run `make bundle`", crd.Name, file)
		}
	}
	if len(in) != len(generated) {
		t.Errorf("the bundle has %d CRDs, config/crd has %d", len(in), len(generated))
	}
}

// TestCatalogHasThisBundle compares the catalog with the bundle's version and the template's edges.
func TestCatalogHasThisBundle(t *testing.T) {
	csv := bundle(t).CSV
	text, err := os.ReadFile(filepath.Join(root, "catalog", "nairobi-mysql-operator", "catalog.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	in, edges := map[string]bool{}, map[string]bool{}
	for _, document := range strings.Split(string(text), "---\n") {
		var blob struct {
			Schema, Name string
			Entries      []struct{ Name, Replaces string }
		}
		if err := yaml.Unmarshal([]byte(document), &blob); err != nil {
			t.Fatal(err)
		}
		in[blob.Schema+" "+blob.Name] = true
		for _, entry := range blob.Entries {
			edges[entry.Name+" replaces "+entry.Replaces] = true
		}
	}
	for _, want := range []string{"olm.package nairobi-mysql-operator", "olm.channel candidate-v0", "olm.bundle " + csv.Name} {
		if !in[want] {
			t.Errorf("the catalog lacks %s: run `make catalog`", want)
		}
	}
	if !edges[csv.Name+" replaces "+csv.Spec.Replaces] {
		t.Errorf("the channel's edges %v are not what %s says of itself: replaces %q", edges, csv.Name, csv.Spec.Replaces)
	}
}

// TestOpenShiftVersionsFitKubernetes: OpenShift 4.N has Kubernetes 1.(N+13), and its catalog's pipeline refuses a bundle that names a
// minKubeVersion and no version of OpenShift.
func TestOpenShiftVersionsFitKubernetes(t *testing.T) {
	csv := bundle(t).CSV
	var kubernetes, openshift int
	if _, err := fmt.Sscanf(csv.Spec.MinKubeVersion, "1.%d.0", &kubernetes); err != nil {
		t.Fatalf("minKubeVersion is %q: %v", csv.Spec.MinKubeVersion, err)
	}
	for file, form := range map[string]string{
		"bundle/metadata/annotations.yaml": "com.redhat.openshift.versions: v4.%d", "bundle.Dockerfile": "LABEL com.redhat.openshift.versions=v4.%d",
	} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		prefix, _, _ := strings.Cut(form, "v4")
		i := strings.Index(string(text), prefix)
		if i < 0 {
			t.Errorf("%s has no line %q", file, form)
			continue
		}
		if _, err := fmt.Sscanf(string(text[i:]), form, &openshift); err != nil || openshift+13 != kubernetes {
			t.Errorf("%s names OpenShift 4.%d (%v) beside Kubernetes 1.%d", file, openshift, err, kubernetes)
		}
	}
}

// TestImagesGetWhatTheyAreBuiltFrom: every file of this module that goes into a binary passes .dockerignore. No image is built here.
func TestImagesGetWhatTheyAreBuiltFrom(t *testing.T) {
	file, err := os.Open(filepath.Join(root, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	patterns, err := ignorefile.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", `{{if and .Module .Module.Main}}{{$p := .}}{{range .GoFiles}}{{$p.Dir}}/{{.}}
{{end}}{{range .EmbedFiles}}{{$p.Dir}}/{{.}}
{{end}}{{end}}`, ".", "./cmd/exporter", "./test/scorecard")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	above, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	files := strings.Fields(string(out))
	if len(files) < 300 {
		t.Fatalf("go list names %d files", len(files))
	}
	for _, file := range files {
		name, err := filepath.Rel(above, file)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := ignored.MatchesOrParentMatches(name); err != nil || out {
			t.Errorf("%s does not get to the image's build: %v", name, err)
		}
	}
}
