package settings

import (
	"strings"
	"sync"
)

// present puts the words of a deprecated name in their present form.
var present = strings.NewReplacer("slave", "replica", "master", "source")

// aliases are the deprecated names of variables with the present ones. Both name one variable: MySQL persists and resets them together.
var aliases = sync.OnceValue(func() map[string]string {
	found := map[string]string{}
	for _, series := range Series {
		for _, name := range Names(series) {
			fact, _ := Facts(series, name)
			other, known := Facts(series, present.Replace(name))
			if other.Name != name && known && fact.Variable && other.Variable {
				found[name] = other.Name
			}
		}
	}
	return found
})

// Canonical returns the present name of a variable; the name itself if it is not a deprecated one.
func Canonical(name string) string {
	if other, deprecated := aliases()[name]; deprecated {
		return other
	}
	return name
}

// ByVariable returns settings with each under its canonical name. Of a variable under both of its names the value of the canonical one counts.
func ByVariable(settings map[string]string) map[string]string {
	found := make(map[string]string, len(settings))
	for name, value := range settings {
		canonical := Canonical(name)
		if _, both := settings[canonical]; !both || name == canonical {
			found[canonical] = value
		}
	}
	return found
}
