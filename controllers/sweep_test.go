package controllers

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// Environment of the crash sweep: the share of the call sites that is tried (1 for all, 8 for an eighth, the default)
// and the seed that chooses them.
const (
	sweepShareVariable = "NAIROBI_SWEEP_SHARE"
	sweepSeedVariable  = "NAIROBI_SEED"
)

// cut says what happens to the operator at one call to AWS.
type cut string

const (
	diesBefore cut = "dies before"
	diesAfter  cut = "dies after"
	losesReply cut = "loses the answer of"
)

var cuts = []cut{diesBefore, diesAfter, losesReply}

// place is where to cut: at the nth call of an action, counted from 1. The place among all calls is not the same each time,
// because several are under way at once.
type place struct {
	action string
	nth    int
}

func (p place) String() string { return fmt.Sprintf("%s %d", p.action, p.nth) }

// placesOf are the places of the calls of a life.
func placesOf(calls []string) []place {
	seen := map[string]int{}
	var all []place
	for _, action := range calls {
		seen[action]++
		all = append(all, place{action, seen[action]})
	}
	return all
}

// scissors note the calls to AWS and cut at one of them.
type scissors struct {
	next     http.RoundTripper
	operator *operator
	at       place // the zero value for nowhere
	how      cut

	mu    sync.Mutex
	calls []string // the actions, in the order in which they were sent
	lost  string   // whose answers are lost: the SDK asks again under the same id, and must not get what the operator is to do without
}

// RoundTrip implements http.RoundTripper.
func (s *scissors) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.operator.dead.Load() {
		return nil, errDead
	}
	if !s.note(r) {
		return s.next.RoundTrip(r)
	}
	if s.how == diesBefore {
		s.operator.dead.Store(true)
		return nil, errDead
	}
	response, err := s.next.RoundTrip(r)
	if err == nil {
		_ = response.Body.Close()
	}
	if s.how == diesAfter {
		s.operator.dead.Store(true)
	}
	return nil, errDead
}

// note writes a call down and says whether it is the one to cut at.
func (s *scissors) note(r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	action := actionOf(r)
	s.calls = append(s.calls, action)
	id := r.Header.Get("Amz-Sdk-Invocation-Id")
	if action == s.at.action && s.counted() == s.at.nth {
		s.lost = id
		return true
	}
	return s.how == losesReply && id != "" && id == s.lost
}

// counted is how often the action to cut at was called. Call it with the lock held.
func (s *scissors) counted() int {
	n := 0
	for _, action := range s.calls {
		if action == s.at.action {
			n++
		}
	}
	return n
}

// sent are the calls that were made so far. The operator may have more under way, which no pass waits for.
func (s *scissors) sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// made is how many those are.
func (s *scissors) made() int { return len(s.sent()) }

// cutCall is the action that was cut, empty when the operator called it less often.
func (s *scissors) cutCall() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counted() < s.at.nth {
		return ""
	}
	return s.at.action
}

// actionOf is the action of a call of EC2's, or the target of one of another service.
func actionOf(r *http.Request) string {
	if r.Body == nil {
		return r.Method
	}
	body, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(body))
	if form, formErr := url.ParseQuery(string(body)); err == nil && formErr == nil && form.Get("Action") != "" {
		if form.Get("DryRun") == "true" {
			return "a dry run of " + form.Get("Action")
		}
		return form.Get("Action")
	}
	return r.Header.Get("X-Amz-Target")
}

// TestCrashSweepOverAWSCalls kills the operator before and after each call to AWS that it makes in the life of a cluster,
// and loses the answer of each. Whoever comes after must bring the cluster through the rest of its life: the same
// instances and the same volumes at every stop, and at its end exactly what its deletion policy promises.
func TestCrashSweepOverAWSCalls(t *testing.T) {
	t.Parallel()
	share, seed := intFrom(t, sweepShareVariable, 8), intFrom(t, sweepSeedVariable, int(time.Now().Unix()))
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	tally := &tally{tried: map[string]int{}}
	called := map[string]bool{}
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionPolicySnapshot, v1alpha1.DeletionPolicyRetain, v1alpha1.DeletionPolicyDelete} {
		whole, deletion := uncut(t, policy)
		from := deletion // what comes before it is the same for all policies
		if policy == v1alpha1.DeletionPolicySnapshot {
			from = 1
		}
		for _, at := range placesOf(whole)[from-1:] {
			called[at.action] = true
			for _, how := range cuts {
				if random.IntN(share) == 0 {
					t.Run(fmt.Sprintf("%s %s %s", policy, how, at), func(t *testing.T) {
						t.Parallel()
						s := &scissors{at: at, how: how}
						newWorld(t, withPolicy(policy)).live(s, policy)
						t.Logf("%s %s", how, s.cutCall())
						tally.add(s.cutCall(), how)
					})
				}
			}
		}
		t.Logf("%s: %d calls to AWS, from call %d on one in %d of the cuts, seed %d (repeat with %s=%d)", policy, len(whole), from, share, seed, sweepSeedVariable, seed)
	}
	for _, action := range changingActions() {
		if !called[action] && notInALife[action] == "" {
			t.Errorf("%s is called nowhere in this life: extend it", action)
		}
		if called[action] && notInALife[action] != "" {
			t.Errorf("%s is called: take it from the list of what is not", action)
		}
	}
	t.Cleanup(func() { tally.report(t, share, called) })
}

// notInALife says why a changing call of the operator's is not made in the life that is swept.
var notInALife = map[string]string{
	"DetachVolume": "a member is moved to another instance only while its server is well, and no server runs here",
}

// changingActions lists the calls of the EC2 plane that change something.
func changingActions() []string {
	var names []string
	api := reflect.TypeFor[awsapi.API]()
	for i := range api.NumMethod() {
		if name := api.Method(i).Name; !strings.HasPrefix(name, "Describe") && !strings.HasPrefix(name, "Get") {
			names = append(names, name)
		}
	}
	return names
}

// tally counts the cuts by action.
type tally struct {
	mu    sync.Mutex
	tried map[string]int
}

func (c *tally) add(action string, how cut) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tried[string(how)+" "+action]++
}

// report logs what was tried. A whole sweep must have cut every changing action in every way.
func (c *tally) report(t *testing.T, share int, called map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	total := 0
	for _, n := range c.tried {
		total += n
	}
	t.Logf("%d cuts tried: %v", total, c.tried)
	for _, action := range changingActions() {
		for _, how := range cuts {
			if share == 1 && called[action] && c.tried[string(how)+" "+action] == 0 && !t.Failed() {
				t.Errorf("no operator %s %s", how, action)
			}
		}
	}
	if total == 0 && share <= len(called) {
		t.Error("no cut was tried")
	}
}

func withPolicy(p v1alpha1.DeletionPolicy) func(*v1alpha1.MySQLCluster) {
	return func(c *v1alpha1.MySQLCluster) { c.Spec.Storage.DeletionPolicy = p }
}

// uncut lives a life in which nothing goes wrong and returns its calls to AWS, and with which of them the deletion begins.
func uncut(t *testing.T, policy v1alpha1.DeletionPolicy) (calls []string, deletion int) {
	t.Run(string(policy), func(t *testing.T) {
		s := &scissors{}
		deletion = newWorld(t, withPolicy(policy)).live(s, policy)
		calls = s.sent()
	})
	return calls, deletion
}

func intFrom(t *testing.T, variable string, fallback int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return fallback
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is not a positive number", variable, text)
	}
	return n
}
