package observe

import (
	"context"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/bootstrap"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	// consoleAfter is how long an instance may be up without mysqld before its console is read, and then how often.
	consoleAfter = 15 * time.Second
	// consolePart is the part of the time for which it has been silent that lies between two such looks, consoleMost the longest.
	consolePart, consoleMost = 8, 5 * time.Minute
)

// readConsole reads the last boot stage of a member whose instance is up without mysqld, not more often than every
// consoleAfter, and the longer it is silent the less often: EC2 refreshes the console's text rarely and the call is not free. No pass
// waits for it: a later one takes the answer.
func (r *Database) readConsole(ctx context.Context, s *pass.Pass, m *topology.Member, instanceID string) {
	n, now := s.Cache, r.Clock.Now()
	since := n.Looks.Members.Detector.SilentSince(m.Name)
	pause := min(max(consoleAfter, now.Sub(since)/consolePart), consoleMost)
	if s.Access.Cloud != nil && s.Observed.CloudReachable && now.Sub(since) > consoleAfter && now.Sub(n.Looks.ReadAt[m.Name]) > pause {
		n.Looks.ReadAt[m.Name] = now
		n.Looks.Consoles[instanceID] = askConsole(ctx, s.Access.Cloud, instanceID)
	}
	boot := n.Looks.Boots[m.Name]
	if boot.Instance != instanceID {
		boot = topology.Boot{Instance: instanceID}
	}
	select {
	case text := <-n.Looks.Consoles[instanceID]:
		delete(n.Looks.Consoles, instanceID)
		progress := bootstrap.ReadConsole(text)
		boot = boot.At(progress.Stage, progress.Failure, progress.Slow(), now)
	default:
	}
	n.Looks.Boots[m.Name], m.Boot = boot, boot
}

// readStartError asks the console why mysqld did not start, of a member that had to leave its persisted settings out to do so.
func (r *Database) readStartError(ctx context.Context, s *pass.Pass, m *topology.Member, instanceID string) {
	n, now, key := s.Cache, r.Clock.Now(), instanceID+" start"
	if !m.SQL.PersistedIgnored {
		delete(n.Settings.StartErrors, m.Name)
		return
	}
	if s.Access.Cloud != nil && s.Observed.CloudReachable && n.Settings.StartErrors[m.Name] == "" && now.Sub(n.Looks.ReadAt[m.Name]) > consoleAfter {
		n.Looks.ReadAt[m.Name] = now
		n.Looks.Consoles[key] = askConsole(ctx, s.Access.Cloud, instanceID)
	}
	select {
	case text := <-n.Looks.Consoles[key]:
		delete(n.Looks.Consoles, key)
		n.Settings.StartErrors[m.Name] = bootstrap.LastStartError(text)
	default:
	}
	m.StartError = n.Settings.StartErrors[m.Name]
}

// askConsole asks for what an instance printed, empty when EC2 does not say.
func askConsole(ctx context.Context, cloud *ec2.Cloud, instanceID string) <-chan string {
	answer := make(chan string, 1)
	go func() {
		text, err := cloud.ConsoleOutput(context.WithoutCancel(ctx), instanceID)
		if err != nil {
			text = ""
		}
		answer <- text
	}()
	return answer
}
