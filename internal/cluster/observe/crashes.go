package observe

import (
	"context"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// crashErrorTimeout is how long a member may take to say what it logged before it crashed. No pass waits for it.
const crashErrorTimeout = 4 * time.Second

// readCrashErrors asks each member whose mysqld crashes repeatedly what it logged, once after each start until something is found.
func (r *Database) readCrashErrors(ctx context.Context, s *pass.Pass) {
	for _, m := range s.Observed.Members {
		if !m.Unstable.MySQLD {
			delete(s.Cache.Looks.CrashErrors, m.Name)
			continue
		}
		e := s.Cache.Looks.CrashErrors[m.Name]
		if e == nil {
			e = &pass.CrashError{}
			s.Cache.Looks.CrashErrors[m.Name] = e
		}
		select {
		case e.Message = <-e.Answer:
			e.Answer = nil
		default:
		}
		if e.Message == "" && e.Answer == nil && m.SQL.Access == topology.AccessVerified && m.SQL.StartedAt.After(e.Asked) {
			e.Asked, e.Answer = m.SQL.StartedAt, r.askCrashError(ctx, s, m)
		}
		m.CrashError = e.Message
	}
}

// askCrashError asks a member what it logged before it crashed; the answer is empty when it does not say.
func (r *Database) askCrashError(ctx context.Context, s *pass.Pass, m *topology.Member) <-chan string {
	answer, in := make(chan string, 1), m.CurrentInstance()
	handle := r.handle(s, m.Name, in.ID, in.Address)
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
