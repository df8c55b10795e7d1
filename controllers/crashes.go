package controllers

import (
	"context"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// crashErrorTimeout is how long a member may take to say what it logged before it crashed. No pass waits for it.
const crashErrorTimeout = 4 * time.Second

// crashError is what a member logged before it crashed.
type crashError struct {
	// message is the first that was found since the member is unstable, so that status does not change with each crash.
	message string
	// asked is the start of the mysqld that was asked last; answer carries what it said.
	asked  time.Time
	answer <-chan string
}

// readCrashErrors asks each unstable member what it logged before it crashed, once after each start until something is found.
func (r *mysqlObserver) readCrashErrors(ctx context.Context, s *pass) {
	for _, m := range s.observed.Members {
		if m.UnstableSince.IsZero() {
			delete(s.cache.looks.crashErrors, m.Name)
			continue
		}
		e := s.cache.looks.crashErrors[m.Name]
		if e == nil {
			e = &crashError{}
			s.cache.looks.crashErrors[m.Name] = e
		}
		select {
		case e.message = <-e.answer:
			e.answer = nil
		default:
		}
		if e.message == "" && e.answer == nil && m.SQL.Access == topology.AccessVerified && m.SQL.StartedAt.After(e.asked) {
			e.asked, e.answer = m.SQL.StartedAt, r.askCrashError(ctx, s, m)
		}
		m.CrashError = e.message
	}
}

// askCrashError asks a member what it logged before it crashed; the answer is empty when it does not say.
func (r *mysqlObserver) askCrashError(ctx context.Context, s *pass, m *topology.Member) <-chan string {
	answer, in := make(chan string, 1), m.CurrentInstance()
	handle := r.handle(ctx, s, m.Name, in.ID, in.Address)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), crashErrorTimeout)
	go func() {
		defer cancel()
		message, err := handle.CrashError(ctx)
		if err != nil {
			message = ""
		}
		answer <- message
	}()
	return answer
}
