//go:build e2e

package chaos

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
)

const (
	// sliceFaults are what CI can afford.
	sliceFaults = 6
	// briefly is how long a fault lasts at the most, so that each is over in about half a minute.
	briefly = 12 * time.Second
	// deleteTimeout bounds taking the cluster away.
	deleteTimeout = 5 * time.Minute
)

// quick leaves out what takes minutes by its nature: mysqld tries again to write to a full disk after a minute.
func quick(f Fault) bool { return f.Name != "disk full, primary" }

// TestChaosSlice does a few seeded faults of all that `make chaos` does. It runs on a lab that is up.
func TestChaosSlice(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv("NAIROBI_SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().Unix()) //nolint:gosec // a time after 1970
	}
	t.Logf("NAIROBI_SEED=%d", seed)
	lab, err := deploy.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	image, err := lab.PushOperatorImage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := lab.InstallOperator(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKey{Namespace: "chaos", Name: "ledger"}
	t.Cleanup(func() {
		if err := lab.Delete(context.Background(), key, deleteTimeout); err != nil {
			t.Errorf("take the cluster away: %v", err)
		}
	})
	world, err := Open(t.Context(), Options{Lab: lab, Key: key, Seed: seed, Dir: t.ArtifactDir(), Out: t.Output(), HoldAtMost: briefly})
	if err != nil {
		lab.Diagnose(t.Context(), t.Output(), key)
		t.Fatal(err)
	}
	var results []Result
	for _, f := range world.Order(sliceFaults, quick) {
		began := time.Now()
		result, err := world.Run(t.Context(), f)
		results = append(results, result)
		if err != nil {
			t.Error(err)
			world.Explain(t.Context(), began)
			t.Logf("%s", world.Story(began))
			lab.Diagnose(t.Context(), t.Output(), key)
			break
		}
	}
	t.Logf("\n%s", Table(results))
	if err := world.Close(); err != nil {
		t.Error(err)
	}
}
