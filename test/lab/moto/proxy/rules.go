package proxy

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
)

// Kind says what a rule does to a call that it matches.
type Kind string

const (
	// Fail answers with Code and does not forward the call.
	Fail Kind = "fail"
	// NoCapacity answers RunInstances with InsufficientInstanceCapacity. As in
	// EC2, a dry run does not notice, nor a call that IAM denies.
	NoCapacity Kind = "no-capacity"
	// Lose forwards the call and, if it succeeded, closes the connection
	// instead of answering.
	Lose Kind = "lose"
	// Delay holds the call back for Rule.Delay, and by chance up to
	// Rule.Jitter longer, then forwards it.
	Delay Kind = "delay"
	// Bucket answers RequestLimitExceeded once Rule.Burst calls of an action
	// came faster than Rule.Rate a second refills. Each action that the rule
	// names has its own bucket; dry runs count.
	Bucket Kind = "bucket"
	// Hang never answers, until the rule goes or the client gives up.
	Hang Kind = "hang"
	// Refuse closes the connection without forwarding.
	Refuse Kind = "refuse"
	// Absent hides what successful calls create for Rule.For after its
	// creation: by id it is NotFound, in lists it is missing.
	Absent Kind = "absent"
)

var kinds = []Kind{Fail, NoCapacity, Lose, Delay, Bucket, Hang, Refuse, Absent}

// Rule is one fault. All conditions that are set must hold for it to match.
type Rule struct {
	Kind Kind `json:"kind"`
	// Service is the one that is called, "ec2" by default; "*" is any.
	Service string `json:"service,omitempty"`
	// Actions are names, or patterns like "Describe*"; none means all.
	Actions []string `json:"actions,omitempty"`
	// Zone and InstanceType restrict NoCapacity and Fail to launches (and, by
	// zone, to creations of volumes) there. The zone is the subnet's.
	Zone         string `json:"zone,omitempty"`
	InstanceType string `json:"instanceType,omitempty"`
	// Code, Message and Status are Fail's answer. Message and Status have
	// defaults by code.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	Status  int    `json:"status,omitempty"`
	// Probability in (0, 1]; 0 means always.
	Probability float64 `json:"probability,omitempty"`
	// Count is how often it fires before it is spent; 0 means no limit.
	Count int `json:"count,omitempty"`
	// Burst and Rate, a second, of the kind Bucket.
	Burst int     `json:"burst,omitempty"`
	Rate  float32 `json:"rate,omitempty"`
	// Delay and Jitter of the kind Delay.
	Delay, Jitter time.Duration `json:"-"`
	// For is how long the rule stands; 0 means until it is removed. With
	// Absent it is how long each new thing is hidden, and is required.
	For time.Duration `json:"-"`
}

// wireRule is Rule with durations as text ("30s").
type wireRule struct {
	plainRule
	Delay  string `json:"delay,omitempty"`
	Jitter string `json:"jitter,omitempty"`
	For    string `json:"for,omitempty"`
}

type plainRule Rule

// MarshalJSON writes durations as text.
func (r Rule) MarshalJSON() ([]byte, error) {
	w := wireRule{plainRule: plainRule(r)}
	if r.Delay != 0 {
		w.Delay = r.Delay.String()
	}
	if r.Jitter != 0 {
		w.Jitter = r.Jitter.String()
	}
	if r.For != 0 {
		w.For = r.For.String()
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads durations as text.
func (r *Rule) UnmarshalJSON(b []byte) error {
	var w wireRule
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*r = Rule(w.plainRule)
	for _, d := range []struct {
		text string
		to   *time.Duration
	}{{w.Delay, &r.Delay}, {w.Jitter, &r.Jitter}, {w.For, &r.For}} {
		if d.text == "" {
			continue
		}
		parsed, err := time.ParseDuration(d.text)
		if err != nil {
			return err
		}
		*d.to = parsed
	}
	return nil
}

// Throttle answers RequestLimitExceeded.
func Throttle(actions ...string) Rule {
	return Rule{Kind: Fail, Code: "RequestLimitExceeded", Actions: actions}
}

// Deny answers UnauthorizedOperation.
func Deny(actions ...string) Rule {
	return Rule{Kind: Fail, Code: "UnauthorizedOperation", Actions: actions}
}

// LoseAnswers loses the answers of count successful calls.
func LoseAnswers(count int, actions ...string) Rule {
	return Rule{Kind: Lose, Count: count, Actions: actions}
}

// Buckets throttles as EC2 does, by the buckets of each action that it
// publishes for an account and region ("Request throttling for the Amazon EC2
// API"). Lists are counted as filtered ones.
func Buckets() []Rule {
	bucket := func(burst int, rate float32, actions ...string) Rule {
		return Rule{Kind: Bucket, Burst: burst, Rate: rate, Actions: actions}
	}
	return []Rule{
		bucket(5, 2, "RunInstances", "StartInstances"),
		bucket(50, 5, "StopInstances", "AttachVolume", "DetachVolume", "ModifyVolume", "ModifyInstanceAttribute", "CreateSecurityGroup",
			"AuthorizeSecurityGroupIngress", "RevokeSecurityGroupIngress"),
		bucket(100, 5, "TerminateInstances", "CreateVolume", "DeleteVolume", "CreateSnapshot", "DeleteSnapshot"),
		bucket(100, 10, "CreateTags"),
		bucket(100, 20, "Describe*"),
	}
}

// Latency makes calls as slow as people have measured them in EC2
// (daemonology.net, "EC2 boot time benchmarking").
func Latency() []Rule {
	takes := func(least, most time.Duration, actions ...string) Rule {
		return Rule{Kind: Delay, Delay: least, Jitter: most - least, Actions: actions}
	}
	return []Rule{
		takes(2*time.Second, 6*time.Second, "RunInstances"),
		takes(500*time.Millisecond, 2*time.Second, "CreateVolume", "AttachVolume"),
		takes(300*time.Millisecond, time.Second, "Describe*"),
	}
}

// Blackout makes every service silent.
func Blackout() Rule { return Rule{Kind: Hang, Service: "*"} }

// validate returns the first fault in r.
func (r Rule) validate() error {
	switch {
	case !slices.Contains(kinds, r.Kind):
		return fmt.Errorf("unknown kind %q (known: %v)", r.Kind, kinds)
	case r.Probability < 0 || r.Probability > 1:
		return fmt.Errorf("probability %v is not between 0 and 1", r.Probability)
	case r.Count < 0:
		return fmt.Errorf("count %d is negative", r.Count)
	case r.Jitter < 0:
		return fmt.Errorf("jitter %s is negative", r.Jitter)
	}
	if lacks := r.lacks(); lacks != "" {
		return fmt.Errorf("a rule of kind %s needs %s", r.Kind, lacks)
	}
	for _, a := range r.Actions {
		if _, err := path.Match(a, ""); err != nil {
			return fmt.Errorf("action pattern %q: %w", a, err)
		}
	}
	return nil
}

// lacks names what a rule of r's kind must say, and r does not; empty for
// nothing.
func (r Rule) lacks() string {
	switch {
	case r.Kind == Fail && r.Code == "":
		return "a code"
	case r.Kind == Delay && r.Delay <= 0:
		return "a delay"
	case r.Kind == Bucket && (r.Burst <= 0 || r.Rate <= 0):
		return "a burst and a rate"
	case r.Kind == Absent && r.For <= 0:
		return "to say for how long"
	}
	return ""
}

// standing is a rule in force.
type standing struct {
	Rule
	id      string
	always  bool // one of Options.Always
	fired   int
	expires time.Time     // zero: never
	gone    chan struct{} // closed when it no longer holds
	// buckets are those of the kind Bucket, by action.
	buckets map[string]flowcontrol.PassiveRateLimiter
}

// takes says whether an action's bucket has a token for a call, and takes it.
// The caller holds the proxy's mu.
func (s *standing) takes(action string, now clock.PassiveClock) bool {
	if s.buckets[action] == nil {
		s.buckets[action] = flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(s.Rate, s.Burst, now)
	}
	return s.buckets[action].TryAccept()
}

// matches says whether s applies to c, counting neither chance nor count.
func (s *standing) matches(c *call) bool {
	service := s.Service
	if service == "" {
		service = serviceEC2
	}
	if service != "*" && service != c.service {
		return false
	}
	if len(s.Actions) > 0 && !slices.ContainsFunc(s.Actions, func(p string) bool {
		ok, _ := path.Match(p, c.action) // patterns were checked when the rule was added
		return ok
	}) {
		return false
	}
	if s.Kind == NoCapacity && (c.action != "RunInstances" || c.dryRun) {
		return false
	}
	if s.InstanceType != "" && s.InstanceType != c.form.Get("InstanceType") {
		return false
	}
	return s.Zone == "" || s.Zone == c.zone()
}

// Add puts a rule in force and returns the name to remove it by. Of several
// rules that match a call, all delays apply, then the oldest of the others,
// NoCapacity last.
func (p *Proxy) Add(r Rule) (id string, err error) { return p.add(r, false) }

func (p *Proxy) add(r Rule, always bool) (id string, err error) {
	if err := r.validate(); err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastID++
	s := &standing{Rule: r, id: strconv.Itoa(p.lastID), always: always, gone: make(chan struct{}), buckets: map[string]flowcontrol.PassiveRateLimiter{}}
	if r.For > 0 && r.Kind != Absent {
		s.expires = p.clock.Now().Add(r.For)
	}
	p.rules = append(p.rules, s)
	return s.id, nil
}

// Remove ends a rule; hung calls then go through. Unknown names are ignored.
func (p *Proxy) Remove(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(func(s *standing) bool { return s.id == id && !s.always })
}

// Clear ends all rules but those of Options.Always, and shows what was hidden.
func (p *Proxy) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(func(s *standing) bool { return !s.always })
	clear(p.hidden)
}

// Rules lists the rules in force by name, but for those of Options.Always.
func (p *Proxy) Rules() map[string]Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire()
	out := map[string]Rule{}
	for _, s := range p.rules {
		if !s.always {
			out[s.id] = s.Rule
		}
	}
	return out
}

// drop removes what matches. The caller holds mu.
func (p *Proxy) drop(matches func(*standing) bool) {
	p.rules = slices.DeleteFunc(p.rules, func(s *standing) bool {
		if matches(s) {
			close(s.gone)
			return true
		}
		return false
	})
}

// delay is how long a rule of the kind Delay holds a call back.
func (p *Proxy) delay(s *standing) time.Duration {
	if s.Jitter == 0 {
		return s.Delay
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.Delay + time.Duration(p.random.Int64N(int64(s.Jitter)))
}

// expire removes rules whose time or count is over. The caller holds mu.
func (p *Proxy) expire() {
	now := p.clock.Now()
	p.drop(func(s *standing) bool {
		return !s.expires.IsZero() && now.After(s.expires) || s.Count > 0 && s.fired >= s.Count
	})
}

// choose returns the rules that fire for c: any delays, and at most one other
// that replaces the answer. Lose and Absent are chosen after the call, by
// their kind.
func (p *Proxy) choose(c *call, wanted ...Kind) []*standing {
	p.mu.Lock()
	candidates := slices.Clone(p.rules)
	p.mu.Unlock()
	// Matching may ask upstream for a subnet's zone: not under the lock.
	candidates = slices.DeleteFunc(candidates, func(s *standing) bool {
		return !slices.Contains(wanted, s.Kind) || !s.matches(c)
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire()
	var chosen []*standing
	decided := false
	for _, s := range candidates {
		if !slices.Contains(p.rules, s) || s.Kind != Delay && decided {
			continue
		}
		if s.Count > 0 && s.fired >= s.Count {
			continue
		}
		if s.Probability > 0 && p.random.Float64() >= s.Probability {
			continue
		}
		if s.Kind == Bucket && s.takes(c.action, p.clock) {
			continue
		}
		s.fired++
		chosen = append(chosen, s)
		decided = decided || s.Kind != Delay
	}
	return chosen
}
