package cloud_test

import (
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/cloud"
)

func TestNextVersion(t *testing.T) {
	for version, want := range map[string]string{"9.7.4": "9.7.5", "8.4.10": "8.4.11", "9.7.9": "", "9.7.99": "", "": "", "9.7.x": ""} {
		if got := cloud.NextVersion(version); got != want {
			t.Errorf("after %q comes %q, want %q", version, got, want)
		}
	}
}
