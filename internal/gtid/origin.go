package gtid

import "strings"

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
