package simulation

import (
	"fmt"
	"hash"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// epoch is when every schedule begins.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Times in the model are milliseconds since the schedule began.
const (
	second = int64(1000)
	minute = 60 * second
)

// World is one schedule's model of everything that the operator acts on.
type world struct {
	rng    *rand.Rand
	now    int64
	timers timerHeap
	serial int
	events int

	shape shape
	// specChanges counts the changes of the spec that replace instances or change the number of members.
	specChanges int
	// broken are the versions of mysqld that do not start.
	broken map[string]bool
	// crossing says that newer versions are of another series.
	crossing bool
	upgrade  upgrade
	scenario *scenario // nil for most
	people   *people   // nil for most
	dying    *dying    // nil for most
	aimed    aim
	desired  topology.Desired
	ledger   *ledger
	cloud    *cloud
	net      network
	clients  []*client
	kube     kube
	leader   *operator
	every    []*operator // all operator processes that were ever started
	// acked are the transactions whose clients saw OK.
	acked bitset
	// ticking is true while a turn of the replication threads is due.
	ticking bool
	// roles is set when something happened that may change who can acknowledge.
	roles bool
	// healed is when the faults stopped; 0 before.
	healed int64
	// passes counts the reconciles since the faults stopped.
	passes int
	gone   bool // a deletion is finished
	quiet  bool // the clients have stopped writing
	forgot bool // the records were lost
	// rows are the membership rows that were written, as text, by epoch.
	rows  map[uint64]string
	lossy bool // acknowledged commits may be lost: asynchronous replication
	plan  topology.Plan
	// meddling is what people do who are no friends of the operator, nil for nothing.
	meddling *meddling
	// heritage is what the cluster begins with, nil for nothing.
	heritage *heritage

	trace   trace
	failure *failure
	faults  int
}

// failure is a broken invariant.
type failure struct{ invariant, message string }

// kube is what Kubernetes keeps: the records, the published endpoints, the lease.
type kube struct {
	records topology.ClusterRecord
	version int
	// past are the newest versions, which a cache may show; gone is true while there is no ConfigMap.
	past []recordVersion
	gone bool
	// claimed is true once the cluster has its finalizer. lost is true from the loss of the records until somebody writes some.
	claimed, lost bool
	primary       string           // address behind the primary Service
	uncovered     map[string]int64 // status.lastPromotion.uncoveredMembers
	inService     map[string]bool
	holder        *operator
	renewed       int64
}

// timer is something that happens at a time.
type timer struct {
	at  int64
	seq int
	run func()
}

type timerHeap []timer

func (h timerHeap) less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}

func (h *timerHeap) push(t timer) {
	*h = append(*h, t)
	for i := len(*h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h.less(i, parent) {
			break
		}
		(*h)[i], (*h)[parent] = (*h)[parent], (*h)[i]
		i = parent
	}
}

func (h *timerHeap) pop() timer {
	top := (*h)[0]
	last := len(*h) - 1
	(*h)[0] = (*h)[last]
	(*h)[last] = timer{}
	*h = (*h)[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && h.less(child+1, child) {
			child++
		}
		if !h.less(child, i) {
			break
		}
		(*h)[i], (*h)[child] = (*h)[child], (*h)[i]
		i = child
	}
	return top
}

// after lets something happen in a number of milliseconds.
func (w *world) after(ms int64, run func()) {
	w.serial++
	w.timers.push(timer{w.now + max(ms, 0), w.serial, run})
}

// between draws from [low, high]; in a script it is the middle.
func (w *world) between(low, high int64) int64 {
	if w.trace.listen != nil {
		return (low + high) / 2
	}
	return low + w.rng.Int64N(high-low+1)
}

// chance is true in percent of the cases; in a script what happens in most of them does.
func (w *world) chance(percent float64) bool {
	if w.trace.listen != nil {
		return percent > 50
	}
	return w.rng.Float64()*100 < percent
}

// time is the model's time as the planner sees it.
func (w *world) time() time.Time { return epoch.Add(time.Duration(w.now) * time.Millisecond) }

// step lets the next thing happen. It returns false when nothing is left, or an invariant is broken.
func (w *world) step() bool {
	if len(w.timers) == 0 || w.failure != nil {
		return false
	}
	t := w.timers.pop()
	w.now = t.at
	w.events++
	t.run()
	w.check()
	return w.failure == nil
}

// fail notes the first broken invariant.
func (w *world) fail(invariant, format string, args ...any) {
	if w.failure == nil {
		w.failure = &failure{invariant, fmt.Sprintf(format, args...)}
		w.say("BROKEN %s: %s", invariant, w.failure.message)
	}
}

// trace is the story of a schedule. Its hash is there also when the text is not kept.
type trace struct {
	kept bool
	text strings.Builder
	hash hash.Hash64
	// listen is told each line of a script, nil without one.
	listen func(at int64, line string)
}

func (t *trace) add(line []byte) {
	_, _ = t.hash.Write(line) // it never fails
	if t.kept {
		t.text.Write(line)
	}
}

// say adds a line to the trace.
func (w *world) say(format string, args ...any) {
	if w.trace.listen != nil {
		w.trace.listen(w.now, fmt.Sprintf(format, args...))
		return
	}
	line := fmt.Appendf(nil, "%9.3fs  ", float64(w.now)/1000)
	w.trace.add(append(fmt.Appendf(line, format, args...), '\n'))
}

// network says who reaches whom. Nodes are the ordinals of members, then the operator, then the clients.
type network struct {
	cut [nodes][nodes]bool
	silences
}

const (
	maxMembers   = 9
	operatorNode = maxMembers
	clientNode   = maxMembers + 1
	nodes        = maxMembers + 2
)

// passes says whether packets go from one node to another.
func (n *network) passes(from, to int) bool { return !n.cut[from][to] }

// open says whether a connection between two nodes works both ways.
func (n *network) open(a, b int) bool { return !n.cut[a][b] && !n.cut[b][a] }

func rowText(r *mysql.Membership) string {
	if r == nil {
		return "no row"
	}
	text := fmt.Sprintf("epoch %d, primary %s, voters %s, W %d", r.Epoch, r.Primary, strings.Join(r.Voters, " "), r.W)
	if len(r.Previous) > 0 {
		text += ", before " + strings.Join(r.Previous, " ")
	}
	if len(r.Memory) > 0 {
		text += fmt.Sprintf(", memory %v", r.Memory)
	}
	return text
}
