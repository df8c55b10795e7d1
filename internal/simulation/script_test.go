package simulation

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TestScripts plays the scripts of testdata: what befalls a cluster, and what the operator does about it, second by second. They run the
// engine that the operator runs, in a world in which nothing is left to chance. testdata/scripts/README.md has the commands.
//
// `go test ./internal/simulation -run TestScripts -rewrite` writes what happens now in the place of what was expected.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		if strings.HasSuffix(path, ".md") {
			return
		}
		var s *script
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "cluster" {
				s = beginScript(t, d)
				return s.state()
			}
			if s == nil {
				d.Fatalf(t, "a script begins with cluster")
			}
			return s.run(t, d)
		})
		if s != nil {
			s.end()
		}
	})
}

// script is a world in which only that happens which the script says, and what follows from it.
type script struct {
	w     *world
	lines []string
}

func beginScript(t *testing.T, d *datadriven.TestData) *script {
	w := emptyWorld(1, 1)
	s := &script{w: w}
	w.trace.listen = s.hear
	w.shape = shape{size: 3, lossless: true, policy: v1alpha1.DeletionPolicySnapshot}
	d.MaybeScanArgs(t, "members", &w.shape.size)
	w.shape.fresh = d.HasArg("fresh")
	w.shape.lossless, w.shape.memory = !d.HasArg("async"), d.HasArg("memory")
	w.shape.metal = d.HasArg("metal")
	w.lossy, w.desired = !w.shape.lossless, desiredFor(w.shape)
	if !w.shape.fresh {
		w.preset()
	}
	w.lead()
	for n := range 3 {
		c := &client{w: w, n: n}
		w.clients = append(w.clients, c)
		c.again(0, second)
	}
	if !w.shape.fresh {
		s.play(func(began int64) bool { return w.now >= began+2*second })
	}
	return s
}

// end stops what is under way.
func (s *script) end() {
	for _, op := range s.w.every {
		for _, p := range op.processes {
			if !p.over {
				p.stop()
			}
		}
	}
}

// hear takes a line of the story. The plans are left out: what comes of them is told.
func (s *script) hear(at int64, line string) {
	if who, what, found := strings.Cut(line, ": "); found && strings.HasPrefix(who, "operator-") && strings.HasPrefix(what, "phase ") || strings.HasSuffix(line, ensureGroup) {
		return
	}
	line = serverUUID.ReplaceAllString(line, "server$1")
	line = fmt.Sprintf("%6.1fs  %s", float64(at)/float64(second), line)
	if n := len(s.lines); n == 0 || s.lines[n-1] != line {
		s.lines = append(s.lines, line)
	}
}

// heard says whether a line of the command's story holds a word.
func (s *script) heard(word string) bool {
	return slices.ContainsFunc(s.lines, func(line string) bool { return slices.Contains(strings.Fields(line), word) })
}

// serverUUID is that of the nth server of a world.
var serverUUID = regexp.MustCompile(`0*(\d+)-0000-0000-0000-000000000000`)

// ensureGroup ends the line of an action that every plan has.
const ensureGroup = "ensure the security groups"

// run carries out a command.
func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	s.lines = nil
	w := s.w
	switch d.Cmd {
	case "run":
		var seconds int64
		if d.HasArg("for") {
			var text string
			d.ScanArgs(t, "for", &text)
			span, err := time.ParseDuration(text)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			seconds = span.Milliseconds()
			s.play(func(began int64) bool { return w.now >= began+seconds })
			break
		}
		if d.HasArg("until") {
			var what string
			d.ScanArgs(t, "until", &what)
			s.play(func(began int64) bool { return s.heard(what) || w.now > began+healTime })
			break
		}
		w.healed = max(w.now, 1)
		w.plan.Phase = ""
		s.play(func(began int64) bool { return w.converged() || w.now > began+healTime })
	case "switch-over":
		d.ScanArgs(t, "to", &w.desired.SwitchoverTo)
		s.wake()
	case "scale":
		d.ScanArgs(t, "to", &w.desired.Replicas)
		w.specChanges++
		s.wake()
	case "hibernate", "wake":
		w.desired.Hibernate = d.Cmd == "hibernate"
		s.wake()
	case "accept-loss":
		d.ScanArgs(t, "epoch", &w.desired.AcceptLoss)
		s.wake()
	case "change-template":
		w.specChanges++
		w.desired.TemplateHash = "second"
		s.wake()
	case "kill-operator":
		w.leader.die("killed")
	case "ec2-silent":
		w.shape.weather.withoutLists = d.HasArg("lists")
		w.shape.weather.down = !w.shape.weather.withoutLists
	case "ec2-denies":
		w.shape.weather.denies = d.CmdArgs[0].Key
	case "ec2-answers":
		w.shape.weather.down, w.shape.weather.withoutLists, w.shape.weather.denies = false, false, ""
	case "drop-row":
		for _, v := range w.cloud.volumes {
			if v.st != nil {
				v.st.row = nil
			}
		}
		w.wake()
		return ""
	case "state":
		return s.state()
	case "findings":
		for _, f := range w.plan.Degraded {
			s.lines = append(s.lines, f.Reason+": "+f.Message)
		}
	default:
		s.befall(t, d)
	}
	if w.failure != nil {
		d.Fatalf(t, "%s: %s\n%s", w.failure.invariant, w.failure.message, strings.Join(s.lines, "\n"))
	}
	return strings.Join(append(s.lines, ""), "\n")
}

// wake has the operator look now.
func (s *script) wake() {
	if s.w.leader.wake != nil {
		s.w.leader.wake()
	}
}

// play lets time pass.
func (s *script) play(over func(began int64) bool) {
	for began := s.w.now; !over(began) && s.w.step(); {
		s.w.limit()
	}
}

// befall does something to a member.
func (s *script) befall(t *testing.T, d *datadriven.TestData) {
	w := s.w
	if len(d.CmdArgs) == 0 {
		d.Fatalf(t, "unknown command")
	}
	node := w.ordinal(d.CmdArgs[0].Key)
	in := w.machineOf(node)
	if in == nil {
		d.Fatalf(t, "%s has no instance", d.CmdArgs[0].Key)
	}
	switch d.Cmd {
	case "kill-mysqld":
		in.server.end(false)
		in.volume.damaged = d.HasArg("for-good")
		w.bootMySQL(in, 3*second)
	case "restart":
		restart(w, in, 4*second)
	case "cut-power": // as a host that fails: EC2 calls the instance running for a while
		w.cloud.rotation.next = d.HasArg("after-rotation")
		w.powerOff(in)
		w.after(20*second, func() {
			in.Impaired = true
			w.recordInstance(in)
		})
	case "lose-volume":
		for _, v := range w.cloud.volumes {
			if v.member == in.member && v.State == inUse {
				w.loseVolume(v)
			}
		}
	case "flush", "write":
		writeByHand(in.server, d.Cmd == "flush")
	case "claim":
		var n int
		d.ScanArgs(t, "transactions", &n)
		if err := claim(in.server, w.serverOf(w.ordinal(w.plan.Primary)), n); err != nil {
			d.Fatalf(t, "%v", err)
		}
	case "reset-gtids":
		if err := resetGTIDs(in.server); err != nil {
			d.Fatalf(t, "%v", err)
		}
	case "xa-commit":
		commitOnePrepared(in.server, 0)
	case "fill-zone":
		w.cloud.noRoom[in.Zone] = true
	case "fill-subnet":
		fillSubnet(w, w.desired.Subnets[node], d.HasArg("append"))
	case "stop-instance":
		w.stopInstance(in)
	case "terminate-instance":
		w.endInstance(in, "Client.InstanceInitiatedShutdown")
	case "set-clock":
		var ahead int
		d.ScanArgs(t, "ahead", &ahead)
		in.clockAhead = time.Duration(ahead) * time.Second
	case "freeze":
		in.frozen = true
	case "thaw":
		w.thawInstance(in)
	case "isolate", "join":
		for other := range nodes {
			if other != node {
				w.net.cut[node][other], w.net.cut[other][node] = d.Cmd == "isolate", d.Cmd == "isolate"
			}
		}
		w.wake()
	default:
		d.Fatalf(t, "unknown command")
	}
}

// state is the cluster as a person sees it, a line for each member.
func (s *script) state() string {
	w, lines := s.w, []string{}
	for _, in := range w.cloud.instances {
		if in.State == terminated {
			continue
		}
		line := fmt.Sprintf("%s on %s: ", in.member, in.ID)
		switch srv := in.server; {
		case srv == nil || in.frozen:
			line += in.State + ", mysqld does not answer"
		case srv.writable:
			line += fmt.Sprintf("takes writes and waits for %d; %s", srv.wait, rowText(srv.st.row))
		case srv.st.source == "":
			line += "read-only, replicates from nobody; " + rowText(srv.st.row)
		default:
			line += "replicates from " + s.name(srv.st.source)
			if srv.io != ioOn {
				line += ", not connected"
			} else if srv.acknowledges {
				line += " and acknowledges"
			}
			line += "; " + rowText(srv.st.row)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(append(lines, ""), "\n")
}

// name is the member behind an address.
func (s *script) name(address string) string {
	for _, in := range s.w.cloud.instances {
		if in.Address == address {
			return in.member
		}
	}
	return address
}
