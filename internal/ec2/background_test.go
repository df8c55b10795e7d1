package ec2

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
)

// deaf never answers calls that are signed with certain keys.
type deaf struct{ next http.RoundTripper }

const deafKey = "AKIADEAF"

// RoundTrip implements http.RoundTripper.
func (d deaf) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.Header.Get("Authorization"), "Credential="+deafKey) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return d.next.RoundTrip(r)
}

// One account that does not answer must not make the view of the others old.
func TestDeadAccountsDoNotHoldUpTheOthers(t *testing.T) {
	l := newLab(t)
	i := l.running("orders-0")
	f := NewFactory(Options{Config: awsapi.Config{Endpoint: l.proxy.Endpoint(), Clock: l.clock, CallTimeout: settleTime,
		Middleware: func(next http.RoundTripper) http.RoundTripper { return deaf{next} }}})
	cloud := func(key string) *Cloud {
		t.Helper()
		c, err := f.Cloud(t.Context(), awsapi.Account{Region: moto.Region, Static: &awsapi.StaticCredentials{AccessKeyID: key, SecretAccessKey: "x"}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for n := range sweepsAtOnce - 1 {
		cloud(deafKey + string(rune('A'+n)))
	}
	live := cloud(moto.AccessKeyID)
	if _, _, err := live.Inventory.Subnets(t.Context(), l.seeded.SubnetIDs()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.round(ctx)
	}()
	deadline := time.Now().Add(settleTime / 2)
	for !stateOf(i.ID, inventory.StateRunning)(live.Inventory.Known(l.owner.ClusterUID)) {
		if time.Now().After(deadline) {
			t.Fatal("the account that answers was not swept")
		}
		time.Sleep(settleDelay)
	}
	select {
	case <-ended:
		t.Error("nobody was deaf: the test shows nothing")
	default:
	}
	cancel()
	<-ended
}

// TestLargeAccountsAreSweptLessOften: a sweep of two pages and more is made in every second round, and at once when it is asked for.
func TestLargeAccountsAreSweptLessOften(t *testing.T) {
	for name, row := range map[string]struct{ instances, every int }{"none": {0, 1}, "a page": {inventory.PageSize / 2, 1}, "two pages": {inventory.PageSize + 1, 2}, "many": {9 * inventory.PageSize, inventory.MostPages}} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			f := NewFactory(Options{Config: awsapi.Config{Endpoint: l.proxy.Endpoint(), Clock: l.clock, CallTimeout: settleTime}})
			c, err := f.Cloud(t.Context(), awsapi.Account{Region: moto.Region, Static: &awsapi.StaticCredentials{AccessKeyID: moto.AccessKeyID, SecretAccessKey: "x"}})
			if err != nil {
				t.Fatal(err)
			}
			swept := func() bool { return c.Inventory.Known("").Taken.Equal(l.clock.Now()) }
			f.round(t.Context())
			for round := 1; round <= 2*inventory.MostPages; round++ {
				for n := range row.instances {
					id := fmt.Sprintf("i-%d", n)
					c.Inventory.Instances.Created(id, inventory.Instance{ID: id}) // EC2 does not list what is this new
				}
				l.pass(f.options.SweepInterval)
				f.round(t.Context())
				now := swept()
				if want := round%row.every == 0; now != want {
					t.Errorf("round %d: swept: %t, want %t", round, now, want)
				}
			}
			l.pass(f.options.SweepInterval)
			c.Inventory.Freshen(t.Context(), 2*f.options.SweepInterval)
			if swept() {
				t.Error("swept, and nobody asked for it")
			}
			c.Inventory.Freshen(t.Context(), f.options.SweepInterval-1)
			for deadline := time.Now().Add(settleTime); !swept(); time.Sleep(settleDelay) {
				if time.Now().After(deadline) {
					t.Fatal("it was not swept when that was asked for")
				}
			}
		})
	}
}
