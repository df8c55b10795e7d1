package topology

// StopErrors returns what stopped the threads of a channel: lastIO and lastSQL, the last errors of its receiver and its applier.
// MySQL keeps those of a thread that STOP REPLICA stopped, and of a receiver that connects again. retries is true when the receiver
// retries after lastIO.
func StopErrors(ioState string, sqlRunning, retries bool, lastIO, lastSQL string) (receiver, applier string) {
	if ioState == ioOff && !retries {
		receiver = lastIO
	}
	if !sqlRunning {
		applier = lastSQL
	}
	return receiver, applier
}

// receiverBroken reports whether an error stopped the receiver.
func (r *Replication) receiverBroken() bool {
	return r != nil && r.IOState == ioOff && r.ReceiverError != ""
}

// applierBroken reports whether an error stopped the applier.
func (r *Replication) applierBroken() bool { return r != nil && !r.SQLRunning && r.ApplierError != "" }

// relayLogMissing reports whether the applier stands still because its relay log is missing.
func (r *Replication) relayLogMissing() bool { return r.applierBroken() && r.RelayLogMissing }

// Broken reports whether an error stopped a thread of the channel. Waiting or reconnecting does not repair that.
func (r *Replication) Broken() bool { return r.receiverBroken() || r.applierBroken() }

// stopped names the thread that an error stopped, with the error. The applier comes first: without it nothing received counts.
func (r *Replication) stopped() string {
	if r.applierBroken() {
		return "its applier stopped: " + r.ApplierError
	}
	return "its receiver stopped: " + r.ReceiverError
}

// receives says whether a member is connected to the primary as its replica.
func (o Observed) receives(m, primary *Member) bool {
	return m.verified() && m.SQL.Replication != nil && m.SQL.Replication.IOState == ioOn && o.memberAt(m.SQL.Replication.SourceHost) == primary
}

// Headroom returns how many more voters may fail before commits wait; it is negative while fewer acknowledge than a commit needs. Without
// semi-sync it is how many receive what the primary commits. It is not known without a primary that answers.
func (p Plan) Headroom(o Observed) (voters int, known bool) {
	primary := o.Members[p.Primary]
	if primary == nil || p.Membership == nil || !primary.verified() {
		return 0, false
	}
	waits := primary.SQL.SemiSync.SourceEnabled
	if waits {
		voters -= p.Membership.WaitCount()
	}
	for _, name := range p.Membership.Voters {
		m := o.Members[name]
		if m != nil && m != primary && o.receives(m, primary) && (m.SQL.SemiSync.ReplicaActive || !waits) {
			voters++
		}
	}
	return voters, true
}
