package bench

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// TestMain lets this program be the operator when it is called as one; see child.go.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	if err := runChild(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "operator:", err)
		os.Exit(1)
	}
}
