package v1alpha1

import (
	"flag"
	"os"
	"strings"
	"testing"
)

// update rewrites the markers of spec.mysqld from ownedGroups: go test ./api/v1alpha1 -run TestMarkersFollow -update,
// then make generate.
var update = flag.Bool("update", false, "rewrite the markers that are rendered from Go")

const markedFile = "mysqlcluster_types.go"

// TestMarkersFollowTheGoList holds the CEL rules of spec.mysqld to the one list that Go uses.
func TestMarkersFollowTheGoList(t *testing.T) {
	const begins = `	// +kubebuilder:validation:XValidation:rule="!self.exists(k, !(k.lowerAscii()`
	const anchor = `	// +optional
	MySQLD map[string]PlainValue`

	source, err := os.ReadFile(markedFile)
	if err != nil {
		t.Fatal(err)
	}
	var want, rest []string
	for _, group := range ownedGroups() {
		want = append(want, "\t"+group.marker())
	}
	var have []string
	for _, line := range strings.Split(string(source), "\n") {
		if strings.HasPrefix(line, begins) {
			have = append(have, line)
			continue
		}
		rest = append(rest, line)
	}
	if strings.Join(have, "\n") == strings.Join(want, "\n") {
		return
	}
	if !*update {
		t.Fatal("the markers of spec.mysqld are not those of ownedGroups: run this test with -update and generate the CRD anew")
	}
	text := strings.Replace(strings.Join(rest, "\n"), anchor, strings.Join(want, "\n")+"\n"+anchor, 1)
	if err := os.WriteFile(markedFile, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
