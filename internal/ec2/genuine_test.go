package ec2

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
)

// meddler stands between the operator and EC2. answer returns nil to let a call pass.
type meddler struct {
	next   http.RoundTripper
	answer func(action string, form url.Values) *http.Response
}

// RoundTrip implements http.RoundTripper.
func (m meddler) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	if answer := m.answer(form.Get("Action"), form); answer != nil {
		answer.Request = r
		return answer, nil
	}
	return m.next.RoundTrip(r)
}

func says(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/xml"}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
}

// The SDK takes all of these for an answer that lists nothing, but for the last ones.
var notEC2 = map[string]string{
	"nothing":           "",
	"a declaration":     `<?xml version="1.0" encoding="UTF-8"?>` + "\n",
	"a portal's page":   `<html><head><title>Sign in</title></head><body>Please sign in</body></html>`,
	"another's answer":  `<?xml version="1.0"?><DescribeTagsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><tagSet/></DescribeTagsResponse>`,
	"text":              "upstream connect error",
	"an answer cut off": `<?xml version="1.0"?><%sResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservationSet><item>`,
}

func TestWhatIsNotEC2sAnswerIsNoAnswer(t *testing.T) {
	for name, page := range notEC2 {
		t.Run(name, func(t *testing.T) {
			var meddles atomic.Bool
			l := newLab(t, func(o *Options) {
				o.Middleware = func(next http.RoundTripper) http.RoundTripper {
					return meddler{next, func(action string, _ url.Values) *http.Response {
						if !meddles.Load() {
							return nil
						}
						return says(http.StatusOK, strings.ReplaceAll(page, "%s", action))
					}}
				}
			})
			i, v := l.running("orders-0"), l.available("orders-0")
			l.observe()
			l.pass(inventory.FreshFor + time.Minute)
			meddles.Store(true)
			inv, err := l.cloud.Inventory.Observe(t.Context(), l.owner.ClusterUID, time.Second)
			if !awsapi.IsUnreachable(err) || len(inv.Instances) != 1 || len(inv.Volumes) != 1 {
				t.Errorf("a sweep shows %+v (%v), want Unreachable and what was known", inv, err)
			}
			if inv, err := l.now(); !awsapi.IsUnreachable(err) || len(inv.Instances) != 1 || len(inv.Volumes) != 1 {
				t.Errorf("a look shows %+v (%v), want Unreachable and what was known", inv, err)
			}
			if _, ok, err := l.cloud.Inventory.VolumeByID(t.Context(), v.ID); !awsapi.IsUnreachable(err) || ok {
				t.Errorf("looking for the volume: %v, %v, want Unreachable", ok, err)
			}
			if err := l.cloud.StopInstance(t.Context(), l.owner.ClusterUID, i.ID, StopPower); !awsapi.IsUnreachable(err) {
				t.Errorf("the fence: %v, want Unreachable", err)
			}
			meddles.Store(false)
			l.pass(time.Minute)
			if inv := l.observe(); len(inv.Instances) != 1 || len(inv.Volumes) != 1 {
				t.Errorf("once EC2 itself answers: %+v", inv)
			}
		})
	}
}

// A list whose second page fails has shown half of what is there. None of the other half may be missed, and the sweep is not complete; what
// the other lists show counts.
func TestListThatFailsHalfWayChangesNothing(t *testing.T) {
	var meddles atomic.Bool
	l := newLab(t, func(o *Options) {
		o.Middleware = func(next http.RoundTripper) http.RoundTripper {
			return meddler{smallPages{next}, func(action string, form url.Values) *http.Response {
				if !meddles.Load() || action != "DescribeInstances" || form.Get("NextToken") == "" {
					return nil
				}
				return says(http.StatusServiceUnavailable,
					`<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>Request limit exceeded.</Message></Error></Errors></Response>`)
			}}
		}
	})
	const members = 6
	for n := range members {
		l.launch(fmt.Sprintf("orders-%d", n))
	}
	v := l.volume("orders-0")
	taken := l.observe().Taken
	if _, err := l.sdk().DeleteVolume(t.Context(), &awsec2.DeleteVolumeInput{VolumeId: aws.String(v.ID)}); err != nil {
		t.Fatal(err)
	}
	l.pass(inventory.FreshFor + time.Minute)
	meddles.Store(true)
	inv, err := l.cloud.Inventory.Observe(t.Context(), l.owner.ClusterUID, time.Second)
	if !awsapi.IsThrottled(err) || len(inv.Instances) != members || len(inv.Volumes) != 0 || !inv.Taken.Equal(taken) || !inv.InstancesTaken.Equal(taken) || !inv.VolumesTaken.Equal(l.clock.Now()) {
		t.Errorf("%d instances and %d volumes of %s (%v), want all %d and 0 of %s and Throttled",
			len(inv.Instances), len(inv.Volumes), inv.Taken, err, members, taken)
	}
	meddles.Store(false)
	l.pass(time.Minute)
	if inv := l.observe(); len(inv.Instances) != members || len(inv.Volumes) != 0 {
		t.Errorf("a whole sweep shows %d instances and %d volumes", len(inv.Instances), len(inv.Volumes))
	}
}
