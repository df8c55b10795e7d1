package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const codeNoCapacity = "InsufficientInstanceCapacity"

// versionEC2 tells EC2's Query API from that of other services (STS).
const versionEC2 = "2016-11-15"

// call is one request as the rules see it.
type call struct {
	service, action string
	dryRun          bool
	// form is nil when the call is not of the Query protocol.
	form        url.Values
	body        []byte
	header      http.Header
	host        string
	path, query string
	lookUpZone  func(subnet string) string
}

// read takes the body of a Query call; other bodies are left to be streamed.
func (p *Proxy) read(r *http.Request) (*call, error) {
	c := &call{header: r.Header, host: r.Host, path: r.URL.Path, query: r.URL.RawQuery}
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		c.service, c.action = scope(r.Header.Get("Authorization")), r.Method
		if _, action, ok := strings.Cut(r.Header.Get("X-Amz-Target"), "."); ok {
			c.action = action
		}
		return c, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, bodyLimit))
	if err != nil {
		return nil, fmt.Errorf("read the call: %w", err)
	}
	if c.form, err = url.ParseQuery(string(body)); err != nil {
		return nil, fmt.Errorf("parse the call: %w", err)
	}
	c.body, c.action = body, c.form.Get("Action")
	c.dryRun = c.form.Get("DryRun") == "true"
	c.service = scope(r.Header.Get("Authorization"))
	if c.form.Get("Version") == versionEC2 {
		c.service = serviceEC2
	}
	c.lookUpZone = func(subnet string) string { return p.zoneOf(r.Context(), c, subnet) }
	return c, nil
}

// scope is the service in a signature's credential scope
// (Credential=AKIA…/20260101/us-east-1/ec2/aws4_request, …).
func scope(authorization string) string {
	_, credential, _ := strings.Cut(authorization, "Credential=")
	if parts := strings.Split(credential, "/"); len(parts) > 3 {
		return parts[3]
	}
	return ""
}

// zone is where the call wants something, "" when it does not say.
func (c *call) zone() string {
	for _, field := range []string{"AvailabilityZone", "Placement.AvailabilityZone"} {
		if z := c.form.Get(field); z != "" {
			return z
		}
	}
	for _, field := range []string{"SubnetId", "NetworkInterface.1.SubnetId"} {
		if subnet := c.form.Get(field); subnet != "" {
			return c.lookUpZone(subnet)
		}
	}
	return ""
}

// zoneOf asks the server behind for a subnet's zone, once; "" if it is unknown.
func (p *Proxy) zoneOf(ctx context.Context, of *call, subnet string) string {
	p.mu.Lock()
	zone, known := p.zones[subnet]
	p.mu.Unlock()
	if known {
		return zone
	}
	var found struct {
		Zones []string `xml:"subnetSet>item>availabilityZone"`
	}
	err := p.ask(ctx, of, url.Values{"Action": {"DescribeSubnets"}, "Version": {versionEC2}, "SubnetId.1": {subnet}}, &found)
	if err != nil || len(found.Zones) != 1 {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.zones[subnet] = found.Zones[0]
	return found.Zones[0]
}

// askAgain is how often a call of the proxy's own is repeated that got no answer.
const askAgain = 2

// ask makes a call of the proxy's own, in the account of another call.
func (p *Proxy) ask(ctx context.Context, of *call, form url.Values, answer any) error {
	ask := *of
	ask.body, ask.header = []byte(form.Encode()), of.header.Clone()
	ask.header.Del("Content-Length")
	status, _, body, err := p.forward(ctx, &ask)
	for again := 0; err != nil && again < askAgain; again++ { // a busy moto resets connections
		status, _, body, err = p.forward(ctx, &ask)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", form.Get("Action"), err)
	}
	if status != http.StatusOK {
		return fmt.Errorf("%s: status %d", form.Get("Action"), status)
	}
	return xml.Unmarshal(body, answer)
}

// encodedMessage is the sealed explanation that EC2 adds.
const encodedMessage = "Encoded authorization failure message: 4GIOHlTkIaWHQD0Q0m6XSnuUMCm-abcdefghijklmn"

// Messages and status codes as EC2 gives them; 400 where none is named.
// {action} is what was called.
var (
	messages = map[string]string{
		"RequestLimitExceeded": "Request limit exceeded.",
		"UnauthorizedOperation": "You are not authorized to perform this operation. User: arn:aws:iam::123456789012:user/nairobi-lab " +
			"is not authorized to perform: ec2:{action} on resource: arn:aws:ec2:us-east-1:123456789012:*/* because no identity-based " +
			"policy allows the ec2:{action} action. " + encodedMessage,
		"OptInRequired": "In order to use this AWS Marketplace product you need to accept terms and subscribe. To do so please visit " +
			"https://aws.amazon.com/marketplace/pp?sku=0123456789abcdefghijklmno",
		codeNoCapacity: "We currently do not have sufficient capacity in the Availability Zone you requested. " +
			"Our system will be working on provisioning additional capacity.",
		"VcpuLimitExceeded": "You have requested more vCPU capacity than your current vCPU limit allows " +
			"for the instance bucket that the specified instance type belongs to.",
		"InternalError": "An internal error has occurred",
		"AuthFailure":   "AWS was not able to validate the provided access credentials",
	}
	statuses = map[string]int{
		"RequestLimitExceeded":  http.StatusServiceUnavailable,
		"Unavailable":           http.StatusServiceUnavailable,
		"UnauthorizedOperation": http.StatusForbidden,
		"AuthFailure":           http.StatusUnauthorized,
		"OptInRequired":         http.StatusUnauthorized,
		codeNoCapacity:          http.StatusInternalServerError,
		"InternalError":         http.StatusInternalServerError,
	}
)

// fail answers with the rule's error in the form of the called service and
// returns the HTTP status.
func (c *call) fail(w http.ResponseWriter, r Rule) int {
	if r.Message == "" {
		r.Message = strings.ReplaceAll(messages[r.Code], "{action}", c.action)
	}
	if r.Status == 0 {
		if r.Status = statuses[r.Code]; r.Status == 0 {
			r.Status = http.StatusBadRequest
		}
	}
	kind, body := "text/xml;charset=UTF-8", ""
	switch {
	case c.service == serviceEC2:
		body = fmt.Sprintf("<Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors>"+
			"<RequestID>%s</RequestID></Response>", escape(r.Code), escape(r.Message), requestID())
	case c.service == serviceS3:
		kind, body = "application/xml", fmt.Sprintf("<Error><Code>%s</Code><Message>%s</Message><RequestId>%s</RequestId></Error>",
			escape(r.Code), escape(r.Message), requestID())
	case c.form != nil:
		body = fmt.Sprintf("<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error>"+
			"<RequestId>%s</RequestId></ErrorResponse>", escape(r.Code), escape(r.Message), requestID())
	default:
		encoded, _ := json.Marshal(map[string]string{"__type": r.Code, "message": r.Message}) // strings cannot fail
		kind, body = "application/x-amz-json-1.1", string(encoded)
	}
	if strings.Contains(kind, "xml") {
		body = xml.Header + body
	}
	answer(w, r.Status, http.Header{"Content-Type": {kind}}, []byte(body))
	return r.Status
}

func escape(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a buffer takes everything
	return b.String()
}

func requestID() string {
	var b [16]byte
	rand.Read(b[:])
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// unknown maps an id's prefix to what EC2 says of an id that it does not know.
var unknown = map[string]struct{ noun, code string }{
	"i":    {"instance", "InvalidInstanceID.NotFound"},
	"vol":  {"volume", "InvalidVolume.NotFound"},
	"snap": {"snapshot", "InvalidSnapshot.NotFound"},
	"sg":   {"security group", "InvalidGroup.NotFound"},
}

func notFound(id string) Rule {
	u := unknown[prefix(id)]
	return Rule{Code: u.code, Message: fmt.Sprintf("The %s ID '%s' does not exist", u.noun, id)}
}

func prefix(id string) string {
	p, _, _ := strings.Cut(id, "-")
	return p
}

// log appends to the call log and forgets the oldest half when it is full.
func (p *Proxy) log(c Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.calls) >= callsKept {
		p.calls = slices.Clone(p.calls[callsKept/2:])
	}
	p.calls = append(p.calls, c)
}

// Calls returns a copy of the call log, oldest first. Calls that hang are not
// in it yet.
func (p *Proxy) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// ResetCalls empties the call log.
func (p *Proxy) ResetCalls() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = nil
}

// Counts returns how often each action was called since the last reset.
func (p *Proxy) Counts() map[string]int {
	out := map[string]int{}
	for _, c := range p.Calls() {
		out[c.Action]++
	}
	return out
}
