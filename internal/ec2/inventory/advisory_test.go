package inventory

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// uid is the cluster of the tests.
const uid = "uid-1"

// answering is an EC2 with one thing of each kind. A list is named by its action, and DescribeInstanceStatus by its filter too.
type answering struct {
	// launched is when the instance was launched.
	launched string
	// withoutSnapshot leaves the snapshot out.
	withoutSnapshot bool
	// callTimeout bounds one call; 0 for a fifth of a second.
	callTimeout time.Duration

	mu    sync.Mutex
	asked map[string]int
	// fails are the error codes of the lists that fail; silent ones do not answer.
	fails map[string]string
	// texts are what EC2 says beside a code.
	texts map[string]string
	// delays are how long lists take.
	delays map[string]time.Duration
	// tokens is how often the next page of instances is refused.
	tokens int
}

// silent stands for an error code: there is no answer.
const silent = "silent"

// RoundTrip implements http.RoundTripper.
func (e *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	action := form.Get("Action")
	name := action
	if action == "DescribeInstanceStatus" {
		name += " " + form.Get("Filter.1.Name")
	}
	e.mu.Lock()
	e.asked[name]++
	code, text, delay := e.fails[name], e.texts[name], e.delays[name]
	if name == "DescribeInstances" && form.Get("NextToken") != "" && e.tokens > 0 {
		e.tokens--
		code = "InvalidNextToken"
	}
	answer := e.answer(action, form)
	e.mu.Unlock()
	time.Sleep(delay)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if code == silent {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if code != "" {
		return respond(http.StatusBadRequest, fmt.Sprintf("<Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors></Response>", code, text)), nil
	}
	return respond(http.StatusOK, fmt.Sprintf(`<%sResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">%s</%sResponse>`, action, answer, action)), nil
}

func respond(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

func (e *answering) answer(action string, form url.Values) string {
	const tags = "<tagSet><item><key>mysql.alx.ke/cluster-uid</key><value>" + uid + "</value></item></tagSet>"
	switch action {
	case "DescribeInstances":
		next := ""
		if form.Get("NextToken") == "" {
			next = "<nextToken>second page</nextToken>"
		}
		return "<reservationSet><item><instancesSet><item><instanceId>i-1</instanceId><instanceState><name>running</name></instanceState><launchTime>" + e.launched + "</launchTime>" + tags + "</item></instancesSet></item></reservationSet>" + next
	case "DescribeVolumes":
		return "<volumeSet><item><volumeId>vol-1</volumeId><status>in-use</status>" + tags + "</item></volumeSet>"
	case "DescribeSecurityGroups":
		return "<securityGroupInfo><item><groupId>sg-1</groupId>" + tags + "</item></securityGroupInfo>"
	case "DescribeSnapshots":
		if e.withoutSnapshot {
			return "<snapshotSet/>"
		}
		return "<snapshotSet><item><snapshotId>snap-1</snapshotId><status>completed</status>" + tags + "</item></snapshotSet>"
	case "DescribeInstanceStatus":
		return "<instanceStatusSet><item><instanceId>i-1</instanceId><systemStatus><status>impaired</status></systemStatus><eventsSet><item><code>instance-retirement</code><description>degraded hardware</description></item></eventsSet></item></instanceStatusSet>"
	}
	return ""
}

// set has a list fail, or answer again when code is empty.
func (e *answering) set(name, code, text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fails[name], e.texts[name] = code, text
}

// delay has a list take a time.
func (e *answering) delay(name string, d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.delays = map[string]time.Duration{name: d}
}

// lists are the lists that EC2 was asked for since the last time, by name.
func (e *answering) lists() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer clear(e.asked)
	return slices.Sorted(maps.Keys(e.asked))
}

// readerOf returns a reader of EC2, its clock, and what it logged.
func readerOf(t *testing.T, e *answering) (r *Reader, pass func(time.Duration), logged *[]string) {
	t.Helper()
	e.launched, e.asked, e.fails, e.texts = "2026-01-02T03:04:05.000Z", map[string]int{}, map[string]string{}, map[string]string{}
	clock := clocktesting.NewFakePassiveClock(time.Now())
	clients, err := awsapi.NewConnector(awsapi.Config{
		Clock: clock, CallTimeout: cmp.Or(e.callTimeout, 200*time.Millisecond), Middleware: func(http.RoundTripper) http.RoundTripper { return e },
	}).Connect(t.Context(), awsapi.Account{Region: "us-east-1", Static: &awsapi.StaticCredentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "example"}})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	logged = &[]string{}
	log := funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		*logged = append(*logged, args)
	}, funcr.Options{})
	r = NewReader(clients, Options{
		Region: "us-east-1", Clock: clock, Logger: log, Interval: SweepInterval, Patience: time.Minute, CallTimeout: time.Second,
		Reads: NewReadCounter(prometheus.NewRegistry()),
	})
	return r, func(d time.Duration) { clock.SetTime(clock.Now().Add(d)) }, logged
}

const statusOf = "DescribeInstanceStatus "

// TestOneListThatFails: every list that a sweep asks for fails in turn. Those that are one unit fail the sweep; without any other
// everything else is read, and the list is named.
func TestOneListThatFails(t *testing.T) {
	// beside are the lists that fail no sweep; the empty name is that of a list of the unit.
	beside := map[string]List{
		"DescribeInstances": "", "DescribeVolumes": "", "DescribeSecurityGroups": "",
		"DescribeSnapshots":                     ListSnapshots,
		statusOf + "instance-status.status":     ListHealth,
		statusOf + "system-status.status":       ListHealth,
		statusOf + "attached-ebs-status.status": ListHealth,
		statusOf + "event.code":                 ListHealth,
	}
	e := &answering{}
	r, _, _ := readerOf(t, e)
	if _, err := r.Observe(t.Context(), uid, 0); err != nil {
		t.Fatal(err)
	}
	asked := e.lists()
	if want := slices.Sorted(maps.Keys(beside)); !slices.Equal(asked, want) {
		t.Fatalf("a sweep asks for %q; say of each here whether the sweep needs it: %q", asked, want)
	}
	for _, name := range asked {
		for _, code := range []string{"UnauthorizedOperation", silent} {
			t.Run(name+" "+code, func(t *testing.T) {
				e := &answering{}
				r, pass, _ := readerOf(t, e)
				before, err := r.Observe(t.Context(), uid, 0)
				if err != nil || len(before.Instances) != 1 || !before.Instances[0].Impaired || len(before.Instances[0].Events) != 1 || len(before.Volumes) != 1 || len(before.Snapshots) != 1 || len(before.SecurityGroups) != 1 {
					t.Fatalf("%+v (%v)", before, err)
				}
				e.set(name, code, "no")
				e.withoutSnapshot = true
				for range 8 {
					pass(SweepInterval)
					_, err = r.Observe(t.Context(), uid, 0)
				}
				list := beside[name]
				r.awaitAdvisory(t, list)
				after, named := r.Known(uid), r.Unanswered()
				if list == "" {
					action := "ec2:" + name
					if err == nil || !strings.Contains(awsapi.Message(err), action) || !after.Taken.Equal(before.Taken) || len(named) != 0 {
						t.Errorf("the sweep: %v, of %s; want an error that names %s; beside it %v", err, after.Taken, action, named)
					}
					return
				}
				if err != nil || after.Taken.Equal(before.Taken) {
					t.Fatalf("the sweep is of %s (%v), want it to go on", after.Taken, err)
				}
				if len(named) != 1 || named[0].List != list || named[0].Reason == "" || !named[0].Taken.Equal(before.Taken) || !strings.Contains(awsapi.Message(named[0].Err), strings.Fields(name)[0]) {
					t.Errorf("named are %+v, want %s as of %s", named, list, before.Taken)
				}
				if fails := list == ListSnapshots; (len(after.Snapshots) == 1) != fails || after.SnapshotsTaken.Equal(before.SnapshotsTaken) != fails {
					t.Errorf("the snapshots are %v as of %s", after.Snapshots, after.SnapshotsTaken)
				}
				if in := after.Instances[0]; in.Impaired != (list != ListHealth) || len(in.Events) != 1 {
					t.Errorf("after four minutes: impaired is %v, announced %v", in.Impaired, in.Events)
				}
				e.set(name, "", "")
				pass(SweepInterval)
				if _, err := r.Observe(t.Context(), uid, 0); err != nil {
					t.Fatal(err)
				}
				r.awaitAdvisory(t, list)
				if again := r.Known(uid); len(r.Unanswered()) != 0 || len(again.Snapshots) != 0 || !again.Instances[0].Impaired {
					t.Errorf("answered again: %+v, %v", again, r.Unanswered())
				}
			})
		}
	}
}

// TestListBesideIsNamedWhenItLasts: a list that fails once is nobody's business; a missing permission is at once.
func TestListBesideIsNamedWhenItLasts(t *testing.T) {
	for code, at := range map[string]time.Duration{"UnauthorizedOperation": 0, "RequestLimitExceeded": AdvisoryFor, "InternalError": AdvisoryFor} {
		t.Run(code, func(t *testing.T) {
			e := &answering{}
			r, pass, _ := readerOf(t, e)
			e.set("DescribeSnapshots", code, "no")
			began := r.clock.Now()
			for round := 0; round < 10; round++ {
				if _, err := r.Observe(t.Context(), uid, 0); err != nil {
					t.Fatal(err)
				}
				r.awaitAdvisory(t, ListSnapshots)
				due := r.clock.Since(began) > at || at == 0
				if named := r.Unanswered(); (len(named) == 1) != due || due && !named[0].Taken.IsZero() {
					t.Errorf("after %s: %+v, due %v", r.clock.Since(began), named, due)
				}
				if known := r.Known(uid); !known.SnapshotsTaken.IsZero() {
					t.Errorf("a list that EC2 never gave is of %s", known.SnapshotsTaken)
				}
				pass(SweepInterval)
			}
		})
	}
}

// awaitAdvisory waits until a list beside the last sweep was tried.
func (r *Reader) awaitAdvisory(t *testing.T, list List) {
	t.Helper()
	for _, a := range r.beside.all {
		for a.list == list && !a.triedSince(r.store.takenAt()) {
			if t.Context().Err() != nil {
				t.Fatal("the list was not tried")
			}
			<-r.beside.begin(t.Context(), a)
		}
	}
}

// TestSlowListHoldsUpNoSweep: a list that EC2 takes long for makes no sweep and no look longer, and nothing that waits for them.
func TestSlowListHoldsUpNoSweep(t *testing.T) {
	e := &answering{}
	r, pass, _ := readerOf(t, e)
	r.freshness.patience, r.beside.patience = 50*time.Millisecond, 50*time.Millisecond
	gate := &gated{next: e, action: "DescribeSnapshots", open: make(chan struct{})}
	clients, err := awsapi.NewConnector(awsapi.Config{
		Clock: r.clock, CallTimeout: time.Minute, Middleware: func(http.RoundTripper) http.RoundTripper { return gate },
	}).Connect(t.Context(), awsapi.Account{Region: "us-east-1", Static: &awsapi.StaticCredentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "example"}})
	if err != nil {
		t.Fatal(err)
	}
	r.lists.api = clients.EC2
	r.Snapshots.Created("snap-2", Snapshot{ID: "snap-2", State: SnapshotPending, Tags: map[string]string{"mysql.alx.ke/cluster-uid": uid}})
	for range 3 {
		began := time.Now()
		inv, err := r.Observe(t.Context(), uid, 0)
		if err != nil || !inv.Taken.Equal(r.clock.Now()) || !inv.SnapshotsTaken.IsZero() || len(inv.Snapshots) != 1 {
			t.Errorf("%+v (%v)", inv, err)
		}
		if inv, err = r.Refresh(t.Context(), uid); err != nil || len(inv.Instances) != 1 {
			t.Errorf("a look at what moves: %+v (%v)", inv, err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %s", took)
		}
		pass(SweepInterval)
	}
	close(gate.open)
	for deadline := time.Now().Add(time.Minute); r.Known(uid).SnapshotsTaken.IsZero(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the list that came late was not taken over")
		}
	}
	if n := gate.asked; n != 2 {
		t.Errorf("the list and the look at snapshots were asked for %d times while they were under way, want once each", n)
	}
}

// gated holds the answers of an action back until it is opened.
type gated struct {
	next   http.RoundTripper
	action string
	open   chan struct{}

	mu    sync.Mutex
	asked int
}

// RoundTrip implements http.RoundTripper.
func (g *gated) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	if strings.Contains(string(body), "Action="+g.action+"&") {
		g.mu.Lock()
		g.asked++
		g.mu.Unlock()
		select {
		case <-g.open:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return g.next.RoundTrip(r)
}

// TestUnknownHealthFilterIsDropped: an endpoint that rejects a filter is not asked by it again, and that is logged once.
func TestUnknownHealthFilterIsDropped(t *testing.T) {
	e := &answering{}
	r, pass, logged := readerOf(t, e)
	const filter = statusOf + "attached-ebs-status.status"
	e.set(filter, "InvalidParameterValue", "The filter 'attached-ebs-status.status' is invalid")
	for round := range 3 {
		inv, err := r.Observe(t.Context(), uid, 0)
		if err != nil || !inv.Instances[0].Impaired || len(r.Unanswered()) != 0 {
			t.Errorf("round %d: %+v (%v), %v", round, inv, err, r.Unanswered())
		}
		if asks := slices.Contains(e.lists(), filter); asks != (round == 0) {
			t.Errorf("round %d: asked by the filter: %v", round, asks)
		}
		pass(SweepInterval)
	}
	if n := strings.Count(strings.Join(*logged, "\n"), "attached-ebs-status.status"); n == 0 || len(*logged) != 1 {
		t.Errorf("logged: %q", *logged)
	}
	// One that is rejected for something else stays.
	e.set(statusOf+"system-status.status", "InvalidParameterValue", "Value (1000) for parameter maxResults is invalid")
	for range 2 {
		if _, err := r.Observe(t.Context(), uid, 0); err != nil {
			t.Fatal(err)
		}
		r.awaitAdvisory(t, ListHealth)
		if !slices.Contains(e.lists(), statusOf+"system-status.status") {
			t.Error("a filter was dropped that EC2 knows")
		}
		pass(SweepInterval)
	}
	// Where EC2 knows none, nothing is known of the health of instances.
	for _, name := range []string{"instance-status.status", "system-status.status", "event.code"} {
		e.set(statusOf+name, "InvalidParameterValue", "The filter '"+name+"' is invalid")
	}
	for range 8 {
		if _, err := r.Observe(t.Context(), uid, 0); err != nil {
			t.Fatal(err)
		}
		r.awaitAdvisory(t, ListHealth)
		pass(SweepInterval)
	}
	if named := r.Unanswered(); len(named) != 1 || named[0].List != ListHealth || r.Known(uid).Instances[0].Impaired {
		t.Errorf("named are %+v of %+v", named, r.Known(uid).Instances)
	}
}

// TestHealthIsOfOneHost: an instance that somebody stopped and started since is on another host, of which the last answer says nothing.
func TestHealthIsOfOneHost(t *testing.T) {
	e := &answering{}
	r, pass, _ := readerOf(t, e)
	if inv, err := r.Observe(t.Context(), uid, 0); err != nil || !inv.Instances[0].Impaired {
		t.Fatalf("%+v (%v)", inv, err)
	}
	e.set(statusOf+"event.code", "InternalError", "no")
	e.launched = "2026-01-02T04:00:00.000Z"
	pass(SweepInterval)
	if inv, err := r.Observe(t.Context(), uid, 0); err != nil || inv.Instances[0].Impaired || len(inv.Instances[0].Events) != 0 {
		t.Errorf("on its new host it is %+v (%v)", inv.Instances, err)
	}
}

// TestRefusedPageBeginsTheListAgain: the token for the next page expires. The list is read again, and is complete or fails.
func TestRefusedPageBeginsTheListAgain(t *testing.T) {
	for refused, ok := range map[int]bool{0: true, 1: true, listStarts - 1: true, listStarts: false} {
		e := &answering{}
		r, _, _ := readerOf(t, e)
		e.tokens = refused
		found, err := r.Instances.List(t.Context())
		if (err == nil) != ok || ok && len(found) != 1 {
			t.Errorf("refused %d times: %v (%v)", refused, found, err)
		}
		if want := 2 * min(refused+1, listStarts); e.asked["DescribeInstances"] != want {
			t.Errorf("refused %d times: %d calls, want %d", refused, e.asked["DescribeInstances"], want)
		}
	}
}

// TestListsOfAnotherAccountAreNotTaken: what one account lists says nothing of what another holds.
func TestListsOfAnotherAccountAreNotTaken(t *testing.T) {
	s := newStore()
	s.account = "111111111111"
	for account, taken := range map[string]bool{"": true, "111111111111": true, "222222222222": false} {
		if did := s.ofAccount(account, func() {}); did != taken {
			t.Errorf("a list of %q is taken over: %v", account, did)
		}
	}
}
