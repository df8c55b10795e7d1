package conn

import (
	"crypto/tls"
	"sync"
	"time"
)

// resumption keeps what the next TLS session with one server resumes the last one with (RFC 8446, section 2.2), so that neither side
// proves itself by certificate again: each proves that it has the keys of the one that did. crypto/tls looks again whether the
// server's certificate of then has its name, has not expired and comes from a CA that we trust now.
//
// The new session's keys come from the old one's secrets and from a new key agreement, of which an elliptic curve is enough: whoever
// could solve that one day would still lack the old secrets, and those were agreed on with whatever the server knows (ML-KEM). That
// makes a resumed handshake cheaper by a fifth. A server that does not resume is called once more, with everything to choose from.
//
// It implements tls.ClientSessionCache for one server, and keeps bytes, which take a third of the memory.
type resumption struct {
	mu            sync.Mutex
	ticket, state []byte       // of tls.ClientSessionState
	shown         *credentials // what we proved ourselves with
}

// agreedBriefly are the key agreements that a session offers which resumes another.
var agreedBriefly = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384}

// of returns r for a connection that shows these credentials now. What other ones began is not resumed; nor is anything once our
// certificate has expired, at which a server looks no more when it resumes.
func (r *resumption) of(shown *credentials, now time.Time) *resumption {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shown != shown || now.After(shown.certificate.Leaf.NotAfter) {
		r.ticket, r.state, r.shown = nil, nil, shown
	}
	return r
}

// kept says whether there is something to resume.
func (r *resumption) kept() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ticket != nil
}

// forget makes the next connection begin anew.
func (r *resumption) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ticket, r.state, r.shown = nil, nil, nil
}

func (r *resumption) Get(string) (*tls.ClientSessionState, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ticket == nil {
		return nil, false
	}
	state, err := tls.ParseSessionState(r.state)
	if err != nil {
		return nil, false
	}
	session, err := tls.NewResumptionState(r.ticket, state)
	return session, err == nil
}

func (r *resumption) Put(_ string, session *tls.ClientSessionState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ticket, r.state = nil, nil
	if session == nil || r.shown == nil {
		return
	}
	ticket, state, err := session.ResumptionState()
	if err != nil || state == nil {
		return
	}
	if encoded, err := state.Bytes(); err == nil {
		r.ticket, r.state = ticket, encoded
	}
}
