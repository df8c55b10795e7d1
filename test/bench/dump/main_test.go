package dump

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// TestMain lets this program be the upload of the dump by hand when it is called as that.
func TestMain(m *testing.M) {
	target := os.Getenv(uploadVariable)
	if target == "" {
		os.Exit(m.Run())
	}
	if err := upload(context.Background(), target, os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "upload:", err)
		os.Exit(1)
	}
}
