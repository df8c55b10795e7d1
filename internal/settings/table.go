// Package settings says what becomes of every variable and option of mysqld in spec.mysqld: what MySQL does with it, which is
// read from real servers (data), and what the operator decides about it (decisions.go). The rules of the CRD, what a member is
// launched with and docs/settings.md all come from here.
package settings

import (
	"cmp"
	"embed"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed data/*.tsv
var data embed.FS

// Series are the series of MySQL that spec.version may be of, the oldest first.
var Series = []string{"8.4", "9.7"}

// Fact is what the servers of a series do with a name.
type Fact struct {
	Name string
	// Variable: it is a system variable. Option: mysqld takes it on its command line and in its option file.
	Variable, Option bool
	// Scope of a variable is global, session (it has a global value too) or session_only; empty for an option.
	Scope string
	// Dynamic: SET GLOBAL takes it. Persistable: SET PERSIST or SET PERSIST_ONLY does.
	Dynamic, Persistable bool
	// Type of a variable: integer, numeric, string, enumeration, boolean or set. Lowest and Highest are empty for those without
	// a range, and where no server of the series was asked.
	Type, Lowest, Highest string
}

// columns of the files in data.
const columns = "name\tvariable\toption\tscope\tdynamic\tpersisted\ttype\tmin\tmax"

// facts are the names of each series.
var facts = sync.OnceValue(func() map[string]map[string]Fact {
	all := map[string]map[string]Fact{}
	for _, series := range Series {
		all[series] = parse(series)
	}
	return all
})

func parse(series string) map[string]Fact {
	text, err := data.ReadFile("data/" + series + ".tsv")
	if err != nil {
		panic("the table of a series is missing: " + err.Error())
	}
	rows := map[string]Fact{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") || line == columns {
			continue
		}
		c := strings.Split(line, "\t")
		rows[c[0]] = Fact{
			Name: c[0], Variable: c[1] == "yes", Option: c[2] == "yes", Scope: c[3], Dynamic: c[4] == "yes", Persistable: c[5] == "yes",
			Type: c[6], Lowest: c[7], Highest: c[8],
		}
	}
	return rows
}

// SeriesOf returns the series of a version such as 9.7.4; empty if it is of none.
func SeriesOf(version string) string {
	i := slices.IndexFunc(Series, func(series string) bool { return strings.HasPrefix(version, series+".") })
	if i < 0 {
		return ""
	}
	return Series[i]
}

// Facts returns what the servers of a series do with a name; false for a name that they do not know.
func Facts(series, name string) (Fact, bool) {
	fact, known := facts()[series][name]
	return fact, known
}

// InRange says whether a number, or a size such as 5500M, lies within the range of a variable in some series. It is not known where no series
// has a range, and of what is no number.
func InRange(name, value string) (in, known bool) {
	number, noNumber := strconv.ParseFloat(value, 64)
	if size := sizeOf(value); noNumber != nil && size != 0 {
		number, noNumber = float64(size), nil
	}
	for _, series := range Series {
		fact, _ := Facts(series, name)
		lowest, noLowest := strconv.ParseFloat(fact.Lowest, 64)
		highest, noHighest := strconv.ParseFloat(fact.Highest, 64)
		if noNumber == nil && noLowest == nil && noHighest == nil {
			in, known = in || lowest <= number && number <= highest, true
		}
	}
	return in, known
}

// Names returns every name that a series knows, sorted.
func Names(series string) []string { return slices.Sorted(maps.Keys(facts()[series])) }

// Decision is what the operator does with a setting.
type Decision struct {
	Class Class
	// Reason follows the setting's name: why it is not taken, and what to do instead.
	Reason string
}

// rule is a name or a beginning of names with its decision.
type rule struct {
	text string
	Decision
}

// rules are the decisions by name, and the families, the longest first.
var rules = sync.OnceValues(func() (map[string]Decision, []rule) {
	byName, families := map[string]Decision{}, []rule(nil)
	for _, g := range decisions() {
		for _, name := range strings.Fields(g.names) {
			byName[name] = Decision{g.class, g.reason}
		}
		for _, family := range g.families {
			families = append(families, rule{family, Decision{g.class, g.reason}})
		}
	}
	slices.SortFunc(families, func(a, b rule) int {
		return cmp.Or(cmp.Compare(len(b.text), len(a.text)), strings.Compare(a.text, b.text))
	})
	return byName, families
})

// Decide returns what the operator does with a setting; false for a name that it has no decision about: a component or plug-in
// may bring it, and mysqld says what it thinks of it.
func Decide(name string) (Decision, bool) {
	byName, families := rules()
	if d, ok := byName[name]; ok {
		return d, true
	}
	for _, family := range families {
		if strings.HasPrefix(name, family.text) {
			return family.Decision, true
		}
	}
	return Decision{}, false
}

// Owned says whether a setting is not a user's, and why, in words that follow the setting's name.
func Owned(name string) (reason string, owned bool) {
	d, _ := Decide(name)
	return d.Reason, d.Class == Operators || d.Class == Refused
}

// Missing says whether a series lacks a setting that another has.
func Missing(series, name string) bool {
	_, known := Facts(series, name)
	return !known && slices.ContainsFunc(Series, func(other string) bool {
		_, known := Facts(other, name)
		return known
	})
}
