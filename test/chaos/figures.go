package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// soonAfter is how long after a promotion the next one is counted as soon after it: until a failover by mere silence is paid for, and a
// little.
const soonAfter = time.Minute + 5*time.Second

// Figure is one kind of interruption that is measured again and again.
type Figure struct {
	Fault
	// aim is what the gap's p95 should stay under.
	aim time.Duration
	// cool is the pause before each repetition.
	cool time.Duration
	// quoted is what others say of theirs.
	quoted string
}

// Figures are the interruptions of which the write gap is promised.
func Figures() []Figure {
	find := func(name string) Fault {
		for _, f := range Faults() {
			if f.Name == name {
				return f
			}
		}
		panic("no fault is called " + name) // a name in this file
	}
	cut, crash, planned := find("power cut, primary"), find("mysqld kill -9, primary"), find("switchover")
	cut.Least, cut.Most = short*2, short*3
	return []Figure{
		{cut, 8 * time.Second, soonAfter, "RDS Multi-AZ instance 60–120 s, Multi-AZ cluster under 35 s, Aurora about 30 s"},
		{crash, 4 * time.Second, soonAfter, "Aurora restarts a crashed writer in under 60 s, often under 30 s"},
		{planned, 1500 * time.Millisecond, 0, "RDS reboot with failover 60–120 s, Aurora switchover under 30 s"},
	}
}

// Measure repeats every figure whose fault is wanted and returns a table in Markdown. Nothing is asserted: a stopwatch on a busy machine proves
// nothing, and a loss of data ends it all the same.
func (w *World) Measure(ctx context.Context, repeat int, cool bool, wanted func(Fault) bool) (string, error) {
	var text strings.Builder
	text.WriteString("| interruption | times | write gap p50 | p95 | max | aim (p95) | load average p50 | others say |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n")
	for _, figure := range Figures() {
		if !wanted(figure.Fault) {
			continue
		}
		var gaps, loads []time.Duration
		for range repeat {
			if cool {
				if err := pause(ctx, figure.cool); err != nil {
					return text.String(), err
				}
			}
			result, err := w.Run(ctx, figure.Fault)
			if err != nil {
				return text.String(), err
			}
			gaps, loads = append(gaps, result.Gap), append(loads, time.Duration(result.Load*float64(time.Second)))
		}
		fmt.Fprintf(&text, "| %s | %d | %s | %s | %s | %s | %.1f | %s |\n", figure.Name, len(gaps), precise(quantile(gaps, 0.5)),
			precise(quantile(gaps, 0.95)), precise(quantile(gaps, 1)), precise(figure.aim), quantile(loads, 0.5).Seconds(), figure.quoted)
	}
	return text.String(), nil
}

func precise(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

const (
	// priceClients write as fast as they can for priceTime, with each value of spec.replication.acknowledge in turn, priceTurns times: an
	// instance that is busy with something else for a moment is so to both.
	priceClients = 8
	priceTime    = 10 * time.Second
	priceTurns   = 3
	// priceWait is how long the members may take to acknowledge as the spec says.
	priceWait = 2 * time.Minute
)

// prices are the values of spec.replication.acknowledge, and sync_relay_log with each.
var prices = []struct {
	acknowledge v1alpha1.Acknowledge
	sync        int
}{{v1alpha1.AcknowledgeDisk, 1}, {v1alpha1.AcknowledgeMemory, 10000}}

// PriceOfDisk measures what it costs that a replica acknowledges only what is on its disk: writes a second with each value of
// spec.replication.acknowledge.
func (w *World) PriceOfDisk(ctx context.Context) (text string, err error) {
	s, err := w.scene(ctx)
	if err != nil {
		return "", err
	}
	c, err := w.cluster(ctx)
	if err != nil {
		return "", err
	}
	resume := w.load.Pause()
	defer resume()
	choose := func(ctx context.Context, a v1alpha1.Acknowledge) error {
		return s.edit(ctx, func(c *v1alpha1.MySQLCluster) { c.Spec.Replication.Acknowledge = a })
	}
	defer func() {
		err = errors.Join(err, choose(context.WithoutCancel(ctx), c.Spec.Replication.Acknowledge))
	}()
	figures := map[v1alpha1.Acknowledge][]float64{}
	for range priceTurns {
		for _, price := range prices {
			if err := choose(ctx, price.acknowledge); err != nil {
				return "", err
			}
			if err := w.awaitRelaySync(ctx, c, price.sync); err != nil {
				return "", err
			}
			rate, err := w.throughput(ctx)
			if err != nil {
				return "", err
			}
			figures[price.acknowledge] = append(figures[price.acknowledge], rate)
		}
	}
	text = fmt.Sprintf("| acknowledge | writes a second, of %d clients, each time %s (load average %.1f) | median |\n| --- | --- | ---: |\n", priceClients, priceTime, loadAverage())
	for _, price := range prices {
		text += fmt.Sprintf("| %s | %.0f | %.0f |\n", price.acknowledge, figures[price.acknowledge], median(figures[price.acknowledge]))
	}
	return text, nil
}

// awaitRelaySync waits until sync_relay_log has a value on every member.
func (w *World) awaitRelaySync(ctx context.Context, c *v1alpha1.MySQLCluster, want int) error {
	owner, err := w.owner(ctx)
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, time.Second, priceWait, true, func(ctx context.Context) (bool, error) {
		for _, where := range w.members(c) {
			if value, err := relaySync(ctx, owner, where); err != nil || value != want {
				return false, err
			}
		}
		return true, nil
	})
}

// relaySync is sync_relay_log of a member.
func relaySync(ctx context.Context, a access, where target) (value int, err error) {
	db, err := a.openAt(where)
	if err != nil {
		return 0, err
	}
	defer func() { _ = db.Close() }()
	err = db.QueryRowContext(ctx, "SELECT @@GLOBAL.sync_relay_log").Scan(&value)
	return value, err
}

// throughput is how many writes a second the clients get acknowledged through the Service.
func (w *World) throughput(ctx context.Context) (float64, error) {
	db, err := w.open(w.load.theService())
	if err != nil {
		return 0, err
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(priceClients)
	db.SetMaxIdleConns(priceClients)
	if _, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS price (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, text VARCHAR(100) NOT NULL)"); err != nil {
		return 0, err
	}
	var mu sync.Mutex
	var written int
	var failed error
	var clients sync.WaitGroup
	began := time.Now()
	for range priceClients {
		clients.Go(func() {
			for time.Since(began) < priceTime {
				_, err := db.ExecContext(ctx, "INSERT INTO price (text) VALUES (REPEAT('x', 100))")
				mu.Lock()
				written, failed = written+1, errors.Join(failed, err)
				stop := failed != nil
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	clients.Wait()
	return float64(written) / time.Since(began).Seconds(), failed
}

func median(values []float64) float64 {
	var times []time.Duration
	for _, v := range values {
		times = append(times, time.Duration(v*float64(time.Second)))
	}
	return quantile(times, 0.5).Seconds()
}
