package simulation

// mutant is a broken operator: a piece of source, and what stands there instead. The simulation, or a unit test, has to notice.
type mutant struct {
	name string
	// file is what is patched, relative to the module. What lies in the simulation's own shell stands for controllers or for
	// internal/mysql, and the mutant says so.
	file     string
	old, new string
	// stands says for what a patch of the shell or of the model stands; empty when it is one of the real thing.
	stands string
	// and are more patches: a mutant of which another defence covers the first is broken together with that.
	and []patch
	// breaks are the invariants of which one must be broken.
	breaks []string
	// at is a schedule of seed 1 that notices it, found by search. It is played first, as it is drawn and with voters that acknowledge from
	// disk, which saves time; when the story has become another one since, they are all played from the first on.
	at uint64
	// unit is the test that fails with the patch, as a directory and a name: "internal/topology TestVotes". It is run in the place of
	// schedules, for what takes a story that they do not have, or have only by chance: the next change of a rule makes others of them.
	unit string
	// open says that neither schedules nor a unit test notice it: what would is still to be found.
	open bool
}

// patch is one replacement in a file of the module.
type patch struct{ file, old, new string }

func (m mutant) patches() []patch { return append([]patch{{m.file, m.old, m.new}}, m.and...) }

// losesCommits are the invariants that a planner that may lose commits breaks.
var losesCommits = []string{lostCommit, thinCommit, twoPrimaries, silentDiverged}

const (
	crashesFile          = "internal/topology/crashes.go"
	quorumFile           = "internal/topology/quorum.go"
	failoverFile         = "internal/topology/failover.go"
	patienceFile         = "internal/topology/patience.go"
	votersFile           = "internal/topology/voters.go"
	replicatingFile      = "internal/topology/replicating.go"
	rolloutFile          = "internal/topology/rollout.go"
	downgradeFile        = "internal/topology/downgrade.go"
	previousTemplateFile = "internal/topology/previoustemplate.go"
	settingsFile         = "internal/topology/settings.go"
	observedFile         = "internal/topology/observed.go"
	membershipFile       = "internal/topology/membership.go"
	copyFile             = "internal/topology/volumecopy.go"
	seedingFile          = "internal/topology/seeding.go"
	nextFile             = "internal/topology/next.go"
	turnsFile            = "internal/topology/turns.go"
	acknowledgingFile    = "internal/topology/acknowledging.go"
	otherRolloutsFile    = "internal/topology/otherrollouts.go"
	rebuildingFile       = "internal/topology/rebuilding.go"
	forcedFile           = "internal/topology/forced.go"
	nonVoterAcksFile     = "internal/topology/nonvoteracks.go"
	uncoveredFile        = "internal/topology/uncovered.go"
	commitsFile          = "internal/topology/commits.go"
	harmlessFile         = "internal/topology/harmless.go"
	loggedFile           = "internal/mysql/logged.go"
	recordsFile          = "internal/engine/records.go"
	looksFile            = "internal/engine/looks.go"
	executionFile        = "internal/engine/execution.go"
	callsFile            = "internal/engine/calls.go"
	requestsFile         = "internal/engine/requests.go"
	stateFile            = "internal/engine/state.go"
	failuresFile         = "internal/engine/failures.go"
	engineCloudFile      = "internal/engine/cloud.go"
	engineDatabaseFile   = "internal/engine/database.go"
	stepsFile            = "internal/steps/steps.go"
	stepsVotersFile      = "internal/steps/voters.go"
	shell                = "internal/simulation/"
)

// reproof takes away the second defence of every promotion: that it is proven once more, behind the fence of everybody else,
// before its row counts.
var reproof = patch{failoverFile, "if m.SQL.Replication != nil || proof.Candidate != m.Name {", "if m.SQL.Replication != nil {"}

var mutants = []mutant{
	{
		name: "the wait count is off by one",
		at:   13,
		file: membershipFile,
		old:  "return max(m.W, WaitFor(len(m.Previous)))",
		new:  "return max(m.W-1, WaitFor(len(m.Previous))-1, 1)",
	},
	{
		name: "what is executed counts, not what is received",
		at:   419,
		file: observedFile,
		old:  "return m.SQL.Executed.Union(m.SQL.Replication.Retrieved)",
		new:  "return m.SQL.Executed", breaks: append([]string{notConverged}, losesCommits...),
	},
	{
		// Without its second half it is not noticed, see the hand-over below.
		name: "no acknowledgement is fenced before the voters are counted, nor when the promotion is looked at again",
		at:   180,
		and:  []patch{reproof},
		file: failoverFile,
		old:  "if p.mayStillServe(row) || p.fenceOthers(nil) || p.needsPowerOff() && p.instancesRun(row) {",
		new:  "if p.mayStillServe(row) || p.needsPowerOff() && p.instancesRun(row) {",
	},
	{
		name: "one voter fewer than needed is enough",
		at:   1536,
		file: quorumFile,
		old:  "proof := Proof{Needed: len(voters) - w}",
		new:  "proof := Proof{Needed: len(voters) - w - 1}", breaks: append([]string{notConverged}, losesCommits...),
	},
	{
		name: "the spec says who votes, not the membership row",
		at:   618,
		file: failoverFile,
		old:  "	proof := p.proof(row)\n	if proof.Candidate == \"\" {",
		new: `	spec := Membership{Epoch: row.Epoch, Primary: row.Primary, W: WaitFor(p.Replicas)}
	for n := range p.Replicas {
		spec.Voters = append(spec.Voters, p.MemberName(n))
	}
	proof := prove(spec, p.Members, p.Records)
	if proof.Candidate == "" {`,
		breaks: append([]string{notConverged}, losesCommits...),
	},
	{
		name: "a joiner acknowledges before it is a voter",
		at:   253,
		file: stepsVotersFile,
		old:  "	if a.SemiSync && alone {\n		if err := m.SetAcknowledging",
		new:  "	if a.SemiSync {\n		if err := m.SetAcknowledging",
	},
	{
		name: "a member that is rebuilt keeps its vote",
		at:   1,
		file: seedingFile,
		old:  "if !p.votes.expel(m, primary) {",
		new:  "if false {", breaks: []string{keptVote},
	},
	{
		name: "two voters are changed in one step",
		at:   4,
		file: votersFile,
		old:  "	next := p.at(row.Without(m.Name))\n",
		new: `	next := row.Without(m.Name)
	for _, v := range next.Voters {
		if v != primary.Name && len(next.Voters) > 2 {
			next = next.Without(v)
			break
		}
	}
	next.Previous = row.Voters
	next = p.at(next)
`, breaks: []string{wildRow},
	},
	{
		name: "a replica is pointed elsewhere before its relay log is applied",
		at:   87,
		file: shell + "member.go",
		old: `		if err := c.waitApplied(received, applyWait); err != nil {
			return err
		}
`,
		new: `		_ = received
		if err := c.stopReplica(); err != nil {
			return err
		}
`, stands: "internal/mysql", breaks: []string{droppedRelay},
	},
	{
		name:   "a writable primary is shut down gracefully",
		at:     1,
		file:   shell + "ec2.go",
		old:    "		if gracefully && in.server != nil {\n",
		new:    "		if in.server != nil {\n",
		stands: "internal/ec2: a stop that lets the guest shut down",
	},
	{
		name: "errant transactions are overlooked",
		at:   1,
		file: harmlessFile,
		old:  "return m.SQL.Executed.Subtract(primary.SQL.Executed).WithoutSource(primary.SQL.ServerUUID)",
		new:  "return gtid.Set{}", breaks: []string{silentDiverged},
	},
	{
		name: "transactions that change data are adopted as if they were empty",
		at:   39,
		file: loggedFile,
		old:  "	case t.Others > 0:\n		return \"\", false\n",
		new:  "	case t.Others > 0:\n		return \"rows\", true\n", breaks: []string{silentDiverged},
	},
	{
		// A former primary's UUID among them: another member may hold what was committed under it.
		name:   "what a replica has under another server's UUID is adopted, whoever else holds it or is away",
		at:     879,
		file:   harmlessFile,
		old:    "!errant.IsEmpty() && errant.WithoutSource(m.SQL.ServerUUID).IsEmpty() && errant.Count() <= mostOwn",
		new:    "!errant.IsEmpty() && errant.Count() <= mostOwn",
		and:    []patch{{harmlessFile, "if !p.acks.mayAdopt(primary) || !p.onlyHolder(m, errant) {", "if !p.acks.mayAdopt(primary) {"}},
		breaks: []string{silentDiverged},
	},
	{
		name:   "a client token does not change with the incarnation",
		at:     4,
		file:   shell + "port_cloud.go",
		old:    `return fmt.Sprintf("%s %s %d %d", kind, member, incarnation, rebuilt.Unix())`,
		new:    `return fmt.Sprintf("%s %s %d", kind, member, incarnation*0)`,
		stands: "internal/ec2", breaks: []string{asksHotly, notConverged, leaked},
	},
	{
		name: "a throttled read is taken for fenced",
		at:   400,
		file: shell + "observe.go",
		old:  "	if err == nil {\n		err = op.findHidden(p)",
		new: `	if errors.Is(err, errThrottled) {
		for _, r := range pic.instances {
			if !op.looks.Detector.SilentSince(r.member).IsZero() {
				r.value.State = "stopped"
			}
		}
		pic.taken, err = w.now, nil
	}
	if err == nil {
		err = op.findHidden(p)`,
		and:    []patch{{shell + "observe.go", "import (\n", "import (\n	\"errors\"\n"}},
		stands: "controllers", breaks: append([]string{duplicated, leaked, wrongStatus}, losesCommits...),
	},
	{
		name:   "a stale leader acts without the lock",
		at:     78,
		file:   shell + "session.go",
		old:    "if c.slot.open == nil || s != c.slot.server || s.control != c.slot.open {",
		new:    "if c.slot.open == nil || s != c.slot.server {",
		stands: "internal/mysql", breaks: append([]string{wildRow, keptVote, notConverged}, losesCommits...),
	},
	{
		name:   "a leader that stood still before it took the lock goes on",
		open:   true,
		file:   shell + "session.go",
		old:    "if err == nil && !w.holdsLease(op) {",
		new:    "if err == nil && false {",
		stands: "internal/mysql", breaks: append([]string{wildRow, keptVote}, losesCommits...),
	},
	{
		name: "of two that are writable the one that answers first wins",
		at:   80,
		file: failoverFile,
		old:  "	current, outdated := p.rivals(row)\n",
		new: `	if w := p.primaries(); len(w) > 1 {
		p.unseat(w[1:])
		return p.lead(w[0], *row)
	}
	current, outdated := p.rivals(row)
`,
	},
	{
		name: "a change of the voters counts before a second row confirms it",
		open: true,
		file: quorumFile,
		old:  "	if row.Settled() {\n		return proof\n	}\n	before :=",
		new:  "	if row.Settled() || true {\n		return proof\n	}\n	before :=",
	},
	{
		name: "it is not remembered that a primary was left alone",
		at:   5,
		file: votersFile,
		old:  "p.plan.Records.Alone, p.plan.Records.AloneSince, p.plan.Records.Leaving, p.plan.Records.Removing = primary.Name, next.Epoch, \"\", \"\"",
		new:  "p.plan.Records.Leaving = \"\"",
	},
	{
		name: "the row is not looked at again after the relay log is applied",
		at:   348,
		file: stepsFile,
		old:  "if own.Epoch > a.Membership.Epoch {",
		new:  "if false {", breaks: append([]string{wildRow}, losesCommits...),
	},
	{
		name: "a voter that leaves acknowledges again",
		at:   4,
		file: acknowledgingFile,
		old:  "row.MayAcknowledge(m.Name) && m.Name != p.plan.Records.Leaving && ",
		new:  "row.MayAcknowledge(m.Name) && ", breaks: append([]string{notConverged}, losesCommits...),
	},
	{
		name: "an instance that is stopping counts as stopped",
		at:   101,
		file: "internal/topology/off.go",
		old:  "return in.State != stateStopped && in.State != stateTerminated })",
		new:  "return in.State == stateRunning || in.State == statePending })",
	},
	{
		name: "a newcomer is admitted while a stranger acknowledges",
		unit: "internal/topology TestVotes",
		file: votersFile,
		old:  "if p.acks.strangerAcknowledges(m, primary) {",
		new:  "if false {",
	},
	{
		name: "records that were lost are believed about who was alone",
		unit: "internal/topology TestOldRecordsAreDoubted",
		file: quorumFile,
		old:  "if records.AloneUnknown || forgetful {",
		new:  "if forgetful {",
	},
	{
		// Alone it is not noticed: the promotion is proven again, behind another fence, before its row counts, and taken back.
		name: "what the old primary of a switchover can still commit is not fenced, nor looked for after the promotion",
		at:   46,
		and:  []patch{reproof},
		file: "internal/steps/switchover.go",
		old:  "	if a.SemiSync {\n		if err := old.SetSourceWait(ctx, true, topology.NobodyAnswers); err != nil {\n			return err\n		}\n	}\n",
		new:  "",
	},
	{
		name: "a rebuilt member votes while another holds what it lost",
		unit: "internal/topology TestRebuiltMemberIsNoVoterWhileOthersHoldWhatItLost",
		file: votersFile,
		old:  "if why := p.settleTail(m, primary); why.Waits() {",
		new:  "if why := p.settleTail(m, primary); why.Waits() && false {",
	},
	{
		name: "the GTIDs that a rebuilt member lost are given out again",
		unit: "internal/topology TestRebuiltMemberIsNoVoterWhileOthersHoldWhatItLost",
		file: votersFile,
		old:  "	if !tail.IsEmpty() {\n		p.waitAtMost(waitMySQL)\n		if unused",
		new:  "	if false {\n		p.waitAtMost(waitMySQL)\n		if unused",
	},
	{
		name: "the instance of the primary is replaced first",
		at:   24,
		file: "internal/topology/progress.go",
		old:  "slices.Concat(leave, replace, last)",
		new:  "slices.Concat(leave, last, replace)", breaks: []string{rolledRashly},
		and: []patch{
			{rolloutFile, "	case m == primary && (p.Replicas > 1 || m.Ordinal >= p.Replicas):", "	case false:"},
			{rolloutFile, "	case m.Name == p.plan.Primary && p.turns.outdated(m) &&", "	case false &&"},
		},
	},
	{
		name: "the next member is replaced before the one before it votes again",
		at:   206,
		file: rolloutFile,
		old:  "	case !p.turns.outdated(m) && p.turns.isWell(m):",
		new:  "	case !p.turns.outdated(m):", breaks: []string{rolledRashly},
		and: []patch{
			{rolloutFile, "p.CloudReachable && p.turns.allWell():", "p.CloudReachable:"},
			{rolloutFile, "	if !p.turns.othersVote(m) && (primary == nil", "	if false && (primary == nil"},
		},
	},
	{
		name: "a source becomes newer than its replicas",
		at:   4,
		file: "internal/topology/progress.go",
		old:  "slices.Concat(leave, replace, last)",
		new:  "slices.Concat(leave, last, replace)", breaks: []string{rolledRashly},
		and: []patch{
			{rolloutFile, "	case m.Name == p.plan.Primary && p.turns.outdated(m) &&", "	case false &&"},
			{"internal/topology/switchover.go", " || p.tooNewToLead(m, primary) {", " {"},
		},
	},
	{
		name: "a member gets its acknowledgements back in the pass that takes its vote",
		at:   152,
		file: votersFile,
		old:  " || p.busy(m.Name) || p.acks.changingVotes() || !p.plan.Membership.Settled() ||",
		new:  " || p.acks.changingVotes() || !p.plan.Membership.Settled() ||", breaks: losesCommits,
		and: []patch{{votersFile, "row.Has(leaving) && p.turns.givesVoteBack(m):", "row.Has(leaving) && false:"}},
	},
	{
		name: "the wait count is lowered before the row that lowers it is acknowledged",
		at:   317,
		file: stepsVotersFile,
		old:  "func RemoveVoter(ctx context.Context, primary Server, a topology.RemoveVoter) error {\n",
		new:  "func RemoveVoter(ctx context.Context, primary Server, a topology.RemoveVoter) error {\n	if err := primary.LowerSourceWait(ctx, max(a.Settled.W, 1), 0); err != nil {\n		return err\n	}\n",
	},
	{
		name: "an older mysqld is started on what a newer one has opened",
		at:   94,
		file: turnsFile,
		old:  "	return !m.verified() || mysql.OlderVersion(p.Version, m.SQL.Version)\n",
		new:  "	return false\n", breaks: []string{notConverged},
	},
	{
		name: "a member without a vote is started with its acknowledgements on",
		unit: "internal/topology TestVotes",
		file: replicatingFile,
		old:  "	case p.acknowledgesInVain(m):",
		new:  "	case p.acknowledgesInVain(m) && m.following() && len(p.plan.Membership.Voters) > 1:",
		and: []patch{
			{votersFile, "				if m.mayBeHeard() {", "				if false {"},
			{nonVoterAcksFile, "			stranger = true\n", ""},
			{nonVoterAcksFile, "			if !p.busy(m.Name) {", "			if false {"},
			{nonVoterAcksFile, "		if from, ok := a.(ReplicateFrom); ok && from.Acknowledging {", "		if from, ok := a.(ReplicateFrom); ok && false {"},
		},
	},
	{
		name: "a volume that a newer mysqld opened goes to an older one when nobody answers",
		open: true,
		file: downgradeFile,
		old:  "	tooOld := opened != \"\" && mysql.OlderVersion(version, opened) // also when it is not known",
		new:  "	tooOld := false", breaks: []string{tooOld},
	},
	{
		name: "all open their data with a version that nobody is up with",
		at:   3433,
		file: downgradeFile,
		old:  "	if other == nil {\n		return Step{}\n	}\n	p.waitAtMost(waitMySQL)",
		new:  "	if other != nil || true {\n		return Step{}\n	}\n	p.waitAtMost(waitMySQL)", breaks: []string{notConverged},
	},
	{
		name: "a member is rebuilt in the middle of an upgrade with a series that nobody has",
		at:   50,
		file: previousTemplateFile,
		old:  "		return p.turns.seededWithPrevious(m)\n",
		new:  "		return false\n", breaks: []string{notConverged},
		and: []patch{{seedingFile, "primary.SQL.Version == p.PreviousTemplate.Version && p.unseedable(m, primary)", "false"}},
	},
	{
		name: "a mysqld is restarted for a setting while that is held back",
		at:   65,
		file: settingsFile,
		old:  "	case p.Hold != \"\":\n		p.handover.restartStep = ",
		new:  "	case p.Hold != \"\" && false:\n		p.handover.restartStep = ", breaks: []string{heldBack},
	},
	{
		name: "settings with which mysqld does not start stay where they are",
		at:   8,
		file: settingsFile,
		old:  "	for _, rec := range p.plan.Records.Members {\n		if rec.Undone != \"\" &&",
		new:  "	for _, rec := range p.plan.Records.Members {\n		if false &&", breaks: []string{notConverged, undone},
	},
	{
		name: "a voter of two that was to leave is never forgotten",
		open: true,
		file: votersFile,
		old:  "(primary.SQL.PendingCommits == 0 || len(row.Voters) == 2)",
		new:  "primary.SQL.PendingCommits == 0", breaks: []string{notConverged},
	},
	{
		name:   "a volume that is lost later is made from what the cluster began with",
		at:     1245,
		file:   copyFile,
		old:    `return st.Recover && !rec.Recovered && !rec.Established && rec.Bootstrapped == ""`,
		new:    "return st.Recover && rec.RebuiltAt.IsZero()",
		breaks: []string{duplicated},
	},
	{
		name:   "a copy is made the cluster's own before what was archived is replayed into it",
		at:     47,
		file:   copyFile,
		old:    "case p.ToPoint && p.plan.Records.Replayed != vol.ID:",
		new:    "case false:",
		breaks: []string{lostCommit, notConverged},
	},
	{
		name: "a new leader leaves the records as they are",
		unit: "internal/topology TestRecordsAreTakenOver",
		file: nextFile,
		old:  "p.plan.Records.WriterID = o.WriterID",
		new:  "p.plan.Records.WriterID = \"\"",
	},
	{
		name: "the way back is told only where nothing else is",
		open: true,
		file: otherRolloutsFile,
		old:  "p.plan.Rollout.PreviousVersion = p.plan.Rollouts[0].PreviousVersion",
		new:  "_ = p.plan.Rollouts[0].PreviousVersion", breaks: []string{notConverged},
	},
	{
		name: "the applier of a former primary is started while that waits for acknowledgements",
		open: true,
		file: shell + "member.go",
		old:  "		if stands {\n			if err := c.setSourceWait(false, 0); err != nil {",
		new:  "		if stands {\n			if err := error(nil); err != nil {", stands: "internal/mysql", breaks: []string{notConverged},
	},
	{
		name: "nobody is told that a proof needs members with a newer version",
		unit: "internal/topology TestTheOnlyVoterIsTooNew",
		file: downgradeFile,
		old:  "		case primary == nil:",
		new:  "		case primary == nil && false:",
	},
	{
		name: "a version is tried by another member while the first one's instance starts once more",
		open: true,
		file: turnsFile,
		old:  "return in.sincePowerUp(p.Now) < silenceAllowed",
		new:  "return false", breaks: []string{notConverged},
	},
	{
		name: "a surplus member stays although another's vote waits for its end",
		open: true,
		file: rolloutFile,
		old:  "return free || p.scaling.keepsFromVote(m)",
		new:  "return free", breaks: []string{notConverged},
	},
	{
		name: "a member on which commits wait in vain is promoted as it is",
		open: true,
		file: failoverFile,
		old:  "m.waitsInVain() && m.SQL.Replication != nil && !m.SQL.Executed",
		new:  "false && !m.SQL.Executed", breaks: []string{notConverged},
	},
	{
		name: "who is to apply what it received passes for the one that was promoted last",
		unit: "internal/topology TestWhoIsPromoted",
		file: failoverFile,
		old:  "if m.attainable().Contains(proof.MustHold) {",
		new:  "if true {",
	},
	{
		name: "after lost records a cluster begins wherever it may",
		open: true,
		file: failoverFile,
		old:  "return m.SQL.Writable || len(p.primaries()) == 0 // else",
		new:  "return true // else",
	},
	{
		name: "the rebuild that a person asks for does not take the vote before",
		at:   27,
		file: rebuildingFile,
		old:  "	return p.seeding.rebuild(m, primary, fmt.Sprintf(\"asked for at %d\", p.plan.Records.Members[m.Name].Rebuild.At))\n",
		new:  "	_ = fmt.Sprint()\n	return p.seeding.clone(m, primary)\n", breaks: []string{keptVote},
	},
	{
		name: "a member that crashes loses its vote although others cannot do without it",
		at:   645,
		file: votersFile,
		old:  "	return stable >= row.WaitCount()\n",
		new:  "	return stable >= 0\n", breaks: []string{expelledRashly},
		and: []patch{{votersFile, "	if len(row.Voters) <= 2 {", "	if len(row.Voters) < 2 {"}},
	},
	{
		name: "an instance that restarts counts as a mysqld that crashes",
		at:   259,
		file: crashesFile,
		old:  "booted := last.Boot != \"\" && start.Boot != \"\" && start.Boot != last.Boot",
		new:  "booted := false", breaks: []string{wronglyCrashed},
	},
	{
		name: "failovers by mere silence are not limited",
		at:   960,
		file: "internal/topology/failovers.go",
		old:  "	return f.FailoversPaidAt-now.Unix() > (failoverBurst-1)*int64(failoverInterval.Seconds())\n",
		new:  "	return false\n", breaks: []string{flaps},
	},
	{
		name: "a primary whose row nobody else has is replaced at once",
		unit: "internal/topology TestThePrimaryWhoseRowNobodyHasIsWaitedFor",
		file: patienceFile,
		old:  "	if rec := p.plan.Records; rec.Leader != \"\" && !rec.LeaderDoubted {\n		return rec.Leader\n	}\n",
		new:  "",
	},
	{
		name: "a leader that was replaced takes the records back",
		unit: "internal/engine TestRecordsAreTakenOverWithTheLease",
		file: recordsFile,
		old:  "	if next.WriterID != r.Now().WriterID && r.Lease != nil {\n",
		new:  "	if false {\n",
		// What is left behind in another zone is ended, which covers it in this schedule.
		and: []patch{{"internal/topology/provisioning.go", "if in.gone() || m.verified() || !apart(in, vol) {", "if true {"}},
	},
	{
		name: "the primary does not wait for strangers as well",
		at:   23,
		file: shell + "sourcewait.go",
		old:  "			count := w + len(s.w.strangersOf(s))\n			if s.sourceEnabled {",
		new:  "			count := w\n			if s.sourceEnabled {", stands: "internal/mysql", breaks: append([]string{notConverged, untold}, losesCommits...),
	},
	{
		name: "an uncovered time is not remembered",
		at:   8,
		file: uncoveredFile,
		old:  "	case known == nil:\n		*times = append(*times, u)\n",
		new:  "	case known == nil:\n", breaks: append([]string{untold}, losesCommits...),
	},
	{
		name: "voters that acknowledge what they do not keep are not looked for",
		unit: "internal/topology TestVotersThatKeepNothingAreFound",
		file: commitsFile,
		old:  "if cause, fenced = h.notKept(primary, o), true; !cause.found() {",
		new:  "if fenced = true; !cause.found() {",
	},
	{
		name: "what a replica dropped is not looked for",
		unit: "internal/topology TestWhatAReplicaDroppedIsFound",
		file: commitsFile,
		old:  "			m.SQL.Replication.Dropped = h.dropped(m, primary, o.Members)\n",
		new:  "",
	},
	{
		name: "what a member claims by gtid_purged is not looked for",
		unit: "internal/topology TestClaimsAreFound",
		file: "internal/topology/claims.go",
		old:  ".Union(before.purgedOutOfOrder(m))",
		new:  "",
	},
	{
		name: "what a primary has forgotten is not looked for",
		unit: "internal/topology TestClaimsAreFound",
		file: "internal/topology/claims.go",
		old:  "		forgotten = h.recordPrimary(primary)\n",
		new:  "",
	},
	{
		name: "who claims transactions may lead",
		unit: "internal/topology TestClaimsAreAGap",
		file: "internal/topology/gaps.go",
		old:  "	if !m.Claimed.IsEmpty() {\n",
		new:  "	if false {\n",
	},
	{
		name: "an uncovered time ends although no voter holds what was answered in it",
		unit: "internal/topology TestUncoveredTimeIsRemembered",
		file: uncoveredFile,
		old:  "row.holders(primary, p.Members, *e.MustHold) >= row.WaitCount()",
		new:  "row != nil",
	},
	{
		name: "a primary that answers without its voters is not powered off before another is promoted",
		unit: "internal/topology TestAnUncoveredPrimaryIsPoweredOffFirst",
		file: "internal/topology/poweroff.go",
		old:  "	return !st.Lossless || slices.ContainsFunc(st.Records.Uncovered, func(u Uncovered) bool { return !u.Fenced })",
		new:  "	return !st.Lossless",
	},
	{
		name: "a source that is enabled counts as one that waits",
		unit: "internal/topology TestExposure",
		file: commitsFile,
		old:  "	case !s.SourceActive:\n",
		new:  "	case false:\n",
		and: []patch{
			{"internal/topology/acknowledging.go", "s.Waits() && s.WaitCount >= want+len(s.Strangers)", "s.SourceEnabled && s.WaitCount >= want+len(s.Strangers)"},
		},
	},
	{
		name: "strangers that have left are forgotten",
		unit: "internal/topology TestTheDepartedAreRemembered",
		file: commitsFile,
		old:  "				h.departed++\n",
		new:  "",
	},
	{
		name: "the other server_id of a voter is forgotten",
		unit: "internal/topology TestADiskCountsOnce",
		file: commitsFile,
		old:  "		h.departed += changed(h.misnumbered, misnumbered)\n",
		new:  "",
	},
	{
		name: "the wait count is lowered wherever it is set",
		open: true,
		file: shell + "sourcewait.go",
		old:  "				count = max(count, s.wait)\n",
		new:  "				count = max(count, 1)\n", stands: "internal/mysql", breaks: append([]string{untold}, losesCommits...),
	},
	{
		name: "what a primary did before anybody observed it counts as known",
		unit: "internal/topology TestWhatNobodyObservedIsNotProven",
		file: commitsFile,
		old:  "	o.Exposure = h.exposure(primary, o)\n",
		new:  "	o.Exposure = h.exposure(primary, o)\n	o.Exposure.Unwatched = time.Time{}\n",
	},
	{
		name: "of several writable members none is uncovered",
		unit: "internal/topology TestRivalsAreNoted",
		file: "internal/topology/replicating.go",
		old:  "	p.acks.recordRivals()\n",
		new:  "",
	},
	{
		name: "an error of a connection, which a fence left behind, counts as one that stopped the receiver",
		unit: "internal/topology TestFencedReplicasAreNotRebuilt",
		file: "internal/topology/receiver.go",
		old:  "if ioState == ioOff && !retries {",
		new:  "if ioState == ioOff {",
	},
	{
		name:   "what EC2 refused is asked again at once",
		at:     5,
		file:   failuresFile,
		old:    "failed && now.Sub(f.at) < f.pause {",
		new:    "failed && f.pause < 0 {",
		breaks: []string{asksHotly},
	},
	{
		name: "a member that was stopped by force is started at once",
		at:   45,
		file: forcedFile,
		old:  "	if i < 0 {\n		return Step{}\n	}\n	f := p.Records",
		new:  "	if true {\n		return Step{}\n	}\n	f := p.Records", breaks: []string{lateWrites},
	},
	{
		name:   "force is sent at the first try",
		at:     36,
		file:   shell + "port_cloud.go",
		old:    "	stop := c.op.w.cloud.stops.cutPower\n",
		new:    "	stop := c.op.w.cloud.stops.byForce\n",
		stands: "internal/ec2", breaks: append([]string{lateWrites}, losesCommits...),
	},
	{
		name: "a host that EC2 calls stopped after a stop by force counts as off",
		at:   1671,
		file: "internal/topology/off.go",
		old:  " || o.mayStillWrite(m) != nil",
		new:  "",
	},
	{
		name: "a stop that gets stuck is repeated and not forced",
		at:   40,
		file: forcedFile,
		old:  "	case in.PowerCut:\n",
		new:  "	case false:\n", breaks: []string{notConverged},
	},
	{
		name: "the answer to a request that outlasted its pass is never taken",
		at:   46,
		file: requestsFile,
		old:  "		if c.ended() {\n",
		new:  "		if c.key == nil {\n", breaks: []string{notConverged, leaked},
	},
	{
		name: "a lack of capacity is forgotten at once",
		unit: "internal/engine TestALackOfCapacityIsRemembered",
		file: engineCloudFile,
		old:  "		x.Requests.recordLaunch(a, subnets, err, x.Clock.Now())\n",
		new:  "		_ = subnets\n",
	},
	{
		name: "the client token of an instance that ended is used again",
		unit: "internal/engine TestASpentTokenTakesTheNextIncarnation",
		file: engineCloudFile,
		old:  "&& awsapi.Code(err) != codeTokenEnded {",
		new:  "{",
	},
	{
		name: "an action is taken after one of the same member has failed",
		unit: "internal/engine TestAnActionThatFailsEndsItsTargetsTurn",
		file: executionFile,
		old:  "			if x.failed(a, p); !topology.Aside(x.Observed, a) {\n				return\n			}\n",
		new:  "			x.failed(a, p)\n",
	},
	{
		name: "what nothing waits for holds up a failover when it is refused",
		unit: "internal/engine TestWhatNothingWaitsForEndsNoTurn",
		file: executionFile,
		old:  "			if x.failed(a, p); !topology.Aside(x.Observed, a) {\n				return\n			}\n",
		new:  "			x.failed(a, p)\n			return\n",
	},
	{
		name: "a request that EC2 did not answer leaves no doubt",
		unit: "internal/engine TestWhatEC2DidNotAnswerIsInDoubt",
		file: failuresFile,
		old:  "class == awsapi.Unreachable || class == awsapi.Transient) {",
		new:  "class == awsapi.Unreachable && class == awsapi.Transient) {",
	},
	{
		name: "nobody records that a restart is due",
		at:   14,
		file: engineDatabaseFile,
		old:  "func(rec *topology.MemberRecord) { rec.RestartDue, rec.RestartFor = due, of })",
		new:  "func(rec *topology.MemberRecord) { rec.RestartFor = of })", breaks: []string{undone, notConverged},
	},
	{
		name: "nobody notes on a volume which version opened it",
		unit: "internal/engine TestNothingIsNotedWhileTheClusterFails",
		file: executionFile,
		old:  "	for _, id := range slices.Sorted(maps.Keys(x.Outdated)) {\n",
		new:  "	for _, id := range slices.Sorted(maps.Keys(x.Outdated))[:0] {\n",
	},
	{
		name: "the replicas of a primary that restarts are not hushed",
		open: true,
		file: engineDatabaseFile,
		old:  "a.Member == x.Plan.Primary, replicas)",
		new:  "a.Member == x.Plan.Primary, replicas[:0])",
	},
	{
		name: "nobody looks whether the records are still as they were",
		at:   3,
		file: recordsFile,
		old:  "		case shown == m.version:\n",
		new:  "		case shown != \"never\":\n", breaks: append([]string{notConverged, duplicated, leaked, wildRow, untold}, losesCommits...),
	},
	{
		name: "what could not be recorded is done all the same",
		unit: "internal/engine TestWhatIsNotRecordedIsNotDone",
		file: recordsFile,
		old:  "	return true, r.Save(ctx, func(records *topology.ClusterRecord) { *records = next })",
		new:  "	_ = r.Save(ctx, func(records *topology.ClusterRecord) { *records = next })\n	r.Set(next)\n	return true, nil",
	},
	{
		name: "records that somebody lost are not put back",
		at:   961,
		file: recordsFile,
		old:  "		case known:\n			r.Set(r.Memory.records.Clone())\n",
		new:  "		case known:\n			r.Set(topology.ClusterRecord{WriterID: NoWriterID})\n", breaks: append([]string{notConverged, duplicated, leaked, wildRow, untold}, losesCommits...),
	},
	{
		name:   "epochs are not recorded",
		at:     677,
		file:   recordsFile,
		old:    "	return true, r.Save(ctx, func(records *topology.ClusterRecord) { *records = next })",
		new:    "	if !r.Moves(next) {\n		r.Set(next)\n		return true, nil\n	}\n	return true, r.Save(ctx, func(records *topology.ClusterRecord) { *records = next })",
		breaks: append([]string{wildRow}, losesCommits...),
	},
	{
		name: "trouble ends the passes",
		at:   582,
		file: "internal/engine/pace.go",
		old:  "			after = max(after, AfterFailing)\n",
		new:  "			after = max(after, time.Hour)\n", breaks: []string{notConverged, untoldStall},
	},
	{
		name: "what fails passes for done",
		at:   48,
		file: executionFile,
		old:  "			if x.failed(a, p); !topology.Aside(x.Observed, a) {\n				return\n			}\n",
		new:  "			x.succeeded(a)\n", breaks: append([]string{asksHotly, notConverged, undone}, losesCommits...),
	},
	{
		name: "nobody asks who leads",
		unit: "internal/engine TestWhatWasDecidedLongAgoIsNotDone",
		file: stateFile,
		old:  "if x.Lease == nil ||",
		new:  "if x.Lease != nil ||",
		and: []patch{
			{looksFile, "		return l.claim\n", "		return nil\n"},
			{looksFile, "server, claims := p.Server(ctx, m), !k.claimed[id]", "server, claims := p.Server(ctx, m), false"},
			{recordsFile, "	if err := r.Lease(ctx); err != nil {\n		return false, fmt.Errorf(\"the records", "	if err := error(nil); err != nil {\n		return false, fmt.Errorf(\"the records"},
			{recordsFile, "		if err := r.Lease(ctx); err != nil {\n			return false, fmt.Errorf(\"take", "		if err := error(nil); err != nil {\n			return false, fmt.Errorf(\"take"},
		},
	},
	{
		name: "the relay log of a voter that others cannot do without is not reset",
		at:   1598,
		file: replicatingFile,
		old:  "	if p.dispensed(m, primary) && !p.votes.expel(m, primary) {",
		new:  "	if !p.votes.expel(m, primary) {", breaks: []string{notConverged},
	},
}
