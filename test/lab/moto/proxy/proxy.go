// Package proxy stands in front of moto and does to its answers what AWS does
// at times: throttles, denies, has no capacity, forgets what it just created,
// is slow or silent, and loses answers of calls that succeeded. It counts
// calls, so that tests can bound them. The rules are ours, not AWS's.
//
// Besides, it lets through only what the caller's IAM policy allows: see
// package iam.
package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/iam"
)

const (
	serviceEC2 = "ec2"
	// bodyLimit bounds an EC2 call: 16 KiB of user data in base 64, tags.
	bodyLimit = 1 << 20
	// callsKept bounds the memory of the call log: hours of a busy test.
	callsKept = 100_000
	// headerTimeout protects the listeners from half-open clients.
	headerTimeout = 10 * time.Second
)

// Options of a proxy.
type Options struct {
	// Upstream is the base URL of the server behind it.
	Upstream string
	// Address and ControlAddress are host:port to listen on. Empty: a free
	// port of 127.0.0.1.
	Address, ControlAddress string
	// Seed of rules with a probability.
	Seed uint64
	// Clock of rules and of the call log. Nil: the real one.
	Clock clock.PassiveClock
	// Principals are the owners of access keys. Of every other key it is the operator, under its published policy, but for
	// iam.AdministratorKeyID.
	Principals map[string]iam.Principal
	// Besides are statements that an administrator has added to the operator's policy.
	Besides []iam.Statement
	// Always are rules that hold as long as the proxy runs. They are no faults: Clear and Rules pass them over, and so does the call log.
	Always []Rule
}

// Proxy is a running proxy. All its methods may be called concurrently.
type Proxy struct {
	upstream *url.URL
	clock    clock.PassiveClock
	guard    guard
	pass     *httputil.ReverseProxy
	client   *http.Client
	servers  []*http.Server
	endpoint string
	control  string

	mu     sync.Mutex
	random *rand.Rand
	rules  []*standing
	lastID int
	calls  []Call
	zones  map[string]string    // of subnets
	hidden map[string]time.Time // ids, with when they appear
}

// Call is one entry of the call log.
type Call struct {
	Time    time.Time `json:"time"`
	Service string    `json:"service"`
	Action  string    `json:"action"`
	DryRun  bool      `json:"dryRun,omitempty"`
	// Status of the answer as the client saw it; 0: it saw none.
	Status int `json:"status"`
	// Fault is the kind of the rule that fired, if one did.
	Fault Kind `json:"fault,omitempty"`
}

// Start starts a proxy and its control API.
func Start(ctx context.Context, o Options) (*Proxy, error) {
	upstream, err := url.Parse(o.Upstream)
	if err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	p := &Proxy{
		upstream: upstream, clock: o.Clock, client: &http.Client{},
		random: rand.New(rand.NewPCG(o.Seed, o.Seed)),
		zones:  map[string]string{}, hidden: map[string]time.Time{},
	}
	if p.guard, err = newGuard(o.Principals, o.Besides); err != nil {
		return nil, err
	}
	for _, r := range o.Always {
		if _, err := p.add(r, true); err != nil {
			return nil, fmt.Errorf("a rule that always holds: %w", err)
		}
	}
	p.pass = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(upstream)
		r.Out.Host = r.In.Host // S3 signs it and may read the bucket from it
	}}
	if p.endpoint, err = p.listen(ctx, o.Address, p); err != nil {
		return nil, err
	}
	if p.control, err = p.listen(ctx, o.ControlAddress, p.controls()); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

func (p *Proxy) listen(ctx context.Context, address string, h http.Handler) (endpoint string, err error) {
	if address == "" {
		address = "127.0.0.1:0"
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return "", fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout}
	p.servers = append(p.servers, server)
	go func() { _ = server.Serve(l) }() // ends with ErrServerClosed at Stop
	return "http://" + l.Addr().String(), nil
}

// Endpoint is the base URL of the AWS APIs.
func (p *Proxy) Endpoint() string { return p.endpoint }

// ControlEndpoint is the base URL of the control API.
func (p *Proxy) ControlEndpoint() string { return p.control }

// Stop ends both servers; calls in flight lose their connections.
func (p *Proxy) Stop() error {
	p.Clear()
	var errs []error
	for _, s := range p.servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// ServeHTTP is one call of an AWS API.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, err := p.read(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	entry := Call{Time: p.clock.Now(), Service: c.service, Action: c.action, DryRun: c.dryRun}
	logged := false
	defer func() { // also when the handler aborts
		if !logged {
			p.log(entry)
		}
	}()
	if p.disturb(w, r, c, &entry, Fail, Bucket, Delay, Hang, Refuse) {
		return
	}
	refusal, err := p.refusal(r, c)
	if err != nil {
		panic(http.ErrAbortHandler) // the server behind is gone
	}
	if refusal != nil {
		entry.Status = c.fail(w, denial(c.service, refusal))
		return
	}
	// EC2 looks for room when the call is permitted.
	if p.disturb(w, r, c, &entry, NoCapacity) {
		return
	}
	if c.form == nil {
		entry.Status = p.passOn(w, r)
		return
	}
	if id := p.hiddenIn(c); id != "" {
		entry.Fault, entry.Status = Absent, c.fail(w, notFound(id))
		return
	}
	status, header, body, err := p.forward(r.Context(), c)
	if err != nil {
		panic(http.ErrAbortHandler) // the server behind is gone
	}
	body = p.hide(c, status, body)
	if status/100 == 2 && len(p.choose(c, Lose)) > 0 {
		entry.Fault = Lose
		panic(http.ErrAbortHandler)
	}
	entry.Status = status
	// Before the client has the answer, and may ask for the log.
	p.log(entry)
	logged = true
	answer(w, status, header, body)
}

// disturb does to a call what the rules of some kinds say, before it is sent
// on. It returns true when the call ends with that.
func (p *Proxy) disturb(w http.ResponseWriter, r *http.Request, c *call, entry *Call, of ...Kind) bool {
	for _, s := range p.choose(c, of...) {
		if !s.always {
			entry.Fault = s.Kind
		}
		switch s.Kind {
		case Delay:
			if !wait(r.Context(), p.delay(s), nil) {
				return true
			}
		case Hang:
			left := time.Duration(0)
			if !s.expires.IsZero() {
				left = s.expires.Sub(p.clock.Now())
			}
			if !wait(r.Context(), left, s.gone) {
				return true
			}
		case Refuse:
			panic(http.ErrAbortHandler)
		case NoCapacity:
			entry.Status = c.fail(w, Rule{Code: codeNoCapacity})
			return true
		case Bucket:
			entry.Status = c.fail(w, Throttle())
			return true
		default:
			entry.Status = c.fail(w, s.Rule)
			return true
		}
	}
	return false
}

// wait returns false when the client has gone. Without a duration it waits
// for gone.
func wait(ctx context.Context, d time.Duration, gone <-chan struct{}) bool {
	var over <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-over:
	case <-gone:
	}
	return true
}

// passOn forwards a call of another protocol (S3, SSM) as a stream.
func (p *Proxy) passOn(w http.ResponseWriter, r *http.Request) int {
	recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
	p.pass.ServeHTTP(recorder, r)
	return recorder.status
}

type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (s *statusRecorder) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap lets the reverse proxy flush.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// forward sends a call of the Query protocol on and reads the whole answer.
// It does not end with the client: as in AWS, a call once sent is done.
func (p *Proxy) forward(ctx context.Context, c *call) (int, http.Header, []byte, error) {
	u := *p.upstream
	u.Path, u.RawQuery = c.path, c.query
	request, err := http.NewRequestWithContext(
		context.WithoutCancel(ctx), http.MethodPost, u.String(), bytes.NewReader(c.body))
	if err != nil {
		return 0, nil, nil, err
	}
	request.Header, request.Host = c.header.Clone(), c.host
	response, err := p.client.Do(request)
	if err != nil {
		return 0, nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, response.Header, body, err
}

func answer(w http.ResponseWriter, status int, header http.Header, body []byte) {
	for k, v := range header {
		// The body's length may have changed; the connection is ours.
		if k != "Content-Length" && k != "Connection" && !strings.HasPrefix(k, "Transfer-") {
			w.Header()[k] = v
		}
	}
	w.WriteHeader(status)
	// A client that has gone is no fault of ours.
	_, _ = w.Write(body)
}
