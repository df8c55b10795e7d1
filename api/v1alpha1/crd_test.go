package v1alpha1_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

const crdName = "mysqlclusters.mysql.alx.ke"

func TestSamples(t *testing.T) {
	api := api(t)
	for _, file := range []string{"smallest.yaml", "mysql_v1alpha1_mysqlcluster.yaml", "aws-mysql-prod.yaml", "restore-from-snapshot.yaml"} {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "..", "config", "samples", file))
			if err != nil {
				t.Fatal(err)
			}
			var typed v1alpha1.MySQLCluster
			if err := yaml.UnmarshalStrict(text, &typed); err != nil {
				t.Fatalf("a field is not known: %v", err)
			}
			typed.Namespace = metav1.NamespaceDefault
			if err := api.Create(t.Context(), &typed, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			if typed.ReplicaCount() != 3 || !typed.IsProtected() || !typed.Spec.Lossless() {
				t.Errorf("the sample is not a protected, lossless cluster of three: %+v", typed.Spec)
			}
		})
	}
}

// TestDefaultsAreThoseOfGo compares what the API server fills in with what the accessors say of an empty spec.
func TestDefaultsAreThoseOfGo(t *testing.T) {
	api := api(t)
	for name, changes := range map[string][]change{
		"nothing set":       {set("replicas", nil), set("database.name", "a")},
		"empty sub-objects": {set("replicas", nil), set("database.name", "a"), set("storage", map[string]any{}), set("replication", map[string]any{})},
	} {
		t.Run(name, func(t *testing.T) {
			object := cluster(t, "defaults", changes...)
			if err := api.Create(t.Context(), object, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			var filled v1alpha1.MySQLCluster
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &filled); err != nil {
				t.Fatal(err)
			}
			s := filled.Spec
			if s.Replicas == nil || s.Storage.Size == nil || s.Storage.Encrypted == nil || s.Replication.MaxLag == nil || s.DeletionProtection == nil {
				t.Fatalf("not filled in: %+v", s)
			}
			var empty v1alpha1.MySQLCluster
			got := fmt.Sprint(*s.Replicas, s.Storage.SizeGiB(), s.Storage.Type, *s.Storage.Encrypted, s.Storage.DeletionPolicy,
				s.Replication.Durability, s.Replication.Acknowledge, s.Replication.MaxLag.Duration, *s.DeletionProtection, s.Database.Owner)
			e := &empty.Spec
			want := fmt.Sprint(empty.ReplicaCount(), empty.StorageGiB(), e.Storage.VolumeType(), e.Storage.IsEncrypted(), e.Storage.EffectiveDeletionPolicy(),
				v1alpha1.DefaultDurability, v1alpha1.DefaultAcknowledge, empty.EffectiveMaxLag(), empty.IsProtected(), e.Database.OwnerName())
			if got != want {
				t.Errorf("the API server fills in %s, Go says %s", got, want)
			}
		})
	}
}

func TestAccessorsTakeNil(t *testing.T) {
	var none *v1alpha1.MySQLCluster
	if none.ReplicaCount() != 3 || none.StorageGiB() != 20 || !none.IsProtected() || none.MemberName(0) != "" || none.AbandonsCloudResources() {
		t.Error("an absent cluster has other defaults than an empty one")
	}
	var spec *v1alpha1.MySQLClusterSpec
	var storage *v1alpha1.StorageSpec
	if !spec.Lossless() || spec.Settings() != nil || !storage.IsEncrypted() || storage.VolumeType() != "gp3" || storage.EffectiveDeletionPolicy() != "Snapshot" ||
		storage.EffectiveIOPS() != 3000 || storage.EffectiveThroughput() != 125 {
		t.Error("an absent spec has other defaults than an empty one")
	}
	if io2 := (&v1alpha1.StorageSpec{Type: v1alpha1.VolumeTypeIO2}); io2.EffectiveIOPS() != 0 || io2.EffectiveThroughput() != 0 {
		t.Error("io2 has defaults, which EC2 does not know")
	}
}

func TestColumns(t *testing.T) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := api(t).Get(t.Context(), client.ObjectKey{Name: crdName}, &crd); err != nil {
		t.Fatal(err)
	}
	if crd.Spec.Scope != apiextensionsv1.NamespaceScoped || fmt.Sprint(crd.Spec.Names.ShortNames) != "[nmysql]" || len(crd.Spec.Names.Categories) != 0 {
		t.Errorf("scope %s, short names %v", crd.Spec.Scope, crd.Spec.Names.ShortNames)
	}
	var usual, wide []string
	for _, column := range crd.Spec.Versions[0].AdditionalPrinterColumns {
		if column.Priority == 0 {
			usual = append(usual, column.Name)
		} else {
			wide = append(wide, column.Name)
		}
	}
	if fmt.Sprint(usual) != "[Available Phase Ready Primary Version Age]" || fmt.Sprint(wide) != "[Lag Last Backup PITR From Cost/Month Type Region]" {
		t.Errorf("columns %v, wide %v", usual, wide)
	}
}

// TestTableShowsStatus reads the cells that kubectl get prints.
func TestTableShowsStatus(t *testing.T) {
	api := api(t)
	ago := func(d time.Duration) string { return time.Now().UTC().Add(-d).Format(time.RFC3339) }
	object := cluster(t, "table")
	if err := api.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	object.Object["status"] = map[string]any{
		"phase": "Ready", "readyMembers": "3/3", "primary": "table-1", "version": "9.7.1", "lag": "<1s", "replicas": int64(3), "selector": "mysql.alx.ke/cluster=table",
		"conditions": []any{map[string]any{"type": "Available", "status": "True", "reason": "WriteSucceeded", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}},
		"cost":       map[string]any{"monthly": "512.40", "currency": "USD"},
		"backup":     map[string]any{"lastGoodAt": ago(5 * time.Hour), "firstRecoverablePoint": ago(13 * 24 * time.Hour)},
	}
	if err := api.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(server.config)
	config.GroupVersion, config.APIPath = &v1alpha1.GroupVersion, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	raw, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	read := func(path, accept string) map[string]any {
		body, err := raw.Get().AbsPath(path).SetHeader("Accept", accept).DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		answer := map[string]any{}
		if err := yaml.Unmarshal(body, &answer); err != nil {
			t.Fatal(err)
		}
		return answer
	}
	const path = "/apis/mysql.alx.ke/v1alpha1/namespaces/default/mysqlclusters/table"
	rows, _, err := unstructured.NestedSlice(read(path, "application/json;as=Table;v=v1;g=meta.k8s.io"), "rows")
	if err != nil || len(rows) != 1 {
		t.Fatalf("%v, %v", rows, err)
	}
	cells, ok := rows[0].(map[string]any)["cells"].([]any)
	if !ok || len(cells) != 13 {
		t.Fatalf("cells %v", cells)
	}
	if got := fmt.Sprint(append(cells[:6:6], cells[7:]...)); got != "[table True Ready 3/3 table-1 9.7.1 <1s 5h 13d 512.40 r7g.large us-east-1]" {
		t.Errorf("kubectl get prints %s", got)
	}
	scale := read(path+"/scale", "application/json")
	if got := fmt.Sprint(scale["spec"], scale["status"]); got != "map[replicas:3] map[replicas:3 selector:mysql.alx.ke/cluster=table]" {
		t.Errorf("the scale subresource says %s", got)
	}
}

// TestEverythingIsBoundedAndExplained walks the schema: what has no bound costs the rules' budget and etcd's, and what
// has no description leaves kubectl explain empty.
func TestEverythingIsBoundedAndExplained(t *testing.T) {
	for _, name := range []string{crdName, "mysqlbackups.mysql.alx.ke"} {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := api(t).Get(t.Context(), client.ObjectKey{Name: name}, &crd); err != nil {
			t.Fatal(err)
		}
		schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		for _, part := range []string{"spec", "status"} {
			walk(t, part, schema.Properties[part])
		}
	}
}

func walk(t *testing.T, path string, s apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	if s.Description == "" {
		t.Errorf("%s has no description", path)
	}
	switch s.Type {
	case "string":
		if s.MaxLength == nil && len(s.Enum) == 0 && s.Format == "" {
			t.Errorf("%s has no maximal length", path)
		}
	case "integer":
		if strings.HasPrefix(path, "spec") && (s.Minimum == nil || s.Maximum == nil) {
			t.Errorf("%s has no range", path)
		}
	case "array":
		if s.MaxItems == nil {
			t.Errorf("%s has no maximal number of items", path)
		}
		item := *s.Items.Schema
		item.Description = "an item"
		walk(t, path+"[]", item)
	case "object":
		if s.AdditionalProperties != nil {
			if s.MaxProperties == nil {
				t.Errorf("%s has no maximal number of entries", path)
			}
			walk(t, path+"{}", *s.AdditionalProperties.Schema)
		}
		for name, property := range s.Properties {
			walk(t, path+"."+name, property)
		}
	}
}

// freeText are the strings of a spec that may hold what a shell would take for a command, and why that is one nowhere.
var freeText = map[string]string{
	"spec.aws.tags{}":                                             "goes to EC2 as it is, and nowhere else",
	"spec.backup.destination.s3.prefix":                           "goes to the pods as JSON, and to S3",
	"spec.bootstrap.recovery.objectStore.destination.s3.prefix":   "the same",
	"spec.backup.destination.s3.caBundle":                         "has line breaks, as certificates do, and nothing else that a shell knows",
	"spec.bootstrap.recovery.objectStore.destination.s3.caBundle": "the same",
	"spec.bootstrap.recovery.archive.destination.s3.prefix":       "the same",
	"spec.bootstrap.recovery.archive.destination.s3.caBundle":     "the same",
}

// matchesFirst is the beginning of a rule that only a string of its pattern can satisfy, unless the rule has another alternative.
var matchesFirst = regexp.MustCompile(`^self\.matches\('([^'\\]*)'\) && `)

// patternOf returns the pattern that every value of a string has: that of its schema, or that with which one of its rules begins.
func patternOf(s apiextensionsv1.JSONSchemaProps) string {
	if s.Pattern != "" {
		return s.Pattern
	}
	for _, r := range s.XValidations {
		if found := matchesFirst.FindStringSubmatch(r.Rule); found != nil && !strings.Contains(r.Rule, "||") {
			return found[1]
		}
	}
	return ""
}

// TestNoStringHoldsACommand walks the schema: what a field takes is an alphabet without anything that a shell knows, or a rule
// says what it takes, which TestCreate tries, or it is one of those of which it is known that they are quoted.
func TestNoStringHoldsACommand(t *testing.T) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := api(t).Get(t.Context(), client.ObjectKey{Name: crdName}, &crd); err != nil {
		t.Fatal(err)
	}
	met := map[string]bool{}
	count := 0
	var look func(path string, s apiextensionsv1.JSONSchemaProps)
	look = func(path string, s apiextensionsv1.JSONSchemaProps) {
		if s.Items != nil {
			look(path+"[]", *s.Items.Schema)
		}
		if s.AdditionalProperties != nil {
			look(path+"{}", *s.AdditionalProperties.Schema)
		}
		for name, property := range s.Properties {
			look(path+"."+name, property)
		}
		if s.Type != "string" && !s.XIntOrString || len(s.Enum) > 0 {
			return
		}
		count++
		if evil := evilIn(t, patternOf(s)); evil != "" {
			if met[path] = true; freeText[path] == "" && ruled[path] == nil {
				t.Errorf("%s takes %s by its pattern %q: give it a Pattern, begin its rule with self.matches('^…$') && …, or add a row to ruled (contract_test.go) that tries it",
					path, evil, patternOf(s))
			}
		}
	}
	look("spec", crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"])
	for _, path := range slices.Concat(slices.Collect(maps.Keys(freeText)), slices.Collect(maps.Keys(ruled))) {
		if !met[path] {
			t.Errorf("%s is none of the strings that take anything", path)
		}
	}
	if count < 30 {
		t.Errorf("there are only %d strings", count)
	}
}

// evilIn names what a pattern lets through of that which a shell knows, "" for nothing.
func evilIn(t *testing.T, pattern string) string {
	t.Helper()
	if !strings.HasPrefix(pattern, "^") || !strings.HasSuffix(pattern, "$") {
		return "anything"
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		t.Fatal(err)
	}
	found := ""
	var look func(*syntax.Regexp)
	look = func(r *syntax.Regexp) {
		for _, evil := range "$`;|&'\"\\\n\x00<>" {
			switch r.Op {
			case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
				found = "anything"
			case syntax.OpLiteral:
				if slices.Contains(r.Rune, evil) {
					found = strconv.QuoteRune(evil)
				}
			case syntax.OpCharClass:
				for i := 0; i < len(r.Rune); i += 2 {
					if r.Rune[i] <= evil && evil <= r.Rune[i+1] {
						found = strconv.QuoteRune(evil)
					}
				}
			default: // what only says how others follow each other
			}
		}
		for _, sub := range r.Sub {
			look(sub)
		}
	}
	look(parsed)
	return found
}
