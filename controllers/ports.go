package controllers

import (
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// Ports are what a pass reaches the world through.
type Ports struct {
	// Client reads the operator's own objects from a cache and writes.
	Client client.Client
	// Reader reads past the cache: users' Secrets, and what a stale cache must not be believed about.
	Reader client.Reader
	Clouds Clouds
	SQL    *mysql.Pool
	Prober *mysql.Prober
	Events events.EventRecorder
	Clock  clock.PassiveClock
	Config Config
	// Images says what the pods of backups run.
	Images *Images
	// Wake carries the clusters that are to be looked at now, as the prober wants and who knocks at a silent member.
	Wake    chan event.GenericEvent
	Metrics *Metrics
	// Upgradeable may be nil: without OLM nobody asks.
	Upgradeable Upgradeable

	caches *caches
}
