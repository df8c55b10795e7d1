package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"
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

// pairs are a variable's two names, and the character sets with the collations that set them too.
func pairs() []pair {
	var all []pair
	for _, of := range []string{"server", "database", "connection"} {
		all = append(all, pair{
			ignored: "character_set_" + of, other: "collation_" + of, agrees: isOfCharacterSet,
			rule:  "(self['%[2]s'] + '_').lowerAscii().replace('utf8_', 'utf8mb3_').startsWith((self['%[1]s'] + '_').lowerAscii().replace('utf8_', 'utf8mb3_'))",
			words: "contradict each other: a collation sets its character set too, with which its name begins. Keep the collation alone, or change one of them",
		})
	}
	for _, old := range slices.Sorted(maps.Keys(aliases())) {
		if _, owned := Owned(old); !owned {
			all = append(all, pair{ignored: old, other: aliases()[old], words: "are one variable: keep " + aliases()[old]})
		}
	}
	return all
}

// isOfCharacterSet says whether a collation is one of a character set. utf8 is another name of utf8mb3.
func isOfCharacterSet(characterSet, collation string) bool {
	present := func(name string) string { return strings.ReplaceAll(strings.ToLower(name+"_"), "utf8_", "utf8mb3_") }
	return strings.HasPrefix(present(collation), present(characterSet))
}
