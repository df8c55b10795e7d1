package inventory

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"

	clocktesting "k8s.io/utils/clock/testing"
)

// sluggish is an EC2 that does not answer in time when more is asked for than it can take at once.
type sluggish struct {
	takes string // the sizes in its time
	asked []string
}

// RoundTrip implements http.RoundTripper.
func (s *sluggish) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	size := form.Get("MaxResults")
	if len(s.asked) == 0 || s.asked[len(s.asked)-1] != size {
		s.asked = append(s.asked, size)
	}
	if !strings.Contains(s.takes, "|"+size+"|") {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservationSet><item><instancesSet><item><instanceId>i-1</instanceId></item></instancesSet></item></reservationSet></DescribeInstancesResponse>`))}, nil
}

// In an account with thousands of instances a full page may take EC2 longer than a call may take: it would never be read.
func TestPagesThatTakeTooLongAreMadeSmaller(t *testing.T) {
	ec2 := &sluggish{takes: "|250|125|"}
	clock := clocktesting.NewFakePassiveClock(time.Now())
	clients, err := awsapi.NewConnector(awsapi.Config{
		Clock: clock, CallTimeout: 10 * time.Millisecond, Middleware: func(http.RoundTripper) http.RoundTripper { return ec2 },
	}).Connect(t.Context(), awsapi.Account{Region: "us-east-1", Static: &awsapi.StaticCredentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "example"}})
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader(clients, Options{Clock: clock, Interval: SweepInterval})
	r.lists.paging.failed(errors.New("connection refused"))
	for _, step := range []struct {
		after time.Duration
		ok    bool
		asked string
	}{
		{0, false, "1000"},
		{SweepInterval, false, "500"},
		{SweepInterval, true, "250"},
		{pageRegrows - SweepInterval - time.Second, true, "250"},
		{time.Second, false, "500"},
		{SweepInterval, true, "250"},
	} {
		clock.SetTime(clock.Now().Add(step.after))
		ec2.asked = nil
		_, err := r.Instances.List(t.Context())
		if (err == nil) != step.ok || !slices.Equal(ec2.asked, []string{step.asked}) {
			t.Errorf("after %s pages of %v were asked for (%v), want %s", step.after, ec2.asked, err, step.asked)
		}
	}
	// Whatever happens, pages stay large enough; and lists that time out side by side count once.
	ec2.takes = "|1000|"
	for range 9 {
		clock.SetTime(clock.Now().Add(SweepInterval))
		for range 4 {
			if _, err := r.Instances.List(t.Context()); err == nil {
				t.Fatal("a small page was read")
			}
		}
	}
	if size := *r.lists.paging.next(); size != smallestPage {
		t.Errorf("the smallest page is of %d", size)
	}
	ec2.takes = "|100|200|400|800|1000|"
	for range 4 {
		clock.SetTime(clock.Now().Add(pageRegrows))
		if _, err := r.Instances.List(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if size := *r.lists.paging.next(); size != PageSize {
		t.Errorf("after a while pages are of %d", size)
	}
}
