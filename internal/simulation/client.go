package simulation

// Client is an application's connection: it goes where the primary Service leads, and stays where it is while that works.
type client struct {
	w    *world
	n    int
	conn *mysqld
	// turn counts the attempts, so that an answer that comes after the client gave up is not taken for another's.
	turn int
	// healthy is when the client last saw OK.
	healthy int64
}

func (c *client) again(low, high int64) { c.w.after(c.w.between(low, high), c.act) }

// act is one attempt to write a row.
func (c *client) act() {
	w := c.w
	if w.gone || w.quiet || w.desired.Deleting {
		return
	}
	if c.conn == nil || !c.conn.alive() {
		c.conn = w.serverAt(w.kube.primary)
	}
	s := c.conn
	switch {
	case s == nil || !w.net.open(clientNode, s.on.node) || s.on.frozen:
		// A broken connection is noticed after a while; the next goes wherever the Service leads then.
		if w.chance(60) {
			c.conn = nil
		}
		c.again(second/2, 4*second)
		return
	case !s.writable && s.sourceEnabled && s.st.source == "" && w.shape.volumesLost == 0 && w.chance(30):
		// XA COMMIT of a transaction that was prepared before passes super_read_only (fact 35). Beside a lost volume it may
		// leave two members that each hold what the lost one may have acknowledged, and no proof.
		w.say("%s: a prepared transaction is committed although it is read-only", s.on.member)
	case !s.writable:
		if w.chance(80) {
			c.conn = nil
		}
		c.again(second/4, 2*second)
		return
	}
	c.turn++
	turn := c.turn
	var made *commit
	made = s.commit(transaction{client: c.n}, func(ok bool) { c.answer(s, turn, func() int { return made.id }, ok) })
	// Time-outs of clients differ.
	w.after(w.between(5*second, 40*second), func() {
		if c.turn == turn {
			c.turn++
			c.conn = nil
			c.act()
		}
	})
}

// commitPrepared lets clients commit what they had prepared on a server that has just become read-only, in a schedule that is
// about that.
func (w *world) commitPrepared(s *mysqld) {
	if !w.shape.prepared || w.shape.volumesLost > 0 {
		return // as above
	}
	for n := range 4 {
		w.after(w.between(0, second), func() { commitOnePrepared(s, n) })
	}
}

// commitOnePrepared lets a client commit what it had prepared, if the server is read-only and has no source.
func commitOnePrepared(s *mysqld, n int) {
	if !s.alive() || s.writable || !s.sourceEnabled || s.st.source != "" || s.on.frozen {
		return
	}
	c := &client{w: s.w, n: n}
	var made *commit
	made = s.commit(transaction{client: n}, func(ok bool) { c.answer(s, -1, func() int { return made.id }, ok) })
	s.w.say("%s: a prepared transaction is committed although it is read-only", s.on.member)
}

// answer brings the server's word to the client, if the network lets it.
func (c *client) answer(s *mysqld, turn int, id func() int, ok bool) {
	w := c.w
	w.after(w.between(0, 10), func() {
		if !w.net.passes(s.on.node, clientNode) || w.chance(0.3) {
			return // nobody knows
		}
		if ok && w.covered(id()) {
			w.acked.add(id())
			w.roles = true
		}
		if c.turn != turn {
			return
		}
		c.turn++
		if ok {
			c.healthy = w.now
			c.again(100, 3*second)
			return
		}
		c.conn = nil
		c.again(100, second)
	})
}
