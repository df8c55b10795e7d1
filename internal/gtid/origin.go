package gtid

import "strings"

// Precedes says whether a transaction of s comes before one of o: under the same UUID and tag it has a smaller number.
func (s Set) Precedes(o Set) bool {
	for _, src := range s.sources {
		for _, other := range o.sources {
			if src.key == other.key && src.intervals[0].start < other.intervals[len(other.intervals)-1].stop-1 {
				return true
			}
		}
	}
	return false
}

// WithoutSource returns the transactions of s that were not first committed on the server with the given UUID,
// whatever their tag.
func (s Set) WithoutSource(uuid string) Set {
	uuid = strings.ToLower(uuid)
	var kept []source
	for _, src := range s.sources {
		if src.key != uuid && !strings.HasPrefix(src.key, uuid+":") {
			kept = append(kept, src)
		}
	}
	return Set{sources: kept}
}
