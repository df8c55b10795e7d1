package controllers

import (
	"context"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/bootstrap"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	// consoleAfter is how long a machine may be up without mysqld before its console is read, and then how often.
	consoleAfter = 15 * time.Second
	// consolePart is the part of the time for which it has been silent that lies between two such looks, consoleMost the longest.
	consolePart, consoleMost = 8, 5 * time.Minute
)

// readConsole reads the last boot stage of a member whose machine is up without mysqld, not more often than every
// consoleAfter, and the longer it is silent the less often: EC2 refreshes the console's text rarely and the call is not free. No pass
// waits for it: a later one takes the answer.
func (r *mysqlObserver) readConsole(ctx context.Context, s *scope, m *topology.Member, instanceID string) {
	n, now := s.notes, r.Clock.Now()
	since := n.detector.SilentSince(m.Name)
	pause := min(max(consoleAfter, now.Sub(since)/consolePart), consoleMost)
	if s.cloud != nil && s.observed.CloudReachable && now.Sub(since) > consoleAfter && now.Sub(n.readAt[m.Name]) > pause {
		n.readAt[m.Name] = now
		n.consoles[instanceID] = askConsole(ctx, s.cloud, instanceID, bootstrap.LastStage)
	}
	select {
	case stage := <-n.consoles[instanceID]:
		delete(n.consoles, instanceID)
		if stage != "" {
			n.stage[m.Name] = stage
		}
	default:
	}
	m.Stage = n.stage[m.Name]
}

// readStartError asks the console why mysqld did not start, of a member that had to leave its persisted settings out to do so.
func (r *mysqlObserver) readStartError(ctx context.Context, s *scope, m *topology.Member, instanceID string) {
	n, now, key := s.notes, r.Clock.Now(), instanceID+" start"
	if !m.SQL.PersistedIgnored {
		delete(n.startErrors, m.Name)
		return
	}
	if s.cloud != nil && s.observed.CloudReachable && n.startErrors[m.Name] == "" && now.Sub(n.readAt[m.Name]) > consoleAfter {
		n.readAt[m.Name] = now
		n.consoles[key] = askConsole(ctx, s.cloud, instanceID, bootstrap.LastStartError)
	}
	select {
	case message := <-n.consoles[key]:
		delete(n.consoles, key)
		n.startErrors[m.Name] = message
	default:
	}
	m.StartError = n.startErrors[m.Name]
}

// askConsole asks for what an instance printed last of some kind, empty when there is none or EC2 does not say.
func askConsole(ctx context.Context, cloud *ec2.Cloud, instanceID string, find func(console string) (string, bool)) <-chan string {
	answer := make(chan string, 1)
	go func() {
		text, err := cloud.ConsoleOutput(context.WithoutCancel(ctx), instanceID)
		if err != nil {
			text = ""
		}
		found, _ := find(text)
		answer <- found
	}()
	return answer
}
