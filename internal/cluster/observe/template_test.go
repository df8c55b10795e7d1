package observe

import (
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// The texts of running clusters must stay: another text is another hash, and replaces every instance.
func TestTemplateTextsStay(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	const rest = `{"Version":"9.7.4","InstanceType":"m6i.large","ImageID":"","ImageSSMParameter":"","IAMInstanceProfile":"","KeyName":""`
	for want, download := range map[string]*v1alpha1.DownloadSpec{
		rest + `}`: nil,
		rest + `,"Download":{"url":"https://a.b/c","sha256":"` + sum + `"}}`: {URL: "https://a.b/c", SHA256: sum},
		rest + `,"Download":{"mirror":"https://a.b"}}`:                       {Mirror: "https://a.b"},
	} {
		c := &v1alpha1.MySQLCluster{Spec: v1alpha1.MySQLClusterSpec{Version: "9.7.4", AWS: v1alpha1.AWSSpec{InstanceType: "m6i.large", Download: download}}}
		if got := TemplateOf(c).Text(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
