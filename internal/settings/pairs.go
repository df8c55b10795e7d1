package settings

import (
	"fmt"
	"maps"
	"slices"
)

// pair is two settings that contradict each other in one spec.
type pair struct {
	// ignored is the one that has no effect then, other the one that counts.
	ignored, other string
	// agrees says whether their values fit together; nil if they never do.
	agrees func(ignored, other string) bool
	// rule is agrees in CEL, with the two names for %[1]s and %[2]s.
	rule string
	// words follow the two names.
	words string
}

// contradicts says whether a spec has both settings with values that do not fit together.
func (p pair) contradicts(spec map[string]string) bool {
	ignored, has := spec[p.ignored]
	other, hasOther := spec[p.other]
	return has && hasOther && (p.agrees == nil || !p.agrees(ignored, other))
}

func (p pair) message() string { return fmt.Sprintf("%s and %s %s", p.ignored, p.other, p.words) }

// pairs are the settings of which one variable has two names.
func pairs() []pair {
	var all []pair
	for _, old := range slices.Sorted(maps.Keys(aliases())) {
		if _, owned := Owned(old); !owned {
			all = append(all, pair{ignored: old, other: aliases()[old], words: "are one variable: keep " + aliases()[old]})
		}
	}
	return all
}
