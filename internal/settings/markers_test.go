package settings

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

const (
	markedFile = "../../api/v1alpha1/mysqlcluster_types.go"
	beginMark  = "// +settings:begin"
	endMark    = "// +settings:end"
)

// TestMarkersFollowTheDecisions holds the CEL rules about spec.mysqld in the API to this package; with -update it rewrites them, and make
// generate bundle catalog comes after it.
func TestMarkersFollowTheDecisions(t *testing.T) {
	source, err := os.ReadFile(markedFile)
	if err != nil {
		t.Fatal(err)
	}
	ofSettings, ofSpec := markers()
	text := replaceMarked(t, replaceMarked(t, string(source), "", ofSpec), "\t", ofSettings)
	if text == string(source) {
		return
	}
	if !*Update {
		t.Fatal("the markers of spec.mysqld are not those of internal/settings: run this test with -update, then make generate bundle catalog")
	}
	if err := os.WriteFile(markedFile, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// replaceMarked puts markers between the marks with an indentation.
func replaceMarked(t *testing.T, text, indent string, markers []string) string {
	t.Helper()
	before, rest, found := strings.Cut(text, "\n"+indent+beginMark)
	_, after, closed := strings.Cut(rest, "\n"+indent+endMark+"\n")
	if !found || !closed {
		t.Fatalf("%s has no marks with the indentation %q", markedFile, indent)
	}
	lines := indent + strings.Join(markers, "\n"+indent)
	return before + "\n" + indent + beginMark + "\n" + lines + "\n" + indent + endMark + "\n" + after
}

// markers returns the validation rules of spec.mysqld, and those of the whole spec that are about it, as markers of kubebuilder:
// the API server refuses what Check refuses.
func markers() (ofSettings, ofSpec []string) {
	for _, v := range values() {
		ofSettings = append(ofSettings, v.marker())
	}
	for _, g := range decisions() {
		if g.reason != "" {
			ofSettings = append(ofSettings, g.marker())
		}
	}
	for _, p := range pairs() {
		ofSettings = append(ofSettings, p.marker())
	}
	for i, series := range Series {
		ofSpec = append(ofSpec, missing(series, Series[1-i]))
	}
	return ofSettings, append(ofSpec, fixed())
}

func (v valueRule) marker() string {
	names := strings.Fields(v.names)
	holds := fmt.Sprintf("!('%s' in self) || self['%s'].matches('^(%s)$')", v.names, v.names, v.like)
	if len(names) == 1 {
		return fmt.Sprintf("// +kubebuilder:validation:XValidation:rule=%q,message=%q", holds, v.names+" "+v.words)
	}
	fails := fmt.Sprintf("k in [%s] && !self[k].matches('^(%s)$')", quoted(names), v.like)
	return fmt.Sprintf("// +kubebuilder:validation:XValidation:rule=%q,messageExpression=%q",
		fmt.Sprintf("!self.exists(k, %s)", fails), fmt.Sprintf("self.filter(k, %s)[0] + ' %s'", fails, v.words))
}

// marker refuses the settings of a group, but those that are in force anyway.
func (g group) marker() string {
	names := strings.Fields(g.names)
	var holds []string
	if len(names) > 0 {
		holds = append(holds, fmt.Sprintf("k in [%s]", quoted(names)))
	}
	if len(g.families) > 0 {
		holds = append(holds, g.familyRule())
	}
	fails := strings.Join(holds, " || ")
	if harmless := g.harmless(); len(harmless) > 0 {
		fails = fmt.Sprintf("(%s) && !((k + '=' + self[k].upperAscii()) in [%s])", fails, quoted(harmless))
	}
	return fmt.Sprintf("// +kubebuilder:validation:XValidation:rule=%q,messageExpression=%q",
		fmt.Sprintf("!self.exists(k, %s)", fails), fmt.Sprintf("'remove ' + self.filter(k, %s)[0] + ': %s'", fails, g.reason))
}

// marker refuses two settings that contradict each other.
func (p pair) marker() string {
	holds := fmt.Sprintf("!('%s' in self && '%s' in self)", p.ignored, p.other)
	if p.rule != "" {
		holds += " || " + fmt.Sprintf(p.rule, p.ignored, p.other)
	}
	return fmt.Sprintf("// +kubebuilder:validation:XValidation:rule=%q,message=%q", holds, p.message())
}

// familyRule leaves out the names that a decision of their own, or a longer family, takes out of the group's families.
func (g group) familyRule() string {
	byName, families := rules()
	var others []string
	for name, d := range byName {
		if d.Reason != g.reason && g.begins(name) {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	rule := fmt.Sprintf("[%s].exists(f, k.startsWith(f))", quoted(g.families))
	if len(others) > 0 {
		rule = fmt.Sprintf("!(k in [%s]) && %s", quoted(others), rule)
	}
	for _, family := range families {
		if family.Reason != g.reason && g.begins(family.text) {
			rule = fmt.Sprintf("!k.startsWith('%s') && %s", family.text, rule)
		}
	}
	return "(" + rule + ")"
}

// begins says whether a family of the group begins a name.
func (g group) begins(name string) bool {
	return slices.ContainsFunc(g.families, func(family string) bool { return strings.HasPrefix(name, family) })
}

// harmless are name=VALUE of the group's settings that are in force anyway.
func (g group) harmless() []string {
	var pairs []string
	for name, values := range inForce() {
		if d, _ := Decide(name); d.Reason == g.reason {
			for _, value := range values {
				pairs = append(pairs, name+"="+value)
			}
		}
	}
	slices.Sort(pairs)
	return pairs
}

// missing refuses the settings that another series has and this one has not.
func missing(series, other string) string {
	var names []string
	for _, name := range Names(other) {
		if _, owned := Owned(name); !owned && Missing(series, name) {
			names = append(names, name)
		}
	}
	fails := fmt.Sprintf("k in [%s]", quoted(names))
	return fmt.Sprintf("// +kubebuilder:validation:XValidation:rule=%q,messageExpression=%q",
		fmt.Sprintf("!self.version.startsWith('%s.') || !has(self.mysqld) || !self.mysqld.exists(k, %s)", series, fails),
		fmt.Sprintf("'remove ' + self.mysqld.filter(k, %s)[0] + ' from spec.mysqld: MySQL %s has no such variable, MySQL %s has it'", fails, series, other))
}

// fixed refuses to change what counts when the cluster is made.
func fixed() string {
	var holds []string
	for _, g := range decisions() {
		if g.class != Creation {
			continue
		}
		for _, name := range strings.Fields(g.names) {
			of := func(spec string) string {
				return fmt.Sprintf("(has(%s.mysqld) && '%s' in %s.mysqld ? %s.mysqld['%s'] : '0')", spec, name, spec, spec, name)
			}
			holds = append(holds, of("self")+" == "+of("oldSelf"))
		}
	}
	return fmt.Sprintf("// +kubebuilder:validation:XValidation:rule=%q,message=%q", strings.Join(holds, " && "),
		"mysqld.lower_case_table_names cannot be changed: MySQL fixes it when the data is made. Put the old value back; to change it, make a new cluster and load a dump")
}

func quoted(names []string) string {
	return "'" + strings.Join(names, "', '") + "'"
}
