package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// coolDown is for how long the operator gives a primary that it promoted the benefit of the doubt, and a little.
const coolDown = time.Minute + 5*time.Second

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
		{cut, 8 * time.Second, coolDown, "RDS Multi-AZ instance 60–120 s, Multi-AZ cluster under 35 s, Aurora about 30 s"},
		{crash, 4 * time.Second, coolDown, "Aurora restarts a crashed writer in under 60 s, often under 30 s"},
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
	// priceClients write as fast as they can for priceTime, to each value of sync_relay_log in turn, priceTurns times: a
	// machine that is busy with something else for a moment is so to both.
	priceClients = 8
	priceTime    = 10 * time.Second
	priceTurns   = 3
)

// PriceOfSync measures what it costs that a replica's relay log is on disk before it acknowledges: writes a second with
// sync_relay_log=1 and with MySQL's default of 10000, which loses acknowledged writes in a power cut. The operator would
// put the setting back, so it is sent away meanwhile.
func (w *World) PriceOfSync(ctx context.Context) (text string, err error) {
	s, err := w.scene(ctx)
	if err != nil {
		return "", err
	}
	c, err := w.cluster(ctx)
	if err != nil {
		return "", err
	}
	owner, err := w.owner(ctx)
	if err != nil {
		return "", err
	}
	resume := w.load.Pause()
	defer resume()
	if err := s.scaleOperator(ctx, 0); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.scaleOperator(context.WithoutCancel(ctx), 1)) }()
	figures := map[int][]float64{}
	for range priceTurns {
		for _, value := range []int{1, 10000} {
			for ordinal, where := range w.members(c) {
				if err := set(ctx, owner, where, value); err != nil {
					return "", fmt.Errorf("member %d: %w", ordinal, err)
				}
			}
			rate, err := w.throughput(ctx)
			if err != nil {
				return "", err
			}
			figures[value] = append(figures[value], rate)
		}
	}
	for _, where := range w.members(c) {
		if err := set(ctx, owner, where, 1); err != nil {
			return "", err
		}
	}
	text = fmt.Sprintf("| sync_relay_log | writes a second, of %d clients, each time %s (load average %.1f) | median |\n| ---: | --- | ---: |\n", priceClients, priceTime, loadAverage())
	for _, value := range []int{1, 10000} {
		text += fmt.Sprintf("| %d | %.0f | %.0f |\n", value, figures[value], median(figures[value]))
	}
	return text, nil
}

// set sets sync_relay_log, which has its effect with the next transaction that is received.
func set(ctx context.Context, a access, where target, value int) error {
	db, err := a.openAt(where)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(ctx, fmt.Sprintf("SET GLOBAL sync_relay_log = %d", value))
	return err
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
