package insights

import (
	"context"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Alert is one that Alertmanager sent.
type Alert struct {
	Labels map[string]string
	// Began is since when its expression held for as long as it must, Ended when that ended; zero while it fires.
	Began, Ended time.Time
}

// Name of the alert.
func (a Alert) Name() string { return a.Labels["alertname"] }

// The paths of pages.
const (
	alertsPath  = "/alerts"
	targetsPath = "/targets/"
)

// pages takes what Alertmanager sends, as a pager would, and tells Prometheus what there is to scrape.
type pages struct {
	server   *http.Server
	listener net.Listener

	mu    sync.Mutex
	fired map[string]Alert // by fingerprint and beginning
}

func listen(ctx context.Context, address string) (*pages, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	p := &pages{listener: listener, server: &http.Server{ReadHeaderTimeout: Interval}, fired: map[string]Alert{}}
	return p, nil
}

// serve answers from now on.
func (p *pages) serve(found map[string]finder) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+alertsPath, p.take)
	for job, find := range found {
		mux.HandleFunc("GET "+targetsPath+job, func(w http.ResponseWriter, r *http.Request) {
			groups, err := find(r.Context())
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError) // Prometheus keeps what it knows
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(groups)
		})
	}
	p.server.Handler = mux
	go func() { _ = p.server.Serve(p.listener) }()
}

func (p *pages) url() string { return "http://" + p.listener.Addr().String() }

func (p *pages) close() error {
	_ = p.listener.Close() // the server closes it as well, once it serves
	return p.server.Close()
}

// take takes one message of Alertmanager's webhook, https://prometheus.io/docs/alerting/latest/configuration/#webhook_config.
func (p *pages) take(w http.ResponseWriter, r *http.Request) {
	var message struct {
		Alerts []struct {
			Status      string            `json:"status"`
			Labels      map[string]string `json:"labels"`
			StartsAt    time.Time         `json:"startsAt"`
			EndsAt      time.Time         `json:"endsAt"`
			Fingerprint string            `json:"fingerprint"`
		} `json:"alerts"`
	}
	if err := json.NewDecoder(r.Body).Decode(&message); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range message.Alerts {
		alert := Alert{Labels: a.Labels, Began: a.StartsAt}
		if a.Status == "resolved" {
			alert.Ended = a.EndsAt
		}
		p.fired[a.Fingerprint+a.StartsAt.String()] = alert
	}
}

func (p *pages) all() []Alert {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.SortedFunc(maps.Values(p.fired), func(a, b Alert) int { return a.Began.Compare(b.Began) })
}
