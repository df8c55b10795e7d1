package settings_test

import (
	"os"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/settings"
)

// TestDocsFollowTheTable holds docs/settings.md to the table.
func TestDocsFollowTheTable(t *testing.T) {
	const path = "../../docs/settings.md"
	if *update {
		if err := os.WriteFile(path, []byte(settings.Table()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != settings.Table() {
		t.Errorf("%s is not what internal/settings says: run this test with -update", path)
	}
}
