package policy_test

import (
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TestDownloadsDoNotClimbOutOfAPattern: what a pattern allows as text must be what is fetched.
func TestDownloadsDoNotClimbOutOfAPattern(t *testing.T) {
	p := parse(t, `namespaces: {shop: {operatorCredentials: true, subnets: ["*"], downloads: ["https://mirror/mysql/*"]}}`)
	for path, climbs := range map[string]bool{
		"mysql-9.7.4.tar.xz":   false,
		"9.7/.hidden/a..b/..c": false,
		"a%2Fb/...":            false,
		"../other/x":           true,
		"a/../../other/x":      true,
		"./x":                  true,
		"x/..":                 true,
		"x/.":                  true,
		"%2e%2E/other/x":       true,
		".%2e/other/x":         true,
		"a%2f..%2Fother":       true,
		"..%5cother":           true,
	} {
		found := p.Check("shop", spec(func(s *v1alpha1.MySQLClusterSpec) {
			s.AWS.Download = &v1alpha1.DownloadSpec{URL: "https://mirror/mysql/" + path, SHA256: strings.Repeat("0a", 32)}
		}))
		if climbs != (len(found) == 1 && found[0].Field == "spec.aws.download.url" && !found[0].Account && strings.Contains(found[0].Message, "leads elsewhere")) || !climbs && len(found) > 0 {
			t.Errorf("%s: %v, want it refused: %v", path, found, climbs)
		}
	}
}
