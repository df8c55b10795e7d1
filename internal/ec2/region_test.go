package ec2

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// TestRegionOfSTS: who the operator is, is asked in its own region; where the cluster is, EC2 is asked. A tenant's keys know only theirs.
func TestRegionOfSTS(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "own")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "own")
	for name, c := range map[string]struct {
		option, environment string
		account             awsapi.Account
		want                string
	}{
		"option":         {"eu-west-1", "eu-west-2", awsapi.Account{Region: "us-east-1"}, "eu-west-1"},
		"environment":    {"", "eu-west-2", awsapi.Account{Region: "us-east-1"}, "eu-west-2"},
		"neither":        {"", "", awsapi.Account{Region: "us-east-1"}, "us-east-1"},
		"a tenant's key": {"eu-west-1", "eu-west-2", awsapi.Account{Region: "cn-north-1", Static: &awsapi.StaticCredentials{AccessKeyID: "a", SecretAccessKey: "b"}}, "cn-north-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("AWS_REGION", c.environment)
			// Each has a server of its own: a list that was given up may arrive late.
			var mu sync.Mutex
			scopes := map[string]bool{}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, scope, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
				mu.Lock()
				defer mu.Unlock()
				if parts := strings.Split(scope, "/"); len(parts) > 3 {
					scopes[parts[3]+" in "+parts[2]] = true
				}
				http.Error(w, "<Response><Errors><Error><Code>AccessDenied</Code></Error></Errors></Response>", http.StatusForbidden)
			}))
			t.Cleanup(server.Close)
			cloud, err := NewFactory(Options{Config: awsapi.Config{Endpoint: server.URL, Region: c.option}}).Cloud(t.Context(), c.account)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = cloud.Inventory.AccountID(t.Context())
			_, _ = cloud.Inventory.Observe(t.Context(), "uid", time.Minute)
			mu.Lock()
			defer mu.Unlock()
			if !scopes["sts in "+c.want] || !scopes["ec2 in "+c.account.Region] || len(scopes) != 2 {
				t.Errorf("asked were %v", scopes)
			}
		})
	}
}
