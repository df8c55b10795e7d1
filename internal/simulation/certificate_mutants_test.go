package simulation

const (
	certificatesFile = "internal/topology/certificates.go"
	hibernatingFile  = "internal/topology/hibernating.go"
)

// unsoundMemory are the invariants that an operator breaks that trusts a memory which is gone.
var unsoundMemory = append([]string{unsyncedVoter, notConverged}, losesCommits...)

// certificateMutants take away what acknowledgements from memory rest on. Most need two losses of power, or lost records beside one, within
// seconds of each other, which 4,000 schedules do not have: these are open here. The model (test/model) breaks the same rules of the proof,
// and finds each in the fewest steps.
var certificateMutants = []mutant{
	{
		name: "a voter is certified in any memory",
		at:   362,
		file: quorumFile,
		old:  "	return memory == \"\" || memory == m.SQL.Memory ||",
		new:  "	return memory == \"\" || memory != \"\" ||", breaks: unsoundMemory,
	},
	{
		name: "a voter is certified before it has executed what the primary had",
		unit: "internal/topology TestCertification",
		file: stepsVotersFile,
		old:  "		if err := holdsWhatPrimaryHad(ctx, primary, voter, a.Member); err != nil {\n			return err\n		}\n	}\n	err := primary",
		new:  "	}\n	err := primary",
		and:  []patch{{certificatesFile, "	case m != primary && (!p.receives(m, primary) || !p.caughtUp(m)):\n		return false\n", ""}},
	},
	{
		name: "a voter is certified without a barrier",
		open: true,
		file: stepsVotersFile,
		old:  "		if err := primary.CommitEmptyTransaction(ctx); err != nil {\n			return err\n		}\n",
		new:  "", breaks: unsoundMemory,
	},
	{
		name: "a voter is certified in the memory that it has when the row is written",
		open: true,
		file: stepsVotersFile,
		old:  "		if err := primary.CommitEmptyTransaction(ctx); err != nil {\n			return err\n		}\n		if err := holdsWhatPrimaryHad(ctx, primary, voter, a.Member); err != nil {\n			return err\n		}\n",
		new:  "		if err := primary.CommitEmptyTransaction(ctx); err != nil {\n			return err\n		}\n		if err := holdsWhatPrimaryHad(ctx, primary, voter, a.Member); err != nil {\n			return err\n		}\n		if o := voter.Observe(ctx); o.Memory != \"\" {\n			a.Next.Memory[a.Voter] = o.Memory\n		}\n", breaks: unsoundMemory,
	},
	{
		name: "a new primary certifies everybody",
		open: true,
		file: failoverFile,
		old:  "	next := p.at(row.LedBy(m))\n",
		new:  "	next := p.at(row.LedBy(m))\n	for name := range next.Memory {\n		if v := p.Members[name]; v != nil && v.verified() {\n			next.Memory[name] = v.SQL.Memory\n		}\n	}\n", breaks: unsoundMemory,
	},
	{
		name: "the primary of the newest row proves by itself whatever the records say",
		unit: "internal/topology TestWhoseWordCounts",
		file: quorumFile,
		old:  "	if !counts(m) || !records.ledLast(m.Name) || m.SQL",
		new:  "	if !counts(m) || m.SQL",
	},
	{
		name: "a primary proves by itself before it has written a row",
		unit: "internal/topology TestWhoseWordCounts",
		file: quorumFile,
		old:  " || records.inTerm(row) && records.LeaderServer == m.SQL.ServerUUID {",
		new:  " || records.Leader != \"\" {",
	},
	{
		name: "a named primary leads without a proof although another may have led",
		open: true,
		file: failoverFile,
		old:  " && (len(row.Memory) == 0 || p.plan.Records.ledLast(m.Name))",
		new:  "", breaks: unsoundMemory,
	},
	{
		name: "a relay log is no more synced once the primary has the row",
		at:   438,
		file: certificatesFile,
		old:  "	case p.wanted() && m.ownMemory() && !braked:\n",
		new:  "	case p.wanted() && row != nil && row.Memory[m.Name] != \"\":\n", breaks: unsoundMemory,
	},
	{
		name: "whoever may have forgotten something acknowledges to any primary",
		open: true,
		file: acknowledgingFile,
		old:  " || !m.certified(*row) && !p.plan.Records.ledLast(primary.Name) {",
		new:  " {", breaks: unsoundMemory,
	},
	{
		name: "all that are reached prove what all voters would",
		unit: "internal/topology TestWhoseWordCounts",
		file: quorumFile,
		old:  "true); all.enough() {",
		new:  "true); len(all.Unreached) >= 0 {",
		and:  []patch{{quorumFile, "	if records.AloneUnknown || forgetful {", "	if records.AloneUnknown {"}},
	},
	{
		name: "those who voted before a change may be missing where everybody is asked",
		open: true,
		file: quorumFile,
		old:  "	if !before.enough() && proof.enough() {",
		new:  "	if !forgetful && !before.enough() && proof.enough() {", breaks: unsoundMemory,
	},
	{
		name: "of those who may have forgotten something none is counted as a holder",
		unit: "internal/topology TestForgetfulVoterIsCountedOnce",
		file: quorumFile,
		old:  "	switch others := len(proof.Unreached) + len(proof.Forgetful); {",
		new:  "	switch others := len(proof.Unreached); {",
	},
	{
		name: "a replica acknowledges whatever its relay log syncs",
		unit: "internal/topology TestForgetfulVotersExpose",
		file: certificatesFile,
		old:  "	case p.wanted() && unheard && row != nil && !p.mayVote(m) && ",
		new:  "	case p.wanted() && unheard && row != nil && ",
		and:  []patch{{acknowledgingFile, "return m.SQL.RelaySync == relaySynced || m.ownMemory() }", "return true }"}},
	},
	{
		name: "a voter acknowledges from disk before its relay log is synced",
		open: true,
		file: certificatesFile,
		old:  "	return m.SQL.RelaySync == relaySynced\n}",
		new:  "	return true\n}", breaks: unsoundMemory,
	},
	{
		name: "voters are admitted whose relay log is not synced",
		at:   73,
		file: votersFile,
		old:  "	if p.Lossless && m.SQL.RelaySync != relaySynced {",
		new:  "	if m.SQL.RelaySync == \"never\" {", breaks: unsoundMemory,
	},
	{
		name: "what a primary lacks was acknowledged to nobody although it may not have led last",
		unit: "internal/topology TestProofIsRemembered",
		file: quorumFile,
		old:  "		if row.Memory[row.Primary] == \"\" {",
		new:  "		if true {",
	},
	{
		name: "what a proof stood on holds although others have forgotten since",
		open: true,
		file: quorumFile,
		old:  " && !anyForgets(row, members) {",
		new:  " {", breaks: unsoundMemory,
	},
	{
		name: "a cluster goes to sleep with acknowledgements in memory",
		unit: "internal/topology TestHibernationLeavesMemory",
		file: hibernatingFile,
		old:  "	case p.leaveMemory() || p.endWrites()",
		new:  "	case p.endWrites()",
	},
	{
		name: "a cluster goes to sleep although its memories alone prove a primary",
		unit: "internal/topology TestHibernationEndsNoMemoryThatAloneProvesAPrimary",
		file: "internal/topology/next.go",
		old:  "	case d.Hibernate && p.removal.mayHibernate():",
		new:  "	case d.Hibernate:",
	},
	{
		name: "a hand-over that came to nothing is not taken back",
		unit: "internal/topology TestPromotedLeaderIsPassedOver",
		file: failoverFile,
		old:  "	p.plan.Records.takeBack(p.Members)\n",
		new:  "",
	},
	{
		name: "a promotion is taken back, or passed over, although the member may have been opened",
		unit: "internal/topology TestFailoverIsTakenBack",
		file: "internal/topology/records.go",
		old:  " && !m.SQL.Writable && m.SQL.Replication != nil &&",
		new:  " &&",
	},
	{
		name: "what a proof found is forgotten when it is carried out",
		unit: "internal/topology TestFailoverIsTakenBack",
		file: "internal/topology/records.go",
		old:  "	r.LeaderAcknowledged = recordable(proof.MayBeAcknowledged)\n",
		new:  "",
	},
	{
		name: "a failover that came to nothing is not taken back",
		unit: "internal/topology TestFailoverIsTakenBack",
		file: "internal/topology/records.go",
		old:  "	r.recordProven(to, epoch, proof)\n	r.Promotion = ended\n",
		new:  "	r.recordProven(to, epoch, proof)\n",
	},
}
