package policy_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
	"github.com/alx-ke/nairobi-mysql-operator/internal/releasekeys"
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

// A mirror is allowed by the pattern of what is below it.
func TestMirrorsAreAllowedLikeWhatIsInThem(t *testing.T) {
	p := parse(t, `namespaces: {shop: {operatorCredentials: true, subnets: ["*"], downloads: ["https://mirror/mysql/*"]}}`)
	for mirror, message := range map[string]string{
		"https://mirror/mysql":       "",
		"https://mirror/mysql/":      "",
		"https://mirror/mysql/8.4":   "",
		"https://mirror/mysql-other": "namespace shop may not use https://mirror/mysql-other/",
		"https://mirror":             "namespace shop may not use https://mirror/",
		"https://mirror/mysql/..":    "leads elsewhere",
	} {
		found := p.Check("shop", spec(func(s *v1alpha1.MySQLClusterSpec) { s.AWS.Download = &v1alpha1.DownloadSpec{Mirror: mirror} }))
		if (len(found) == 0) != (message == "") || len(found) > 0 && (found[0].Field != "spec.aws.download.mirror" || !strings.Contains(found[0].Message, message)) {
			t.Errorf("%s: %v", mirror, found)
		}
	}
	if found := p.Check("shop", spec(func(*v1alpha1.MySQLClusterSpec) {})); len(found) > 0 {
		t.Errorf("MySQL's own site, which is verified by MySQL's signature: %v", found)
	}
}

// The administrator's keys replace those that this build knows. Keys that cannot be read are a mistake in the policy.
func TestReleaseKeysOfTheAdministrator(t *testing.T) {
	text := map[string]string{policy.Key: "namespaces: {}"}
	p, err := policy.Parse(text)
	if err != nil || p.ReleaseKeys().Keys[0] != releasekeys.MySQL().Keys[0] {
		t.Fatalf("without keys of its own the policy has %v, %v", p.ReleaseKeys().Keys, err)
	}
	if keys := (policy.Policy{}).ReleaseKeys().Keys; keys[0] != releasekeys.MySQL().Keys[0] {
		t.Errorf("without a policy the keys are %v", keys)
	}

	entity, err := openpgp.NewEntity("Next Release Engineering", "", "next@example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	var block bytes.Buffer
	w, err := armor.Encode(&block, openpgp.PublicKeyType, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(entity.Serialize(w), w.Close()); err != nil {
		t.Fatal(err)
	}
	text[policy.ReleaseKeysKey] = block.String()
	p, err = policy.Parse(text)
	if want := fmt.Sprintf("%X", entity.PrimaryKey.Fingerprint); err != nil || len(p.ReleaseKeys().Keys) != 1 || p.ReleaseKeys().Keys[0].Fingerprint != want {
		t.Errorf("the keys are %v, want %s; %v", p.ReleaseKeys().Keys, want, err)
	}

	text[policy.ReleaseKeysKey] = "BCA4 3417"
	if _, err := policy.Parse(text); !errors.Is(err, policy.ErrInvalid) || !strings.Contains(err.Error(), policy.ReleaseKeysKey) {
		t.Errorf("got %v", err)
	}
}
