package admin

import (
	"errors"
	"strings"
	"testing"
)

// TestRedacted: a server may quote a secret back.
func TestRedacted(t *testing.T) {
	err := redact(errors.New("near 'hunter2' at line 1"), "hunter2", "")
	if strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}
